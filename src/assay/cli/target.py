"""Options that several verbs share: the target, the choice of checks, the method."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from assay.audit.select import Selection
from assay.errors import ConfigError, UsageError
from assay.model import Target
from assay.profiles import Profiles, shipped_names


def selection_options(f: Callable[..., Any]) -> Callable[..., Any]:
    """--only, --skip, --category (gathered into `selection`) and --method."""

    @click.option("--only", multiple=True, metavar="GLOB", help="Only checks whose name matches, e.g. 'nvidia.*'.")
    @click.option("--skip", multiple=True, metavar="GLOB", help="Leave out checks whose name matches.")
    @click.option("--category", multiple=True, metavar="NAME", help="Only checks of this category.")
    @click.option("--method", metavar="DIR", help="A directory of profiles that take the place of the shipped ones.")
    @functools.wraps(f)
    def wrapped(
        *args: Any, only: tuple[str, ...], skip: tuple[str, ...], category: tuple[str, ...], **kwargs: Any
    ) -> Any:
        return f(*args, selection=Selection(only, skip, category), **kwargs)

    return wrapped


def wait_options(f: Callable[..., Any]) -> Callable[..., Any]:
    """--wait and --only-idle (gathered into `wait_s`)."""

    @click.option(
        "--wait", type=click.IntRange(min=1), metavar="SECONDS",
        help="Slurm: wait in the queue for nodes that are busy, so long at most.",
    )  # fmt: skip
    @click.option("--only-idle", is_flag=True, help="Slurm: leave out busy nodes and name them. The default.")
    @functools.wraps(f)
    def wrapped(*args: Any, wait: int | None, only_idle: bool, **kwargs: Any) -> Any:
        if wait and only_idle:
            raise UsageError("--wait and --only-idle exclude each other")
        return f(*args, wait_s=float(wait or 0), **kwargs)

    return wrapped


def method_profiles(directory: str | None) -> Profiles:
    """The profiles of a method: those in `directory` (else in the user's own directory) before the shipped ones."""
    from assay.launch.config import user_profiles

    if directory is None:
        own = user_profiles()
        return Profiles(own if os.path.isdir(own) else None)  # noqa: PTH112 - somebody else's home is closed
    path = Path(directory)
    if not path.is_dir():
        raise ConfigError(f"{directory} is no directory of profiles", hint="METHOD.md says what a method is")
    names = shipped_names()
    if not any(os.path.lexists(path / name) for name in names):
        raise ConfigError(f"{directory} holds no profile", hint=f"METHOD.md says what a method is: {', '.join(names)}")
    return Profiles(path)


def chosen_target(name: str | None, *, yes: bool) -> Target:
    """The target called `name`; without a name this machine, once a person on a terminal has agreed."""
    from assay.launch.config import find

    if name:
        return find(name)
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "no target given", hint="name one (`assay audit local`), or pass --yes to audit this machine"
            )
        click.confirm("Audit this machine? (read-only)", abort=True, err=True, default=True)
    return find("local")
