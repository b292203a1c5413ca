"""cron tables and systemd timers: what they start, how often and when it last ran."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.time_sync import seconds

_DAY = 86400.0
_WORDS: dict[str, float] = {
    "@hourly": 3600.0, "@daily": _DAY, "@midnight": _DAY, "@weekly": 7 * _DAY, "@monthly": 31 * _DAY,
    "@yearly": 366 * _DAY, "@annually": 366 * _DAY,
}  # fmt: skip
_LINE = re.compile(r"^\s*(@\w+|[\d*][^\s]*(?:\s+[^\s]+){4})\s+(\S.*?)\s*$")
_WEEKDAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_RANGE = re.compile(r"^(\w+)(?:-(\w+))?(?:/\d+)?$")
_TIMER = re.compile(r"(?:\s(?P<passed>\S[^-]*?) ago|n/a|-)\s+(?P<unit>\S+\.timer)\s+(?P<service>\S+)\s*$")
_PASSED = re.compile(r"(\d+(?:\.\d+)?)\s*(years?|months?|weeks?|days?|h|min|s|ms|us)\b")
_SETTING = re.compile(r"^\s*\w+\s*=")
_STEP = re.compile(r"^\*/(\d+)$")


def cron_lines(text: str, *, system: bool) -> list[tuple[str, str]]:
    """(schedule, command) of each line; a `system` table names the user before the command."""
    found = (m for line in text.splitlines() if not line.lstrip().startswith("#") and (m := _LINE.match(line)))
    pairs = [(" ".join(m[1].split()), m[2]) for m in found]
    return [(when, command.partition(" ")[2].strip() if system else command) for when, command in pairs]


def cron_table(text: str, *, system: bool) -> list[tuple[str, str]]:
    """The same, strictly: ValueError for a text that is no cron table."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(not _LINE.match(line) and not _SETTING.match(line) for line in lines):
        raise ValueError("not a cron table")
    return cron_lines(text, system=system)


def cron_period(when: str) -> float | None:
    """The longest gap between two runs, seconds; None where it never repeats (@reboot) or is not understood."""
    if when.startswith("@"):
        return _WORDS.get(when)
    fields = when.split()
    if len(fields) != 5:
        return None
    minute, hour, day, month, weekday = fields
    if month != "*":
        return 366 * _DAY
    if weekday != "*" and day == "*":
        return _weekly(weekday)
    if day != "*" and weekday == "*":
        step = _STEP.match(day)
        return (int(step[1]) if step else 31 if day.isdigit() else 16) * _DAY
    return _within_day(minute, hour)


def _weekly(weekday: str) -> float:
    """The longest gap between the days of "0", "sun", "1-5" or "mon,thu"."""
    days: set[int] = set()
    for part in weekday.lower().split(","):
        found = _RANGE.match(part)
        first, last = (_weekday(found[1]), _weekday(found[2] or found[1])) if found else (0, 0)
        days |= {day % 7 for day in range(first, last + 1)}
    ordered = sorted(days) or [0]
    gaps = [b - a for a, b in zip(ordered, [*ordered[1:], ordered[0] + 7], strict=True)]
    return max(gaps) * _DAY


def _weekday(word: str) -> int:
    return int(word) if word.isdigit() else _WEEKDAYS.get(word[:3], 0)


def _within_day(minute: str, hour: str) -> float:
    hours, minutes = _STEP.match(hour), _STEP.match(minute)
    if hours:
        return int(hours[1]) * 3600.0
    if hour != "*":
        return _DAY
    return int(minutes[1]) * 60.0 if minutes else 60.0 if minute == "*" else 3600.0


class Timer(Struct, frozen=True, kw_only=True):
    """One row of systemctl list-timers; epoch seconds, None = never or not told."""

    name: str
    service: str = ""
    last: float | None = None
    next: float | None = None

    @property
    def period_s(self) -> float | None:
        """Time between the last and the next run."""
        return self.next - self.last if self.next and self.last and self.next > self.last else None


def list_timers(text: str, at: float) -> list[Timer]:
    """`systemctl list-timers`, JSON or (before systemd 249) columns; "2 days ago" is counted back from `at`."""
    if text.lstrip().startswith("["):
        rows = json.loads(text)
        return [
            Timer(
                name=r["unit"], service=r.get("activates") or "", last=_micro(r.get("last")), next=_micro(r.get("next"))
            )
            for r in rows
            if isinstance(r, dict) and isinstance(r.get("unit"), str)
        ]
    found = (m for line in text.splitlines() if (m := _TIMER.search(" " + line)))
    return [Timer(name=m["unit"], service=m["service"], last=_ago(m["passed"], at)) for m in found]


def _micro(value: object) -> float | None:
    return value / 1e6 if isinstance(value, int) and value > 0 else None


def _ago(passed: str | None, at: float) -> float | None:
    spans = _PASSED.findall(passed or "")
    unit = {"year": "y", "month": "month", "week": "w", "day": "day"}
    back = (
        seconds(" ".join(f"{n}{unit.get(u.rstrip('s') if len(u) > 2 else u, u)}" for n, u in spans)) if spans else None
    )
    return at - back if back is not None and at > 0 else None


def timers_now(text: str) -> list[Timer]:
    """`systemctl list-timers` without a clock: only the JSON form tells when each last ran."""
    rows = list_timers(text, 0.0)
    if not rows and "0 timers listed" not in text:
        raise ValueError("no row of systemctl list-timers in it")
    return rows


FORMATS: dict[str, Callable[[str], Any]] = {
    "systemctl list-timers": timers_now,
    "/etc/crontab": lambda text: cron_table(text, system=True),
    "crontab -l": lambda text: cron_table(text, system=False),
}
