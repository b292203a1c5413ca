"""Durations and points in time, as every Slurm command writes them.

A point in time is ISO text: "2026-12-01T13:20:48" is the cluster's own local time (text commands name no zone),
"2026-12-01T13:20:48Z" is UTC (JSON gives epochs). A limit is seconds, or "UNLIMITED".
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Literal

from assay.slurm.words import tidy

Limit = int | float | Literal["UNLIMITED"]

_UNLIMITED = frozenset({"unlimited", "infinite"})
_UNSAID = frozenset({
    "", "(null)", "n/a", "none", "unknown", "invalid", "not_set", "partition_limit", "global", "never",
})  # fmt: skip
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,6}))?(?::(\d{1,6}))?(\.\d{1,9})?")
_UNIT = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*(u?m?sec|min(?:utes?)?|hours?|days?)", re.IGNORECASE)
_SECONDS = {"usec": 1e-6, "msec": 1e-3, "sec": 1.0, "min": 60.0, "hou": 3600.0, "day": 86400.0}
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\d{9,11}")
_LAST_EPOCH = 1 << 35


def limit_s(text: str | None) -> Limit | None:
    """Seconds of minutes | m:s | h:m:s | d-h | d-h:m | d-h:m:s | "10 sec"; None where Slurm gives none.

    Raises ValueError for what is no duration.
    """
    word = (text or "").strip().lower()
    if word in _UNLIMITED:
        return "UNLIMITED"
    if word in _UNSAID:
        return None
    if unit := _UNIT.fullmatch(word):
        name = unit[2] if unit[2] in _SECONDS else unit[2][:3]
        return tidy(round(float(unit[1]) * _SECONDS[name], 9))
    if clock := _CLOCK.fullmatch(word):
        return tidy(_clock_s(clock))
    raise ValueError(f"not a duration: {text!r}")


def _clock_s(clock: re.Match[str]) -> float:
    days, first, second, third, fraction = clock.groups()
    a, b, c = int(first), int(second or 0), int(third or 0)
    if days is not None:
        return int(days) * 86400 + a * 3600 + b * 60 + c + float(fraction or 0)
    if second is None:
        if fraction:
            raise ValueError("a duration in fractions of a minute")
        return a * 60
    clocked = a * 3600 + b * 60 + c if third is not None else a * 60 + b
    return clocked + float(fraction or 0)


def duration_s(text: str | None) -> int | float | None:
    """Seconds, or None for every word, UNLIMITED among them, and for what is no duration."""
    try:
        limit = limit_s(text)
    except ValueError:
        return None
    return None if limit == "UNLIMITED" else limit


def limit_or_none(text: str | None) -> Limit | None:
    """`limit_s`, with None for what is no duration: the field of a table that must not cost the row."""
    try:
        return limit_s(text)
    except ValueError:
        return None


def stamp(text: str | None) -> str | None:
    """A point in time in ISO, or None: Unknown, N/A, and relative times (SLURM_TIME_FORMAT), which name no day."""
    word = (text or "").strip()
    if found := _STAMP.fullmatch(word):
        return found[0]
    return from_epoch(int(word)) if _EPOCH.fullmatch(word) else None


def from_epoch(seconds: float) -> str | None:
    """ISO in UTC; None for 0 and for Slurm's "not set" numbers."""
    if not 0 < seconds < _LAST_EPOCH or seconds in (0xFFFFFFFE, 0xFFFFFFFF):
        return None
    moment = datetime.fromtimestamp(int(seconds), tz=timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(iso: str) -> float:
    """Seconds since 1970 of a point in time; a local one is counted as if it were UTC, so only differences hold."""
    moment = datetime.fromisoformat(iso.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
