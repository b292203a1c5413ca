"""Nodes of a Slurm cluster: which can run jobs, whether they registered what was sold, and whether spares are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from assay.checks.registry import check
from assay.checks.slurm_cluster import HIDDEN, gpu_nodes, gpus_of, names, strange
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.gpu_pci import GpuPciDevices
from assay.facts.slurm_session import SlurmSession
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.hostlist import hosts
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.topology import Topology


def _told(nodes: Iterable[SlurmNode]) -> str:
    return some(f"{n.name} {n.state}" + (f" ({n.reason})" if n.reason else "") for n in nodes)


def _present(nodes: SlurmNodes) -> list[SlurmNode]:
    """Without nodes that are not there by intent: FUTURE, powered down, in maintenance."""
    return [n for n in nodes.nodes if n.state.base != "FUTURE" and not n.state.asleep]


def _nobody(nodes: SlurmNodes) -> Verdict:
    return skip("every node is powered down") if nodes.nodes else unknown(HIDDEN, "too-little")


@check(
    "slurm.nodes.up",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="A node that is down is paid for and runs nothing; one that does not answer may take jobs with it.",
    fix="scontrol show node NAME; read slurmd.log there; after the repair scontrol update nodename=NAME state=resume.",
)
def up(nodes: SlurmNodes) -> Verdict:
    """Fails for nodes that are down, failing or silent; powered-down nodes and maintenance are no failures."""
    there = _present(nodes)
    if not there:
        return _nobody(nodes)
    down = [n for n in there if n.state.failed and "MAINTENANCE" not in n.state.flags]
    if down:
        return fail(f"{len(down)} of {len(there)} nodes are down: {_told(down)}", seen=names(down))
    if odd := [n for n in there if strange(n.state)]:
        return unknown(f"states without a known meaning: {_told(odd)}", seen=names(odd))
    return ok(f"{len(there)} nodes answer")


@check(
    "slurm.nodes.usable",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="Nodes that are drained or down are capacity that was bought and cannot be used.",
    fix="sinfo -R lists the reasons; repair, validate and resume the nodes, or swap in spares.",
)
def usable(nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Warns when more than a small part of the nodes takes no jobs: drained, down, failing or waiting for a reboot."""
    there = _present(nodes)
    if not there:
        return _nobody(nodes)
    out = [n for n in there if not n.state.usable]
    limit = bar.unusable_percent.bar(" %", "<= ")
    if 100 * len(out) > bar.unusable_percent.value * len(there):
        return warn(f"{len(out)} of {len(there)} nodes take no jobs: {_told(out)}", seen=len(out), bar=limit)
    more = f": {_told(out)}" if out else ""
    return ok(f"{len(there) - len(out)} of {len(there)} nodes take jobs{more}", seen=len(out), bar=limit)


@check(
    "slurm.nodes.registered",
    category="reliability",
    severity="high",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="slurmd found less than slurm.conf promises: a GPU fell off the bus, memory is gone, or the file is wrong.",
    fix="Compare slurmd -C and nvidia-smi -L on the node with its NodeName line; repair the node or mend the line.",
)
def registered(nodes: SlurmNodes) -> Verdict:
    """Fails for nodes with an invalid registration, or whose reason says that GPUs, CPUs or memory came up short."""
    words = ("count reported lower", "low realmemory", "low socket", "low cpu", "low core", "gres/gpu count", "low tmp")
    short = [
        n
        for n in nodes.nodes
        if "INVALID_REG" in n.state.flags
        or n.state.base == "INVAL"
        or any(w in (n.reason or "").lower() for w in words)
    ]
    if short:
        return fail(f"less there than configured: {_told(short)}", seen=names(short))
    if odd := [n for n in nodes.nodes if strange(n.state)]:
        return unknown(f"states without a known meaning: {_told(odd)}", seen=names(odd))
    return (
        ok(f"{len(nodes.nodes)} nodes registered what slurm.conf says")
        if nodes.nodes
        else unknown(HIDDEN, "too-little")
    )


@check(
    "slurm.nodes.gpus-uniform",
    category="reliability",
    severity="high",
    criteria=("exp-hc-off-bus",),
    why="A node that was quietly reconfigured from eight GPUs to seven stays idle and looks healthy; "
    "jobs that want eight never fit.",
    fix="scontrol show node NAME; count the GPUs there (nvidia-smi -L) and repair the node instead of its line.",
)
def gpus_uniform(nodes: SlurmNodes) -> Verdict:
    """Warns when a node counts fewer GPUs than most nodes with the same partitions, features and type of GPU."""
    kinds: dict[tuple[object, ...], list[SlurmNode]] = {}
    for n in gpu_nodes(nodes):
        types = tuple(sorted({g.type or "" for g in n.gres or () if g.name == "gpu"}))
        kinds.setdefault((n.partitions, n.features, types), []).append(n)
    if not kinds:
        return skip("no node with GPUs")
    odd: list[str] = []
    for alike in kinds.values():
        usual = Counter(gpus_of(n) for n in alike).most_common(1)[0][0]
        odd += [f"{n.name} {gpus_of(n)} instead of {usual}" for n in alike if gpus_of(n) < usual]
    if odd:
        return warn(f"fewer GPUs than their like: {some(odd)}", seen=odd)
    counts = sorted({gpus_of(n) for alike in kinds.values() for n in alike})
    return ok(f"{len(gpu_nodes(nodes))} nodes with {some(counts)} GPUs each", seen=counts)


