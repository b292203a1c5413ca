"""How the tests on field outputs of Slurm find cases and compare views with expected facts."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from assay.slurm.gres import Gres, gres_or_none

FIELD = pathlib.Path(__file__).resolve().parents[2] / "shared/field"
View = dict[str, Any]


class Alt(tuple[Any, ...]):
    """One of several values that the same neutral name is used for in different files."""

    __slots__ = ()


class Lazy(dict[str, Any]):
    """A view whose further names are computed from the name."""

    def __init__(self, known: View, more: Callable[[str], Any]) -> None:
        super().__init__(known)
        self.more = more

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def __missing__(self, name: str) -> Any:
        found = self.more(name)
        self[name] = found
        return found


def agrees(got: Any, want: Any) -> bool:
    """Equal, where a view says no more than what is wanted: dictionaries by subset, lists of words as sets."""
    if isinstance(got, Alt):
        return any(agrees(one, want) for one in got)
    if isinstance(got, tuple | list) and got and isinstance(got[0], Gres):
        return _gres(tuple(got), want)
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and agrees(got[k], v) for k, v in want.items())
    if isinstance(want, list) and isinstance(got, tuple | list | set | frozenset):
        words = bool(want) and all(isinstance(w, str) for w in want)
        return sorted(set(want)) == sorted({str(g) for g in got}) if words else list(got) == want
    if isinstance(want, float) and isinstance(got, int | float):
        return abs(got - want) < 1e-9 * max(1.0, abs(want))
    return isinstance(got, bool) == isinstance(want, bool) and bool(got == want)


def _gres(got: tuple[Gres, ...], want: Any) -> bool:
    counts: dict[str, int] = {}
    for g in got:
        counts[g.name] = counts.get(g.name, 0) + g.count
    return agrees(counts, want) if isinstance(want, dict) else got == gres_or_none(want)


def cases(views: dict[str, Any]) -> list[pathlib.Path]:
    """Every expected.json whose tool has a view here."""
    every = sorted(FIELD.glob("*/*.expected.json")) if FIELD.is_dir() else []
    return [p for p in every if view_of(tool_of(p), views)]


def tool_of(path: pathlib.Path) -> str:
    found = json.loads(path.read_text())
    return str(found.get("tool") or "")


def view_of(tool: str, views: dict[str, Any]) -> Any:
    """The view of the first prefix of the tool's name that fits."""
    return next((v for prefix, v in views.items() if tool.startswith(prefix)), None)


def differences(path: pathlib.Path, views: dict[str, Any], wrong: dict[tuple[str, str], str]) -> list[str]:
    """What the view of a file says otherwise than its expected facts."""
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    source = next(p for p in sorted(path.parent.glob(stem + ".*")) if p != path)
    seen = view_of(expected["tool"], views)(source.read_bytes(), expected["tool"])
    found = []
    for fact, want in expected["facts"].items():
        if (f"{path.parent.name}/{stem}", fact) in wrong:
            continue
        if fact not in seen:
            found.append(f"no such fact: {fact}")
        elif not agrees(seen[fact], want):
            found.append(f"{fact}: {seen[fact]!r} is not {want!r}")
    return found


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
