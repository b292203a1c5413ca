"""`--load`: two nodes try together what they should share, once a person has agreed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from assay.audit.gaps import tried
from assay.audit.task import Task
from assay.audit.together import prepared, try_together
from assay.audit.trial import AT_MOST, Place, Trial
from assay.errors import NoVerdict, UsageError
from assay.launch.slurm_pair import EACH_S
from assay.model import Target
from assay.profiles import Profiles
from assay.profiles.host import Host
from assay.run.store import Run

EFFECT = (
    "load: up to 16 MiB and 2,400 small files in a subdirectory of their own, which they take away again; "
    f"seconds, at most {EACH_S:.0f} s a directory"
)


def load_option(f: Callable[..., Any]) -> Callable[..., Any]:
    """--load."""
    words = (
        "Slurm: two nodes also try together what they should share: the user's home and shared file systems "
        f"({AT_MOST} directories at most). Writes there; asks before."
    )
    return click.option("--load", is_flag=True, help=words)(f)


def check_load(target: Target, *, load: bool, yes: bool) -> None:
    """Raise UsageError now for what would be refused once the audit is through."""
    if load and target.kind != "slurm":
        raise UsageError("--load tries storage between nodes of a Slurm cluster", hint="leave it out for this target")
    if load and not yes and not _terminal():
        raise UsageError("--load writes files and there is nobody to ask", hint="pass --yes to agree beforehand")


def try_storage(run: Run, task: Task, profiles: Profiles, *, yes: bool) -> None:
    """Have two nodes try what they share, where the run is to hold that; what stands in the way is said."""
    if not task.at("pair") or tried(run):
        return
    try:
        trial, now = prepared(run, task, profiles.get(Host).filesystems)
    except NoVerdict as e:
        click.echo(f"not tried between nodes: {e.message}" + (f" ({e.hint})" if e.hint else ""), err=True)
        return
    click.echo("\n".join(_words(trial)), err=True)
    if yes or (_terminal() and click.confirm("Try it?", err=True)):
        try_together(run, task, trial, now)
    else:
        click.echo("not tried between nodes: nobody agreed", err=True)


def place_words(place: Place) -> str:
    """A directory and what lies there."""
    return f"{place.path}  ({place.fstype or 'file system not known'}{f' of {place.source}' if place.source else ''})"


def _words(trial: Trial) -> list[str]:
    ssh = ["    and each goes to the other by ssh"] if trial.ssh else []
    first, second = trial.group.nodes
    return [f"{first} and {second} try together, {EFFECT}:", *(f"    {place_words(p)}" for p in trial.places), *ssh]


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
