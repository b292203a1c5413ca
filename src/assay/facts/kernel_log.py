"""The kernel log as this user can read it. Kept raw: other rules classify the events."""

from __future__ import annotations

import datetime as dt
import re

from assay.facts.source import source
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, ReadState, Stat

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?(Z|[+-]\d\d:?\d\d)?")
_UNREADABLE = (
    "not permitted",
    "permission denied",
    "no journal files were opened",
    "not seeing messages",
    "insufficient permissions",
)


class KernelLog(Fact, frozen=True):
    """`text` = the raw lines of `source` ("journal": all boots of 7 days; "dmesg": the ring buffer).

    `readable` is about this user; `denied` says why not. `cut` = older lines were dropped at the size cap.
    `first_at` and `last_at` are UTC epoch seconds, None where the log carries no dates.
    """

    source: str = ""
    text: str = ""
    lines: int = 0
    boots: int = 0
    first: str = ""
    last: str = ""
    first_at: float | None = None
    last_at: float | None = None
    readable: bool = False
    denied: str = ""
    dmesg_restrict: int | None = None
    kmsg_readable: bool | None = None
    cut: bool = False


@source(
    Probe(
        "kernel.log",
        (
            Exec(
                "journal",
                ("journalctl", "_TRANSPORT=kernel", "--since=-7days", "-o", "short-iso-precise", "--no-pager"),
                timeout_s=4.0,
                cap=8 << 20,
                keep="tail",
            ),
            Exec("dmesg", ("dmesg", "--time-format=iso"), timeout_s=5.0, cap=2 << 20, keep="tail"),
            Stat("kmsg", ("/dev/kmsg",)),
            Files("restrict", ("/proc/sys/kernel/dmesg_restrict",)),
        ),
        root="kernel messages are hidden from other users where kernel.dmesg_restrict is 1",
    ),
    sees_missing=True,
)
def kernel_log(raw: RawFact) -> KernelLog | Missing:
    """The journal where it shows kernel lines, else the ring buffer."""
    restrict = raw.out("restrict").strip()
    kmsg = next(iter(raw.files("kmsg").values()), "")
    name = next((n for n in ("journal", "dmesg") if raw.read(n).state == "ok" and _first_line(raw.read(n).out)), "")
    states = {raw.read(k).state for k in ("journal", "dmesg")}
    if not name and ("timed-out" in states or "ok" not in states):
        return _missing(states)
    read = raw.read(name)
    text = read.out[read.out.find("\n") + 1 :] if read.cut else read.out
    first, last = _first_line(text), text[text.rfind("\n", 0, max(len(text) - 1, 0)) + 1 :].strip()
    return KernelLog(
        source=name,
        text=text,
        lines=text.count("\n") + (bool(text) and not text.endswith("\n")),
        boots=text.count("\n-- ") + 1 if name else 0,
        first=_stamp(first),
        last=_stamp(last),
        first_at=epoch(first),
        last_at=epoch(last),
        readable=bool(name),
        denied="" if name else _why_not(raw),
        dmesg_restrict=int(restrict) if restrict.isdigit() else None,
        kmsg_readable="r" in kmsg.split()[-1] if kmsg else None,
        cut=bool(read.cut),
    )


def _missing(states: set[ReadState]) -> Missing:
    """Neither log could be asked to the end; a half-read one is not used."""
    if "timed-out" in states:
        return Missing("timed-out", "journalctl or dmesg did not answer in time")
    return Missing("absent" if states == {"absent"} else "failed", "neither journalctl nor dmesg gave the kernel log")


def _first_line(text: str) -> str:
    """The first line that is a kernel line, not one of journalctl's own ("-- No entries --")."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].strip()
        if line and not line.startswith("-- "):
            return line
        start = end + 1
    return ""


def _why_not(raw: RawFact) -> str:
    texts = [raw.read(k).err.strip() or raw.read(k).out.strip() for k in ("dmesg", "journal")]
    for text in texts:
        if any(word in text.lower() for word in _UNREADABLE):
            return text.splitlines()[0]
    return "the kernel log is empty"


def _stamp(line: str) -> str:
    found = _STAMP.match(line)
    return found[0] if found else ""


def epoch(line: str) -> float | None:
    """UTC epoch seconds of the ISO date a line starts with; a date without a zone is read as UTC."""
    found = _STAMP.match(line)
    if not found:
        return None
    day, clock, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    moment = dt.datetime.fromisoformat(f"{day}T{clock}{zone}")
    return moment.timestamp() + float(f"0.{fraction or 0}")
