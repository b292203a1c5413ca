"""Numbers with a source and a date (TOML beside this file), and the types they are read into.

A method is a directory of such files. Rules never hold a number: they take a profile as a parameter.
"""

from __future__ import annotations

import importlib.resources
import math
import os
import sys
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Struct

from assay.errors import ConfigError, NoVerdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every profile; `file` is its name in a method directory."""

    file: ClassVar[str]


P = TypeVar("P", bound=Profile)


class Profiles:
    """The profiles of one method: the shipped ones; files in `directory` take the place of those of the same name."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._read: dict[type[Profile], Profile] = {}

    def get(self, kind: type[P]) -> P:
        """The profile of this type; NoVerdict when it is unreadable, empty or does not fit its schema.

        A table of numbers that cannot be read is no reason to find nothing wrong.
        """
        if kind not in self._read:
            try:
                self._read[kind] = decode(kind, self.text(kind.file), kind.file)
            except ConfigError as e:
                raise NoVerdict(f"nothing can be judged: {e.message}", hint=e.hint) from e
        return self._read[kind]  # type: ignore[return-value]

    def text(self, file: str) -> str:
        """The text of one profile file."""
        own = self.directory / file if self.directory else None
        try:
            if own and os.path.lexists(own):  # a link into nowhere is no leave to use the shipped one
                return own.read_text(encoding="utf-8")
            return importlib.resources.files(__name__).joinpath(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(f"cannot read the profile {file}: {e}", hint="assay doctor") from e

    def put(self, profile: Profile) -> None:
        """Use this value instead of a file."""
        self._read[type(profile)] = profile


def decode(kind: type[P], text: str, file: str) -> P:
    """Check a TOML text against a profile's schema."""
    try:
        return msgspec.convert(tomllib.loads(text, parse_float=_finite), kind)
    except (ValueError, msgspec.ValidationError, RecursionError) as e:
        raise ConfigError(f"{file}: {e}", hint="compare it with the shipped file of the same name") from e


def _finite(number: str) -> float:
    """No comparison with NaN fails anybody."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is no bar")
    return value


def shipped_names() -> list[str]:
    """The names of the shipped profiles."""
    return sorted(e.name for e in importlib.resources.files(__name__).iterdir() if e.name.endswith(".toml"))
