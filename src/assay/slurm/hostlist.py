"""Hostlists: `gpu[01-04,07],login1`, `r[1-2]n[01-16]`, `x-[1-3]y`.

Slurm's order and repetitions carry meaning (ranks, allocations), and a NodeSet keeps neither, so expanding is our own;
folding, where both do not matter, is ClusterShell's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay.slurm.words import outside, said

MOST = 200_000  # names in one hostlist: more than any cluster has nodes
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,9}))?)?")
_NAME = re.compile(r"[\w.:%/@+~-]+")
_NUMBERED = re.compile(r"[\w.-]*[A-Za-z_.-]\d+")


def expand(text: str | None) -> list[str]:
    """Every name in the order written, repetitions kept; [] for (null). Raises ValueError for what is no hostlist."""
    value = said(text)
    found: list[str] = []
    for part in outside(value, "[]") if value else ():
        found.extend(itertools.islice(_names(part), MOST + 1 - len(found)))
        if len(found) > MOST:
            raise ValueError(f"a hostlist of more than {MOST} names")
    return found


def _names(part: str) -> Iterator[str]:
    if not _NAME.fullmatch(_BRACKET.sub("0", part)):
        raise ValueError(f"not a hostlist: {part!r}")
    pieces = _BRACKET.split(part)
    if len(pieces) == 1:
        return iter((part,))
    axes = [[piece] if i % 2 == 0 else _numbers(piece) for i, piece in enumerate(pieces)]
    return map("".join, itertools.product(*axes))


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        span = _RANGE.fullmatch(part.strip())
        if not span:
            raise ValueError(f"not a range: [{text}]")
        low, high, step = int(span[1]), int(span[2] or span[1]), int(span[3] or 1)
        if high < low or step < 1 or (high - low) // step + len(found) > MOST:
            raise ValueError(f"not a range: [{text}]")
        width = len(span[1])
        found += [f"{n:0{width}d}" for n in range(low, high + 1, step)]
    return found


def count(text: str | None) -> int:
    """Names in a hostlist. Raises ValueError for what is none."""
    return len(expand(text))


def hosts(text: str | None) -> tuple[str, ...]:
    """`expand`, with () for what is no hostlist (a list cut at a column's width)."""
    try:
        return tuple(expand(text))
    except ValueError:
        return ()


def fold(names: Sequence[str]) -> str:
    """The names as Slurm takes them back: each once, sorted, brackets only at the end of a name."""
    numbered = [name for name in names if _NUMBERED.fullmatch(name)]
    plain = sorted(set(names) - set(numbered))
    if len(numbered) < 2:
        return ",".join((*dict.fromkeys(numbered), *plain))
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # noqa: PLC0415 - slow to import, wanted only here

    nodes = NodeSet.fromlist(numbered, resolver=RESOLVER_NOGROUP)
    nodes.fold_axis = (-1,)
    return ",".join((str(nodes), *plain))


def show_hostnames(text: str) -> tuple[str, ...]:
    """`scontrol show hostnames`: one name a line. Raises ValueError for another text (an error of scontrol)."""
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found or not all(_NAME.fullmatch(name) for name in found):
        raise ValueError("not the output of scontrol show hostnames")
    return found


FORMATS: dict[str, Callable[[str], Any]] = {"scontrol show hostnames": show_hostnames}
