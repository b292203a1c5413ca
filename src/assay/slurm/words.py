"""Slurm's words for "nothing", numbers and amounts of memory."""

from __future__ import annotations

import re

_NOTHING = frozenset({
    "", "(null)", "(null type)", "n/a", "n/s", "none", "unknown", "none assigned", "not_set", "invalid",
})  # fmt: skip
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGTPE]?)i?B?[nc]?", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3, "E": 1024.0**4}
_TIMES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5, "E": 1024**6}


def said(text: str | None) -> str | None:
    """The text, or None where Slurm prints one of its words for "nothing here"."""
    if text is None:
        return None
    text = text.strip()
    return None if text.lower() in _NOTHING else text


def whole(text: str | None) -> int | None:
    """A plain integer; None for anything else. "1-4" (a range of node counts) gives its lower end."""
    if not text:
        return None
    head = text.strip().partition("-")[0]
    return int(head) if head.isdecimal() and len(head) < 20 else None


def decimal(text: str | None) -> float | None:
    """A plain number; None for N/A and the like."""
    found = _NUMBER.fullmatch(text.strip()) if text else None
    return float(found[0]) if found else None


def yes(text: str | None) -> bool | None:
    """YES, yes, 1 -> True; NO, no, 0 -> False."""
    return {"yes": True, "1": True, "true": True, "no": False, "0": False, "false": False}.get((text or "").lower())


def tidy(number: float) -> int | float:
    """The integer where the number is whole."""
    return int(number) if number == int(number) else number


def mib(text: str | None, unit: str = "M") -> int | float | None:
    """An amount of memory in MiB: `64G`, `1147220K`, `64Gn` (old ReqMem); without a letter it counts in `unit`."""
    found = _AMOUNT.fullmatch(text.strip()) if text else None
    if not found:
        return None
    scale = 2.0**-20 if unit == "B" and not found[2] else _MIB[(found[2] or unit).upper()]
    return tidy(float(found[1]) * scale)


def amount(text: str | None) -> int | float | None:
    """A count with an optional binary suffix, e.g. 2K = 2048."""
    found = _AMOUNT.fullmatch(text.strip()) if text else None
    return tidy(float(found[1]) * _TIMES[found[2].upper()]) if found else None


def outside(text: str, brackets: str) -> list[str]:
    """Split at the commas that stand outside a pair of brackets such as "()"; empty parts are left out."""
    found: list[str] = []
    held: list[str] = []
    depth = 0
    for piece in re.split(rf"([,{re.escape(brackets)}])", text):
        if piece == "," and not depth:
            found.append("".join(held))
            held = []
            continue
        depth = max(0, depth + (piece == brackets[0]) - (piece == brackets[1]))
        held.append(piece)
    found.append("".join(held))
    return [part.strip() for part in found if part.strip()]


def names(text: str | None) -> tuple[str, ...]:
    """A comma list; () for Slurm's words for "nothing"."""
    value = said(text)
    return tuple(part for part in value.split(",") if part) if value else ()
