"""Which checks a person asked for and which probes those need. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from assay.checks.registry import Check
from assay.errors import UsageError
from assay.facts.source import Source
from assay.model import CATEGORIES, Probe, TargetKind

LONGEST = 200
"""Characters of a glob over names: matching takes time that grows with their square."""
ALWAYS = ("host.identity", "host.emulated")
LOAD = ("storage.mounts", "slurm.session", "slurm.login")
"""What says where two nodes can try what they share."""


class Selection(Struct, frozen=True):
    """Globs over check names, and categories; empty = everything."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """True when nothing was left out."""
        return not (self.only or self.skip or self.categories)


def selected(checks: Mapping[str, Check], wanted: Selection, without: Iterable[str] = ()) -> list[Check]:
    """The checks that match; UsageError for a pattern or category that matches none."""
    for pattern in (*wanted.only, *wanted.skip):
        if len(pattern) > LONGEST:
            raise UsageError(f"{pattern[:40]!r}... is longer than any check's name")
        if not any(fnmatchcase(name, pattern) for name in checks):
            raise UsageError(f"no check matches {pattern!r}", hint="assay explain lists them")
    for category in wanted.categories:
        if category not in CATEGORIES:
            raise UsageError(f"no category {category!r}", hint=f"one of: {', '.join(CATEGORIES)}")
    out = (*wanted.skip, *without)
    return [
        check
        for name, check in checks.items()
        if not any(fnmatchcase(name, p) for p in out)
        and (not wanted.only or any(fnmatchcase(name, p) for p in wanted.only))
        and (not wanted.categories or check.category in wanted.categories)
    ]


def probes(
    checks: Iterable[Check], sources: Mapping[str, Source], kind: TargetKind, *, everything: bool, load: bool = False
) -> list[Probe]:
    """The probes whose facts these checks read; all of them for a full audit, since evidence outlives the rules.

    The scheduler is asked where it is the way in; two nodes try what they share only under `load`.
    """
    needed = {fact for check in checks for fact in check.needs}
    named = (*ALWAYS, *LOAD) if load else ALWAYS
    there = (
        s
        for s in sources.values()
        if s.probe.place == "node" or (kind == "slurm" and (load or s.probe.place == "scheduler"))
    )
    return [s.probe for s in there if everything or s.fact in needed or s.probe.name in named]
