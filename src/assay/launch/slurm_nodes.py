"""Which nodes of a Slurm target are looked at now, in which jobs, and which are left out and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from assay.launch.nodes import expand
from assay.launch.slurm_script import Group
from assay.model import LeftOut, Target
from assay.slurm.gres import Gres
from assay.slurm.hostlist import fold, hosts
from assay.slurm.node import SlurmNode
from assay.slurm.partition import SlurmPartition

_BUSY = ("MIXED", "ALLOCATED")
_PASSING = frozenset({"COMPLETING", "PLANNED"})


class Cluster(Struct, frozen=True):
    """What Slurm said of its nodes and partitions; `defaults` = default partitions by sinfo."""

    nodes: tuple[SlurmNode, ...] = ()
    partitions: tuple[SlurmPartition, ...] = ()
    defaults: tuple[str, ...] = ()


class Choice(Struct, frozen=True):
    """The jobs to ask for, what is left out, and the state of every node looked at."""

    groups: tuple[Group, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    states: dict[str, str] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes looked at, in the order of the groups."""
        return tuple(node for group in self.groups for node in group.nodes)


def scope(target: Target, cluster: Cluster) -> list[str]:
    """The nodes that the target means: those it names, else those of its partitions (the default one)."""
    if target.nodes:
        return expand(target.nodes)
    wanted = asked_partitions(target, cluster)
    return [node.name for node in cluster.nodes if not wanted or any(name in wanted for name in node.partitions)]


def asked_partitions(target: Target, cluster: Cluster) -> tuple[str, ...]:
    """The partitions named in the options, else the default one, else none (every node is meant)."""
    if target.slurm.partition:
        return tuple(target.slurm.partition.split(","))
    return tuple(p.name for p in cluster.partitions if p.default) or cluster.defaults


def choose(
    target: Target,
    cluster: Cluster,
    *,
    wait: bool,
    strict: bool = False,
    only: Iterable[str] | None = None,
) -> Choice:
    """What can be looked at now, of `only` these nodes if given. With `wait`, busy nodes too.

    `strict` leaves out nodes whose state is passing, such as those whose last job is still being tidied away.
    """
    known = {node.name: node for node in cluster.nodes}
    wanted = list(scope(target, cluster) if only is None else only)
    names = asked_partitions(target, cluster)
    groups: dict[tuple[str, str, bool], list[str]] = {}
    out: dict[str, list[str]] = {}
    for name in wanted:
        why = _why_not(known.get(name), target, names, wait=wait, strict=strict)
        if why:
            out.setdefault(why, []).append(name)
            continue
        node = known[name]
        key = (_partition(node, target, names), target_gres(target, node), node.state.base in _BUSY)
        groups.setdefault(key, []).append(name)
    if only is None and not target.nodes and (others := [name for name in known if name not in set(wanted)]):
        out[f"not in partition {','.join(names)}"] = others
    return Choice(
        tuple(Group(tuple(found), *key) for key, found in groups.items()),
        tuple(LeftOut(fold(found), why) for why, found in out.items()),
        {name: str(known[name].state) for found in groups.values() for name in found},
    )


def target_gres(target: Target, node: SlurmNode) -> str:
    """What is asked for on a node: the option, else all GPUs that Slurm knows there."""
    if target.slurm.gres:
        return "" if target.slurm.gres == "none" else target.slurm.gres
    return ",".join(_request(entry) for entry in node.gres or () if entry.name == "gpu" and entry.count)


def _request(entry: Gres) -> str:
    return ":".join(filter(None, (entry.name, entry.type, str(entry.count))))


def _partition(node: SlurmNode, target: Target, asked: Sequence[str]) -> str:
    """The partition to name; none where Slurm's own default will do."""
    first = next((name for name in asked if name in node.partitions), "")
    if target.slurm.partition:
        return first
    return "" if first else next(iter(node.partitions), "")


def _why_not(node: SlurmNode | None, target: Target, partitions: Sequence[str], *, wait: bool, strict: bool) -> str:
    if node is None:
        return "Slurm knows no node of this name"
    if not node.partitions or (target.slurm.partition and not set(partitions) & set(node.partitions)):
        return f"not in partition {','.join(partitions)}" if node.partitions else "in no partition"
    state = node.state
    if why := _closed(node, target):
        return why
    if state.base in _BUSY and not wait:
        return f"busy: {state}{_in_use(node)}"
    if strict and (passing := _PASSING.intersection(state.flags)):
        return f"busy: {state.base}+{'+'.join(sorted(passing))}"
    return ""


def _closed(node: SlurmNode, target: Target) -> str:
    """Why no job can start there, whatever one waits for."""
    state = node.state
    reason = f": {node.reason}" if node.reason else ""
    held = {"MAINTENANCE", "RESERVED"}.intersection(state.flags)
    ours = target.slurm.reservation and node.reservation in (None, target.slurm.reservation)
    if state.drain:
        return f"{state.drain} ({state}){reason}"
    if state.failed:
        return f"down ({state}){reason}"
    if state.asleep:
        return f"powered down ({state})"
    if held and not ours:
        return f"reserved ({state})" + (f" for {node.reservation}" if node.reservation else "")
    if not state.usable and not held:
        return f"not in service ({state}){reason}"
    return ""


def _in_use(node: SlurmNode) -> str:
    used, there = node.gpus_alloc, node.gpus
    return f", {used} of {there} GPUs in use" if used is not None and there else ""


def aliases(nodes: Iterable[SlurmNode]) -> Mapping[str, str]:
    """Host name, long and short -> node name, where it is the name of one node only."""
    found: dict[str, str] = {}
    for node in nodes:
        for host in hosts(node.hostname):
            for name in (host, host.partition(".")[0]):
                found[name] = node.name if found.get(name, node.name) == node.name else ""
    return {name: node for name, node in found.items() if node}
