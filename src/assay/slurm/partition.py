"""Partitions: `scontrol show partition` in both forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.record import Fields, filled, records
from assay.slurm.times import Limit, duration_s, limit_or_none
from assay.slurm.tres import gpus, tres
from assay.slurm.words import names, said, whole, yes


class SlurmPartition(Fact, frozen=True):
    """One partition. `nodes` is a hostlist; `state` is UP, DOWN, DRAIN or INACTIVE."""

    name: str = ""
    state: str | None = None
    default: bool | None = None
    hidden: bool | None = None
    nodes: str | None = None
    node_count: int | None = None
    cpus: int | None = None
    tres: dict[str, int | float] | None = None
    max_time_s: Limit | None = None
    default_time_s: Limit | None = None
    grace_s: int | float | None = None
    min_nodes: int | None = None
    max_nodes: int | str | None = None
    max_cpus_per_node: int | str | None = None
    def_memory: str | None = None
    max_memory: str | None = None
    qos: str | None = None
    allow_groups: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    priority_tier: int | None = None
    oversubscribe: str | None = None
    preempt_mode: str | None = None
    root_only: bool | None = None
    needs_reservation: bool | None = None
    exclusive_user: bool | None = None
    suspend_time_s: Limit | None = None
    other: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int | None:
        """GPUs of all its nodes; None when the cluster does not track them."""
        return gpus(self.tres)


class SlurmPartitions(Fact, frozen=True):
    """All partitions of one answer."""

    partitions: tuple[SlurmPartition, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None

    def default(self) -> SlurmPartition | None:
        """The partition of a job that names none."""
        return next((p for p in self.partitions if p.default), None)


def _most(text: str) -> int | str | None:
    number = whole(text)
    return text.upper() if number is None and said(text) else number


FIELDS: Fields = {
    "PartitionName": ("name", str),
    "State": ("state", said),
    "Default": ("default", yes),
    "Hidden": ("hidden", yes),
    "Nodes": ("nodes", said),
    "TotalNodes": ("node_count", whole),
    "TotalCPUs": ("cpus", whole),
    "TRES": ("tres", tres),
    "MaxTime": ("max_time_s", limit_or_none),
    "DefaultTime": ("default_time_s", limit_or_none),
    "GraceTime": ("grace_s", lambda text: whole(text) if text.isdecimal() else duration_s(text)),
    "MinNodes": ("min_nodes", whole),
    "MaxNodes": ("max_nodes", _most),
    "MaxCPUsPerNode": ("max_cpus_per_node", _most),
    "QoS": ("qos", said),
    "AllowGroups": ("allow_groups", names),
    "AllowAccounts": ("allow_accounts", names),
    "DenyAccounts": ("deny_accounts", names),
    "AllowQos": ("allow_qos", names),
    "PriorityTier": ("priority_tier", whole),
    "OverSubscribe": ("oversubscribe", said),
    "PreemptMode": ("preempt_mode", said),
    "RootOnly": ("root_only", yes),
    "ReqResv": ("needs_reservation", yes),
    "ExclusiveUser": ("exclusive_user", yes),
    "SuspendTime": ("suspend_time_s", lambda text: whole(text) if text.isdecimal() else limit_or_none(text)),
}
_MEMORY = {
    "DefMemPerNode": "per node", "DefMemPerCPU": "per CPU", "MaxMemPerNode": "per node", "MaxMemPerCPU": "per CPU",
}  # fmt: skip


def _partition(record: dict[str, str]) -> SlurmPartition:
    memory: dict[str, Any] = {
        f"{key[:3].lower()}_memory": f"{record.pop(key)} {per}" for key, per in _MEMORY.items() if key in record
    }
    return SlurmPartition(**filled(record, FIELDS), **memory)


def show_partition(text: str) -> SlurmPartitions:
    """`scontrol show partition`, several lines per partition or -o. Raises ValueError when none is in it."""
    read = records(text, "PartitionName", {})
    if not read.records and not read.unread:
        raise ValueError("no partition in it")
    found = tuple(_partition(r) for r in read.records)
    return SlurmPartitions(partitions=found, unread=read.unread)


FORMATS: dict[str, Callable[[str], Any]] = {
    "scontrol show partition": show_partition,
    "scontrol show partitions": show_partition,
    "scontrol show partition -o": show_partition,
}