@check(
    "slurm.gpus.count",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-off-bus", "orch-cuda-visible-devices"),
    why="Slurm counts files it was told of, not GPUs: a node that lost one still takes jobs for all, and they fail.",
    fix="Drain the node, repair it, and let gres.conf find GPUs itself (AutoDetect=nvml).",
)
def gpus_counted(job: SlurmSession, bus: GpuPciDevices) -> Verdict:
    """Compares the GPUs Slurm gave to the audit's job, which asks for all, with those that answer on the PCI bus."""
    if not job.gpus:
        return skip("the audit's job holds no GPU")
    if job.visible and any(name.startswith("MIG") for name in job.visible):
        return skip("the GPUs are divided (MIG)")
    alive = [g for g in bus.gpus if not g.gone]
    if len(alive) < job.gpus:
        return fail(f"Slurm counts {job.gpus} GPUs; {len(alive)} answer on the bus", seen=len(alive), expected=job.gpus)
    if len(alive) > job.gpus:
        return skip(f"the audit's job holds {job.gpus} of {len(alive)} GPUs")
    return ok(f"Slurm and the bus count {job.gpus} GPUs", seen=job.gpus)


@check(
    "slurm.nodes.spare",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="A spare that is itself bad is found out when it is needed; a node in no partition runs nothing.",
    fix="Check spares like any other node; scontrol update partitionname=NAME nodes=+NODE puts one to work.",
)
def spare(nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Nodes in no partition count as spares: they must be up and have their GPUs, and be few."""
    there = _present(nodes)
    spares = [n for n in there if not n.partitions]
    if not spares:
        return skip("every node is in a partition")
    if bad := [n for n in spares if not n.state.usable]:
        return fail(f"spares that could not take over: {_told(bad)}", seen=names(bad))
    most = max((gpus_of(n) for n in there), default=0)
    if few := [n for n in spares if 0 < gpus_of(n) < most]:
        return fail(f"spares with fewer GPUs than {most}: {some(names(few))}", seen=names(few))
    limit = bar.spare_percent.bar(" %", "<= ")
    words = f"{len(spares)} of {len(there)} nodes are in no partition: {some(names(spares))}"
    if 100 * len(spares) > bar.spare_percent.value * len(there):
        return warn(words, seen=names(spares), bar=limit)
    return ok(f"{words}; ready as spares", seen=names(spares), bar=limit)


@check(
    "slurm.rack.usable",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="An NVLink domain cannot borrow nodes from another: with a few of them gone large jobs no longer fit.",
    fix="Repair the nodes named; NVL72 contracts count a rack as down from three nodes on.",
)
def rack(nodes: SlurmNodes, network: Topology, bar: Slurm) -> Verdict:
    """In a block topology, or one of racks of 4-GPU nodes, fails when several nodes of one rack take no jobs."""
    by_name = {n.name: n for n in nodes.nodes}
    groups = {s.name: hosts(s.nodes) for s in network.leaves}
    groups |= {b.name: hosts(b.nodes) for b in network.blocks if not b.aggregated}
    racks = {name: group for name, group in groups.items() if network.blocks or _nvl(group, by_name, bar)}
    if not racks:
        return skip("no NVLink rack in Slurm's topology")
    out = {name: [x for x in group if x in by_name and not by_name[x].state.usable] for name, group in racks.items()}
    limit = bar.rack_down.bar(" nodes", "< ")
    down = {name: gone for name, gone in out.items() if len(gone) >= bar.rack_down.value}
    if down:
        words = some(f"{name}: {len(gone)} of {len(racks[name])} ({some(gone)})" for name, gone in down.items())
        return fail(f"racks that count as down: {words}", seen=down, bar=limit)
    if any(out.values()):
        words = some(f"{name}: {some(gone)}" for name, gone in out.items() if gone)
        return warn(f"nodes missing in racks: {words}", seen=out, bar=limit)
    return ok(f"all nodes of {some(racks)} take jobs", bar=limit)


def _nvl(group: Iterable[str], nodes: dict[str, SlurmNode], bar: Slurm) -> bool:
    members = [nodes[name] for name in group if name in nodes]
    return len(members) == bar.rack_nodes.value and all(gpus_of(n) == bar.tray_gpus.value for n in members)


@check(
    "slurm.node.name",
    category="reliability",
    severity="low",
    why="A health check that drains $(hostname) drains nothing where Slurm knows the node by another name.",
    fix="In scripts use $SLURMD_NODENAME; or let NodeName be the host's short name.",
)
def node_name(job: SlurmSession) -> Verdict:
    """Compares Slurm's name for the node with the host's own; a difference is allowed, and worth knowing."""
    if not job.node or not job.hostname:
        return unknown("the job is not told the name of its node", "too-little")
    if job.node in (job.hostname, job.hostname.partition(".")[0]):
        return ok("Slurm and the host use one name")
    return warn(f"Slurm calls {job.hostname} {job.node}", seen=job.hostname, expected=job.node)
