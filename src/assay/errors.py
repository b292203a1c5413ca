"""Errors shown to people and programs.

AssayError
├── UsageError      the command line or an argument is wrong
├── ConfigError     assay.toml, a profile or a method file is wrong
├── StoreError      a run cannot be written or read
├── LaunchError     nothing could be started on a target
├── NoVerdict       too little was seen to judge; ends a verb with exit code 3
└── Refused         an action was not consented to
"""

from __future__ import annotations


class AssayError(Exception):
    """What happened, in one sentence; `hint` says what to do next. Ends a verb with exit code 2."""

    code = "error"
    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AssayError):
    """The command line or an argument is wrong."""

    code = "usage"


class ConfigError(AssayError):
    """A configuration, profile or method file is missing, unreadable or wrong."""

    code = "config"


class StoreError(AssayError):
    """A run cannot be written or read; earlier evidence is untouched."""

    code = "store"


class LaunchError(AssayError):
    """Nothing could be started on a target."""

    code = "launch"


class NoVerdict(AssayError):  # noqa: N818 - that is what there is
    """Too little was seen to judge: a scheduler that does not answer, no node to look at. Ends with exit code 3."""

    code = "no-verdict"
    exit_code = 3


class Refused(AssayError):  # noqa: N818 - "refused" is what happened
    """An action needs consent that was not given."""

    code = "refused"
