"""Values of Slurm's JSON (`--json` and slurmrestd), data_parser v0.0.37 to v0.0.44.

The shape follows the API version, not the release: a word may be a string or a list, a number bare, null or
{set, infinite, number}. These functions take all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.slurm.envelope import Envelope, SlurmError
from assay.slurm.times import Limit, from_epoch
from assay.slurm.words import said, tidy

Object = dict[str, Any]

# What Slurm stores for "not set" and "no limit" in 16, 32 and 64 bits, where a version passes them on bare.
_NO_VALUE = frozenset({-1, -2, 0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE})
_INFINITE = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_LARGEST = 1 << 63
_API = re.compile(r"v?(\d+\.\d+\.\d+)$")


def load(text: str) -> Object:
    """The object of a JSON text. Raises ValueError for anything else."""
    try:
        found = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        raise ValueError(f"not JSON: {e}") from e
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the text is wrong, not its Python type
    return found


def envelope(doc: Object) -> Envelope | None:
    """Release, API version and errors; None for a bare object."""
    meta = part(doc, "meta")
    plugin = part(meta, "plugin") or part(meta, "plugins")
    slurm = part(meta, "slurm") or part(meta, "Slurm")
    if not meta and "errors" not in doc:
        return None
    found = (_API.search(str(plugin.get(key) or "")) for key in ("data_parser", "type"))
    return Envelope(
        release=text_of(slurm.get("release")),
        api=next((m[1] for m in found if m), None),
        cluster=text_of(slurm.get("cluster")),
        errors=tuple(_errors(doc.get("errors"))),
        warnings=tuple(_errors(doc.get("warnings"))),
    )


def _errors(found: Any) -> Iterable[SlurmError]:
    for e in objects(found):
        code = number(e.get("error_number", e.get("error_code")), keep_negative=True)
        yield SlurmError(
            description=str(e.get("description") or ""),
            number=None if code is None else int(code),
            error=str(e.get("error") or ""),
            source=str(e.get("source") or ""),
        )


def objects(found: Any) -> list[Object]:
    """The objects of a list; a single object counts as a list of one."""
    if isinstance(found, dict):
        return [found]
    return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []


def part(doc: Object, key: str) -> Object:
    """The object under a key; {} when there is none (v0.0.37 has bare values where others nest)."""
    found = doc.get(key)
    return found if isinstance(found, dict) else {}


def number(value: Any, *, keep_negative: bool = False) -> int | float | None:
    """A number; None for null, for {set: false} and for the numbers that mean "not set" or "no limit"."""
    if isinstance(value, dict):
        return number(value.get("number")) if value.get("set") and not value.get("infinite") else None
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value in _INFINITE or (value in _NO_VALUE and not (keep_negative and value < 0)):
        return None
    return tidy(value) if -_LARGEST < value < _LARGEST else None


def whole(value: Any) -> int | None:
    """`number` as an integer."""
    found = number(value)
    return None if found is None else int(found)


def counted(value: Any) -> int | None:
    """An id or a count for which Slurm writes 0 when there is none."""
    return whole(value) or None


def limit_s(value: Any, unit_s: int = 60) -> Limit | None:
    """A time limit in seconds, from minutes."""
    if (isinstance(value, dict) and value.get("infinite")) or (not isinstance(value, dict) and value in _INFINITE):
        return "UNLIMITED"
    found = number(value)
    return None if found is None else found * unit_s


def moment(value: Any) -> str | None:
    """A point in time, UTC."""
    found = number(value)
    return None if found is None else from_epoch(found)


def text_of(value: Any) -> str | None:
    """A text; None for null, "" and Slurm's words for "nothing"."""
    return said(value) if isinstance(value, str) else None


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or a comma list in one string."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(str(p).strip() for p in parts if said(str(p)))


def word(value: Any) -> str | None:
    """One word that newer versions wrap in a list."""
    found = texts(value)
    return found[0] if found else None


def exit_of(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal. A bare integer (v0.0.37/38) is the wait status."""
    if isinstance(value, dict):
        signal = part(value, "signal")
        sent = whole(signal.get("id", signal.get("signal_id")))
        code = whole(value.get("return_code"))
        return code, sent if sent is not None else (0 if code is not None else None)
    status = whole(value)
    return (None, None) if status is None else (status >> 8, status & 0x7F)


def tres_list(found: Any) -> dict[str, int | float] | None:
    """[{type, name, count}] of slurmdbd as a dictionary; counts below 0 are "not measured"."""
    if not isinstance(found, list):
        return None
    values: dict[str, int | float] = {}
    for t in objects(found):
        count = number(t.get("count"))
        if count is not None and count >= 0:
            name = f"{t.get('type')}/{t['name']}" if t.get("name") else str(t.get("type"))
            values[name] = count
    return values
