"""Which partitions and nodes of a Slurm cluster have GPUs, and what a job gets there that asks for little."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.partition import SlurmPartition, SlurmPartitions
from assay.slurm.state import NodeState

_CPUS = re.compile(r"DefCpuPerGPU=(\d{1,6})", re.IGNORECASE)
_MEMORY = re.compile(r"DefMemPerGPU=(\d{1,9})", re.IGNORECASE)
_KNOWN = frozenset({
    "IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE", "DRAINED", "DRAINING", "FAIL", "FAILING", "REBOOT",
    "INVAL",
})  # fmt: skip
HIDDEN = "slurmctld shows this user no node"


def strange(state: NodeState | None) -> bool:
    """A state that this release of Assay has no meaning for."""
    return state is None or state.base not in _KNOWN or bool(state.unknown_flags)


def gpus_of(node: SlurmNode) -> int:
    """GPUs as Slurm counts them, 0 where it counts none."""
    return node.gpus or node.gpus_configured or 0


def gpu_nodes(nodes: SlurmNodes) -> list[SlurmNode]:
    """Nodes with GPUs that exist: a FUTURE one does not."""
    return [n for n in nodes.nodes if gpus_of(n) and n.state.base != "FUTURE"]


def shared_gpu_partitions(
    config: SlurmConfig, partitions: SlurmPartitions, nodes: SlurmNodes
) -> Iterator[tuple[SlurmPartition, SlurmNode]]:
    """Partitions with GPUs that do not give whole nodes, each with its node of most GPUs."""
    if (config.value("SelectType") or "").endswith("linear"):
        return
    for part in partitions.partitions:
        members = [n for n in nodes.nodes if part.name in n.partitions and gpus_of(n)]
        if members and not (part.oversubscribe or "").upper().startswith("EXCLUSIVE"):
            yield part, max(members, key=gpus_of)


def default_cpus(config: SlurmConfig, part: SlurmPartition) -> int | None:
    """DefCpuPerGPU of the partition, else of the cluster."""
    return _default(_CPUS, config, part)


def default_memory_mib(config: SlurmConfig, part: SlurmPartition, node: SlurmNode) -> float | None:
    """What a job with one GPU gets that names neither CPUs nor memory; None = all of the node."""
    if per_gpu := _default(_MEMORY, config, part):
        return per_gpu
    amount, per = _limit(part.def_memory)
    if amount is None:
        amount, per = _limit(config.value("DefMemPerNode"), "node")
    if amount is None:
        amount, per = _limit(config.value("DefMemPerCPU"), "CPU")
    if amount is None:
        return None
    return amount * (default_cpus(config, part) or node.threads_per_core or 1) if per == "CPU" else amount


def _default(pattern: re.Pattern[str], config: SlurmConfig, part: SlurmPartition) -> int | None:
    for text in (part.other.get("JobDefaults", ""), config.value("JobDefaults") or ""):
        if (found := pattern.search(text)) and int(found[1]):
            return int(found[1])
    return None


def _limit(text: str | None, per: str = "") -> tuple[float | None, str]:
    """`4000 per CPU` -> 4000, CPU; UNLIMITED and 0 are no limit."""
    number, _, unit = (text or "").partition(" per ")
    value = float(number) if number.strip().isdecimal() else 0.0
    return (value or None), unit or per


def names(nodes: Iterable[SlurmNode]) -> list[str]:
    """Their NodeNames."""
    return [n.name for n in nodes]
