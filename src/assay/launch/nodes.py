"""Node sets: `gpu[01-04],login1` and back. ClusterShell is imported only where a range is."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from assay.errors import UsageError
from assay.model import TargetKind

FIRST = 8  # names shown of a set that is not folded
LIMIT = 100_000  # nodes in one range
_RANGE = re.compile(r"(\d+)-(\d+)")
_PLAIN = re.compile(r"[A-Za-z0-9_.:%-]+")


def expand(nodeset: str) -> list[str]:
    """Names in a folded set, each once. Raises UsageError for what is no node set."""
    names = _expanded(nodeset) if "[" in nodeset else [name.strip() for name in nodeset.split(",") if name.strip()]
    if wrong := [name for name in names if not _PLAIN.fullmatch(name) or name.startswith("-")]:
        raise UsageError(f"{wrong[0]!r} is not a node name", hint="write nodes as gpu[01-08],login1")
    return list(dict.fromkeys(names))


def _expanded(nodeset: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - only for ranges

    if any(int(b) - int(a) >= LIMIT for a, b in _RANGE.findall(nodeset)):
        raise UsageError(f"{nodeset!r} names more than {LIMIT} nodes")
    try:
        return [str(name) for name in NodeSet(nodeset, resolver=RESOLVER_NOGROUP)]
    except NodeSetException as e:
        raise UsageError(f"{nodeset!r} is not a node set: {e}", hint="write nodes as gpu[01-08],login1") from e


def fold(names: Sequence[str]) -> str:
    """The shortest way to write the names: gpu[01-02]. Names that fold in no way are joined by commas."""
    if len(names) < 2 or not all(_PLAIN.fullmatch(name) for name in names):
        return ",".join(names)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - only for sets

    try:
        return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(names)


def describe(names: Sequence[str], kind: TargetKind) -> str:
    """A set of nodes for people: folded on Slurm, where names follow its rules; else the count and the first names."""
    if kind == "slurm":
        return fold(names)
    shown = ",".join(names[:FIRST])
    return f"{len(names)} nodes: {shown},..." if len(names) > FIRST else shown


def folder(kind: TargetKind) -> Callable[[Sequence[str]], str]:
    """`describe` for the nodes of one kind of target."""
    return functools.partial(describe, kind=kind)
