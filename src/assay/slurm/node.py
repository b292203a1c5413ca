"""Nodes: `scontrol show node` in both forms. The JSON reader and `sinfo -N` fill the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.gres import Gres, gres_or_none, total
from assay.slurm.record import Fields, filled, records, signed
from assay.slurm.state import NodeState, node_state
from assay.slurm.times import stamp
from assay.slurm.tres import gpus, tres
from assay.slurm.words import decimal, names, said, whole


class SlurmNode(Fact, frozen=True):
    """One node as slurmctld knows it. `other` holds keys this release of Assay has no field for, verbatim."""

    name: str = ""
    hostname: str | None = None
    address: str | None = None
    state: NodeState = NodeState("UNKNOWN")
    version: str | None = None
    arch: str | None = None
    os: str | None = None
    cpus: int | None = None
    cpus_alloc: int | None = None
    cpus_effective: int | None = None
    cpu_load: float | None = None
    boards: int | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    real_memory_mib: int | None = None
    alloc_memory_mib: int | None = None
    free_memory_mib: int | None = None
    gres: tuple[Gres, ...] | None = None
    gres_used: tuple[Gres, ...] | None = None
    cfg_tres: dict[str, int | float] | None = None
    alloc_tres: dict[str, int | float] | None = None
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    weight: int | None = None
    reason: str | None = None
    reason_user: str | None = None
    reason_at: str | None = None
    comment: str | None = None
    extra: str | None = None
    reservation: str | None = None
    instance_id: str | None = None
    boot_at: str | None = None
    slurmd_start_at: str | None = None
    last_busy_at: str | None = None
    resume_after: str | None = None
    other: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int | None:
        """GPUs the node registered with (MIG slices count as one each); None when Gres is not said."""
        return total(self.gres)

    @property
    def gpus_configured(self) -> int | None:
        """GPUs by CfgTRES; None where the cluster does not track them."""
        return gpus(self.cfg_tres)

    @property
    def gpus_alloc(self) -> int | None:
        """GPUs in use, by AllocTRES where GPUs are tracked, else by GresUsed."""
        tracked = gpus(self.alloc_tres)
        if tracked is None and gpus(self.cfg_tres) is not None and self.alloc_tres is not None:
            return 0
        return total(self.gres_used) if tracked is None else tracked


class SlurmNodes(Fact, frozen=True):
    """All nodes of one answer. `unread` are lines that are no record: errors among them."""

    nodes: tuple[SlurmNode, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None

    def node(self, name: str) -> SlurmNode | None:
        """The node of this NodeName."""
        return next((n for n in self.nodes if n.name == name), None)


_TAIL = frozenset({"Comment", "Extra", "InstanceId", "InstanceType", "ReservationName", "ResvName", "Topology"})
FREE = {"Reason": _TAIL, "Comment": _TAIL - {"Comment"}, "Extra": _TAIL - {"Comment", "Extra"}}

_FIELDS: Fields = {
    "NodeName": ("name", str),
    "NodeHostName": ("hostname", said),
    "NodeAddr": ("address", said),
    "State": ("state", node_state),
    "Version": ("version", said),
    "Arch": ("arch", said),
    "OS": ("os", said),
    "CPUTot": ("cpus", whole),
    "CPUAlloc": ("cpus_alloc", whole),
    "CPUEfctv": ("cpus_effective", whole),
    "CPULoad": ("cpu_load", decimal),
    "Boards": ("boards", whole),
    "Sockets": ("sockets", whole),
    "CoresPerSocket": ("cores_per_socket", whole),
    "ThreadsPerCore": ("threads_per_core", whole),
    "RealMemory": ("real_memory_mib", whole),
    "AllocMem": ("alloc_memory_mib", whole),
    "FreeMem": ("free_memory_mib", whole),
    "Gres": ("gres", gres_or_none),
    "GresUsed": ("gres_used", gres_or_none),
    "CfgTRES": ("cfg_tres", tres),
    "AllocTRES": ("alloc_tres", tres),
    "AvailableFeatures": ("features", names),
    "ActiveFeatures": ("active_features", names),
    "Partitions": ("partitions", names),
    "Weight": ("weight", whole),
    "Comment": ("comment", said),
    "Extra": ("extra", said),
    "ReservationName": ("reservation", said),
    "InstanceId": ("instance_id", said),
    "BootTime": ("boot_at", stamp),
    "SlurmdStartTime": ("slurmd_start_at", stamp),
    "LastBusyTime": ("last_busy_at", stamp),
    "ResumeAfterTime": ("resume_after", stamp),
}


def _node(record: dict[str, str]) -> SlurmNode:
    reason, user, at = signed(record.pop("Reason", None))
    return SlurmNode(**filled(record, _FIELDS), reason=reason, reason_user=user, reason_at=stamp(at))


def show_node(text: str) -> SlurmNodes:
    """`scontrol show node(s)`, several lines per node or -o. Raises ValueError when no node and no message is in it."""
    read = records(text, "NodeName", FREE)
    nodes: list[SlurmNode] = []
    unread = list(read.unread)
    for record in read.records:
        if "State" in record:
            nodes.append(_node(record))
        else:
            unread.append(f"NodeName={record['NodeName']}: cut short")
    if not nodes and not unread:
        raise ValueError("no node in it")
    return SlurmNodes(nodes=tuple(nodes), unread=tuple(unread))


FORMATS: dict[str, Callable[[str], Any]] = {
    "scontrol show node": show_node,
    "scontrol show nodes": show_node,
    "scontrol show node -o": show_node,
}
