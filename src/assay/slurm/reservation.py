"""Reservations: `scontrol show reservation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.record import Fields, filled, records
from assay.slurm.times import Limit, limit_or_none, stamp
from assay.slurm.tres import tres
from assay.slurm.words import names, said, whole


class SlurmReservation(Fact, frozen=True):
    """One reservation. `nodes` is a hostlist; times are None where SLURM_TIME_FORMAT hid the day."""

    name: str = ""
    state: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    duration_s: Limit | None = None
    nodes: str | None = None
    node_count: int | None = None
    core_count: int | None = None
    flags: tuple[str, ...] = ()
    tres: dict[str, int | float] | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partition: str | None = None
    features: str | None = None
    licenses: str | None = None
    other: dict[str, str] = field(default_factory=dict)

    @property
    def maintenance(self) -> bool:
        """A maintenance window: its nodes are out of service by intent."""
        return "MAINT" in self.flags


class SlurmReservations(Fact, frozen=True):
    """All reservations of one answer."""

    reservations: tuple[SlurmReservation, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None


FIELDS: Fields = {
    "ReservationName": ("name", str),
    "State": ("state", said),
    "StartTime": ("start_at", stamp),
    "EndTime": ("end_at", stamp),
    "Duration": ("duration_s", limit_or_none),
    "Nodes": ("nodes", said),
    "NodeCnt": ("node_count", whole),
    "CoreCnt": ("core_count", whole),
    "Flags": ("flags", names),
    "TRES": ("tres", tres),
    "Users": ("users", names),
    "Groups": ("groups", names),
    "Accounts": ("accounts", names),
    "PartitionName": ("partition", said),
    "AllowedPartitions": ("partition", said),
    "Features": ("features", said),
    "Licenses": ("licenses", said),
}
NONE = "No reservations in the system"


def show_reservation(text: str) -> SlurmReservations:
    """`scontrol show reservation`; its sentence for none gives none. Raises ValueError for another text."""
    read = records(text, "ReservationName", {"Comment": frozenset({"MaxStartDelay"})})
    unread = tuple(line for line in read.unread if line.strip() != NONE)
    if not read.records and not unread and NONE not in text:
        raise ValueError("no reservation in it")
    found = tuple(SlurmReservation(**filled(_one_partition(r), FIELDS)) for r in read.records)
    return SlurmReservations(reservations=found, unread=unread)


def _one_partition(record: dict[str, str]) -> dict[str, str]:
    if not said(record.get("AllowedPartitions")):
        record.pop("AllowedPartitions", None)
    return record


FORMATS: dict[str, Callable[[str], Any]] = {
    "scontrol show reservation": show_reservation,
    "scontrol show reservations": show_reservation,
}
