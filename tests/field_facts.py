"""What the tests of field outputs share: where the outputs are, neutral names, and when two facts are the same."""

import json
import re
from pathlib import Path
from typing import Any

FIELD = Path(__file__).resolve().parents[2] / "shared/field"
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def snake(title: str) -> str:
    """Names such as "PortXmitWait" and "Raw Physical BER" as neutral ones."""
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", title)).strip("_").lower()


def pair(path: Path) -> tuple[str, dict[str, Any]]:
    """The output and what is expected of it, by the path of the latter."""
    stem = path.name.removesuffix(".expected.json")
    output = next(p for p in sorted(path.parent.glob(stem + ".*")) if p != path)
    return output.read_text(encoding="utf-8"), json.loads(path.read_text(encoding="utf-8"))


def same(got: Any, want: Any) -> bool:
    """Whether both say the same: a list may be given by its length, yes/no and numbers as words or as themselves."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and same(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        found = list(got) if isinstance(got, (list, tuple)) else [got]
        return len(found) == len(want) and (
            all(map(same, found, want)) or sorted(map(str, found)) == sorted(map(str, want))
        )
    if isinstance(got, (list, tuple)):
        return len(got) == want if isinstance(want, int) else len(got) == 1 and same(got[0], want)
    return _same_word(got, want)


def _same_word(got: Any, want: Any) -> bool:
    if (
        isinstance(got, bool) != isinstance(want, bool)
        and isinstance(got, (bool, str))
        and isinstance(want, (bool, str))
    ):
        words = [
            v if isinstance(v, bool) else v.lower() in ("yes", "on", "ok", "y", "true", "active") for v in (got, want)
        ]
        return words[0] is words[1]
    if isinstance(want, (int, float)) and not isinstance(want, bool) and isinstance(got, str):
        return NUMBER.fullmatch(got) is not None and float(got) == want
    if isinstance(want, str) and isinstance(got, (int, float)) and not isinstance(got, bool):
        return NUMBER.fullmatch(want) is not None and float(want) == got
    if isinstance(want, float) and isinstance(got, (int, float)):
        return abs(got - want) <= 1e-9 * max(abs(got), abs(want))
    return bool(got == want) and isinstance(got, bool) == isinstance(want, bool)
