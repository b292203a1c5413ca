"""Compare facts written down by hand under neutral names with what a parser made, under names of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SAME = {
    "temperature": "temp", "memory": "mem", "fb": "mem", "vram": "mem", "utilization": "util", "utilisation": "util",
    "activity": "util", "cap": "limit", "maximum": "max", "minimum": "min", "avg": "average", "clk": "clock",
    "clocks": "clock", "instantaneous": "instant", "inst": "instant", "bdf": "bus", "addr": "address", "ver": "version",
    "megabytes": "mib", "mb": "mib", "watts": "w", "degrees": "c", "celsius": "c", "percent": "pct",
    "uncorr": "uncorrectable", "uncorrected": "uncorrectable", "ue": "uncorrectable", "corrected": "correctable",
    "corr": "correctable", "ce": "correctable", "err": "error", "remap": "remapped", "perf": "performance",
    "pstate": "performance", "gen": "generation", "persist": "persistence", "proc": "process", "ok": "pass",
}  # fmt: skip
_FILLERS = frozenset({
    "count", "num", "number", "of", "n", "the", "total", "elements", "current", "mode", "state", "enabled", "is", "has",
    "list", "names", "pci", "draw", "rows", "row", "id", "all", "c", "w", "mhz", "mib", "pct", "gbps", "gbs", "us",
})  # fmt: skip
_BUS = re.compile(r"^(?:0000)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])$")
_TRUE, _FALSE = (
    frozenset({"yes", "enabled", "on", "active", "true"}),
    frozenset({"no", "disabled", "off", "not active"}),
)
_UNSAID = ("", "n/a", "[n/a]")


class Either(list[Any]):
    """The same fact in several shapes: one that agrees is enough."""


def differences(view: Any, facts: dict[str, Any], where: str = "") -> list[str]:
    """Every expected fact that the view does not have or has otherwise, in words."""
    found = []
    for name, want in facts.items():
        known = Either(candidates(view, name))
        if not known:
            found.append(f"{where}{name}: no such fact; known: {sorted(map(str, view))}")
        elif not agrees(known, want, name):
            got = known[0] if len(known) == 1 else list(known)
            found.append(f"{where}{name}: {got!r} instead of {want!r}")
    return found


def candidates(view: dict[str, Any], name: str) -> list[Any]:
    """Values that `name` may mean: its own, else those of names that say the same, one level down, or per device."""
    if name in view:
        return [view[name]]
    wanted, loose = _words(name), _words(name, _FILLERS)
    flat = list(_flat(view))
    same = [value for key, value in flat if _words(key) == wanted]
    same = same or [value for key, value in flat if loose and _words(key, _FILLERS) == loose]
    return same or [value for value in _columns(view, name) if value]


def _words(name: str, without: frozenset[str] = frozenset()) -> frozenset[str]:
    """The words of a name without regard to order, plural and spelling."""
    parts = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_").split("_")
    known = {_SAME.get(part, part) for part in parts} - without
    return frozenset(
        _SAME.get(one := part[:-1] if len(part) > 3 and part.endswith("s") else part, one) for part in known
    )


def _flat(view: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in view.items():
        yield str(key), value
        if isinstance(value, dict):
            yield from ((f"{key}_{inner}", found) for inner, found in value.items())


def _columns(view: dict[str, Any], name: str) -> Iterator[list[Any]]:
    """The fact of every device, from a list of devices."""
    for value in view.values():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            found = [next(iter(candidates(one, name)), None) for one in value]
            yield found if any(one is not None for one in found) else []


def agrees(got: Any, want: Any, name: str = "") -> bool:
    """True when the two say the same; numbers may be texts, a number may stand for the length of a list."""
    if isinstance(got, Either):
        return any(agrees(one, want, name) for one in got)
    if isinstance(want, dict):
        return isinstance(got, dict) and not differences(got, want)
    if isinstance(want, list):
        return isinstance(got, list | tuple) and _lists(list(got), want)
    if want is None or _unsaid(want):
        return got is None or got == [] or _unsaid(got)
    if isinstance(want, str):
        return _texts(got, want, name)
    return _flag(got) is want if isinstance(want, bool) else _close(_number(got), want)


def _close(got: float | None, want: float) -> bool:
    return got is not None and abs(got - want) <= 1e-6 * abs(want) + 1e-12


def _lists(got: list[Any], want: list[Any]) -> bool:
    if len(got) != len(want):
        return False
    same = all(agrees(g, w) for g, w in zip(got, want, strict=True))
    return same or (all(isinstance(w, str) for w in want) and sorted(map(str, got)) == sorted(want))


def _unsaid(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in _UNSAID


def _flag(value: Any) -> bool | None:
    word = str(value).lower() if isinstance(value, str | bool) else ""
    return True if word in _TRUE else False if word in _FALSE or word == "false" else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, list | tuple | dict):
        return len(value)
    found = re.match(r"^\[?(-?\d+(?:\.\d+)?)(?:\s*[A-Za-z%°/]*)\]?$", str(value).strip())
    return float(found[1]) if found else None


def _texts(got: Any, want: str, name: str) -> bool:
    if isinstance(got, list | tuple) and len(got) == 1:
        return _texts(got[0], want, name)
    if isinstance(got, bool):
        return _flag(want) is got
    if isinstance(got, int | float):
        return str(got) == want or f"{got:g}" == want or _number(want) == got
    if not isinstance(got, str):
        return False
    if name.endswith("_contains"):
        return want.lower() in got.lower()
    one, other = (_BUS.match(text.lower()) for text in (got, want))
    return got.lower() == want.lower() or bool(one and other and one[1] == other[1])
