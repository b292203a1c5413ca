"""sdiag: how busy slurmctld is. Text of 17.02 to 25.11; JSON fills the same values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.times import from_epoch
from assay.slurm.words import whole


class Rpc(Struct, frozen=True):
    """Calls of one kind, or by one user: how many, mean and total time in microseconds."""

    name: str
    id: int
    count: int
    average_us: int | None = None
    total_us: int | None = None


class Sdiag(Fact, frozen=True):
    """Counters since `since` (a reset, or midnight UTC); cycle times in microseconds. `other`: by "section: name"."""

    generated: str | None = None
    generated_epoch: int | None = None
    generated_at: str | None = None
    since: str | None = None
    since_epoch: int | None = None
    server_threads: int | None = None
    agent_queue: int | None = None
    agents: int | None = None
    agent_threads: int | None = None
    dbd_queue: int | None = None
    jobs_submitted: int | None = None
    jobs_started: int | None = None
    jobs_completed: int | None = None
    jobs_canceled: int | None = None
    jobs_failed: int | None = None
    jobs_pending: int | None = None
    jobs_running: int | None = None
    main_last_us: int | None = None
    main_max_us: int | None = None
    main_sum_us: int | None = None
    main_cycles: int | None = None
    main_mean_us: int | None = None
    main_mean_depth: int | None = None
    main_per_minute: int | None = None
    main_queue: int | None = None
    backfill_jobs: int | None = None
    backfill_jobs_since_cycle: int | None = None
    backfill_het_jobs: int | None = None
    backfill_cycles: int | None = None
    backfill_last_us: int | None = None
    backfill_max_us: int | None = None
    backfill_mean_us: int | None = None
    backfill_queue: int | None = None
    gettimeofday_us: int | None = None
    rpcs: tuple[Rpc, ...] = ()
    users: tuple[Rpc, ...] = ()
    pending_rpcs: tuple[tuple[str, int], ...] = ()
    other: dict[str, int] = field(default_factory=dict)
    envelope: Envelope | None = None

    def rpc(self, name: str) -> Rpc | None:
        """The calls of one message type."""
        return next((r for r in self.rpcs if r.name == name), None)


_TOP = {
    "server thread count": "server_threads", "agent queue size": "agent_queue", "agent count": "agents",
    "agent thread count": "agent_threads", "dbd agent queue size": "dbd_queue", "jobs submitted": "jobs_submitted",
    "jobs started": "jobs_started", "jobs completed": "jobs_completed", "jobs canceled": "jobs_canceled",
    "jobs failed": "jobs_failed", "jobs pending": "jobs_pending", "jobs running": "jobs_running",
}  # fmt: skip
_MAIN = {
    "last cycle": "main_last_us", "max cycle": "main_max_us", "total cycles": "main_cycles",
    "mean cycle": "main_mean_us", "mean depth cycle": "main_mean_depth", "cycles per minute": "main_per_minute",
    "last queue length": "main_queue",
}  # fmt: skip
_BACKFILL = {
    "total backfilled jobs (since last slurm start)": "backfill_jobs",
    "total backfilled jobs (since last stats cycle start)": "backfill_jobs_since_cycle",
    "total backfilled heterogeneous job components": "backfill_het_jobs",
    "total cycles": "backfill_cycles",
    "last cycle": "backfill_last_us",
    "max cycle": "backfill_max_us",
    "mean cycle": "backfill_mean_us",
    "last queue length": "backfill_queue",
}
_SECTIONS = {"": _TOP, "main schedule statistics": _MAIN, "backfilling stats": _BACKFILL}
_HEAD = re.compile(r"sdiag output at (.+?)(?: \((\d{1,18})\))?\s*$", re.MULTILINE)
_SINCE = re.compile(r"Data since\s+(.+?)(?: \((\d{1,18})\))?\s*$", re.MULTILINE)
_LATENCY = re.compile(r"Latency for \d{1,18} calls to gettimeofday\(\): (\d{1,18}) microseconds")
_RPC = re.compile(
    r"\s+(\S+)\s+\(\s*(\d{1,18})\)\s+count:(\d{1,18})(?:\s+ave_time:(\d{1,18}))?(?:\s+total_time:(\d{1,18}))?"
)
_VALUE = re.compile(r"(\s*)([A-Z][^:]*):\s*(-?\d{1,18})\s*$")


def sdiag(text: str) -> Sdiag:
    """`sdiag`. Raises ValueError for another text."""
    head, since = _HEAD.search(text), _SINCE.search(text)
    if not head or not since:
        raise ValueError("not the output of sdiag")
    latency = _LATENCY.search(text)
    values, other = _values(text)
    epoch = int(head[2]) if head[2] else None
    return Sdiag(
        **values,
        generated=head[1].strip(),
        generated_epoch=epoch,
        generated_at=from_epoch(epoch) if epoch else None,
        since=since[1].strip(),
        since_epoch=int(since[2]) if since[2] else None,
        gettimeofday_us=int(latency[1]) if latency else None,
        rpcs=_rpcs(text, "Remote Procedure Call statistics by message type"),
        users=_rpcs(text, "Remote Procedure Call statistics by user"),
        pending_rpcs=tuple((r.name, r.count) for r in _rpcs(text, "Pending RPC statistics")),
        other=other,
    )


def _values(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    values: dict[str, Any] = {}
    other: dict[str, int] = {}
    section = ""
    for line in text.splitlines():
        if found := _VALUE.match(line):
            name = found[2].strip().lower()
            section = section if found[1] else ""
            field_ = _SECTIONS.get(section, {}).get(name)
            number = int(found[3])
            if field_:
                values.setdefault(field_, number)
            else:
                other.setdefault(f"{section}: {name}" if section else name, number)
        elif line.strip() and not line[0].isspace():
            section = line.partition("(")[0].strip().rstrip(":").lower()
    return values, other


def _rpcs(text: str, title: str) -> tuple[Rpc, ...]:
    _, found, rest = text.partition(title + "\n")
    rows: list[Rpc] = []
    for line in rest.split("\n") if found else ():
        row = _RPC.match(line)
        if not row:
            break
        rows.append(Rpc(row[1], int(row[2]), int(row[3]), whole(row[4]), whole(row[5])))
    return tuple(rows)


FORMATS: dict[str, Callable[[str], Any]] = {"sdiag": sdiag}
