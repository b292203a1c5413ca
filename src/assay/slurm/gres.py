"""Generic resources: `gpu:h100:8(S:0-1),shard:h100:32`, `gpu:h100:3(IDX:0,4-5)`, `(null)`."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from assay.slurm.words import amount, outside, said

_ENTRY = re.compile(r"(?:gres[:/])?([\w.-]+)((?:[:/=](?:\(null\)|[^:=()\s]+))*)((?:\([^()]*\))*)")
_PART = re.compile(r"[:=](\(null\)|[^:=]+)")
_PAREN = re.compile(r"\(([A-Za-z]+):([^()]*)\)")
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MIG = re.compile(r"(?:^|[_.-])\d+g\.\d+gb", re.IGNORECASE)
_MOST = 65536
_NOT_GRES = frozenset({"cpu", "mem", "node", "billing", "energy", "license", "bb", "fs", "vmem", "pages"})


class Gres(Struct, frozen=True, omit_defaults=True):
    """One entry. `type` None: untyped; `indices` None = Slurm does not say which; `IDX:N/A`, none in use, gives ()."""

    name: str
    type: str | None = None
    count: int = 1
    sockets: tuple[int, ...] | None = None
    indices: tuple[int, ...] | None = None
    no_consume: bool = False

    @property
    def mig(self) -> bool:
        """A slice of a GPU (`1g.10gb`), not a GPU."""
        return self.type is not None and bool(_MIG.search(self.type))


@functools.lru_cache(maxsize=4096)
def gres(text: str | None) -> tuple[Gres, ...]:
    """All entries of a Gres, GresUsed, TresPerNode or gres_detail text. Raises ValueError for what is none."""
    value = said(text)
    if value is None:
        return ()
    found = (_entry(part) for part in outside(value, "()"))
    return tuple(g for g in found if g.name not in _NOT_GRES)


def gres_or_none(text: str | None) -> tuple[Gres, ...] | None:
    """`gres`, with None where nothing is said or the text is no list of resources (a column cut at its width)."""
    try:
        return None if text is None else gres(text)
    except ValueError:
        return None


def _entry(text: str) -> Gres:
    found = _ENTRY.fullmatch(text)
    if not found:
        raise ValueError(f"not a generic resource: {text!r}")
    name, tail, parens = found.groups()
    parts = _PART.findall(tail)
    count = amount(parts[-1]) if parts else 1
    if count is None:
        count = 1
    else:
        parts = parts[:-1]
    types = [p for p in parts if p not in ("no_consume", "(null)")]
    notes = {key.upper(): value for key, value in _PAREN.findall(parens)}
    return Gres(
        name=name,
        type=":".join(types) or None,
        count=int(count),
        sockets=indices(notes["S"]) if "S" in notes else None,
        indices=indices(notes["IDX"]) if "IDX" in notes else None,
        no_consume="no_consume" in parts,
    )


def indices(text: str) -> tuple[int, ...]:
    """`0-3,5` -> (0, 1, 2, 3, 5); `N/A` -> (). Raises ValueError for anything else."""
    found: list[int] = []
    for part in () if said(text) is None else text.split(","):
        span = _RANGE.fullmatch(part.strip())
        if not span:
            raise ValueError(f"not a list of indices: {text!r}")
        found += range(int(span[1]), int(span[2] or span[1]) + 1)
        if len(found) > _MOST:
            raise ValueError("more indices than any node has devices")
    return tuple(found)


def total(found: tuple[Gres, ...] | None, name: str = "gpu") -> int | None:
    """The count of one resource over its types; 0 when the list names none, None when nothing is said."""
    return None if found is None else sum(g.count for g in found if g.name == name)


def by_type(found: tuple[Gres, ...], name: str = "gpu") -> dict[str, int]:
    """Type -> count; "" is untyped."""
    counts: dict[str, int] = {}
    for g in found:
        if g.name == name:
            counts[g.type or ""] = counts.get(g.type or "", 0) + g.count
    return counts
