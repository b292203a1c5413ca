"""Whether Slurm knows which nodes are near each other."""

from __future__ import annotations

from assay.checks.registry import Fleet, check
from assay.checks.slurm_cluster import gpu_nodes
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.nvidia import NvidiaSmi
from assay.facts.slurm_session import SlurmSession
from assay.model import Missing, Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes
from assay.slurm.topology import Topology

_CRITERIA = ("net-slurm-topology", "orch-slurm-topology", "exp-slurm-topology", "orch-slurm-stack")


@check(
    "slurm.topology",
    category="networking",
    severity="medium",
    criteria=_CRITERIA,
    why="Without a topology Slurm spreads a job over racks though one had room, and collectives cross the spine.",
    fix="TopologyPlugin=topology/tree (topology/block for NVL72), and topology.conf with the leaf of every node.",
)
def topology(network: Topology | Missing, config: SlurmConfig, nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Fails for a flat topology over more nodes than hang on one group of leaves, warns for a smaller flat one."""
    count = len(gpu_nodes(nodes)) or len(nodes.nodes)
    plugin = config.value("TopologyPlugin") or "topology/flat"
    if count < 2:
        return skip("one node")
    known = isinstance(network, Topology) and network.kind != "flat"
    if isinstance(network, Missing) and not plugin.endswith(("flat", "none", "default")):
        return unknown(f"{plugin} is set; scontrol show topology: {network.reason}", "failed")
    limit = bar.flat_nodes.bar(" nodes may be flat", "<= ")
    if not known:
        words = f"flat topology over {count} nodes ({plugin})"
        return (fail if count > bar.flat_nodes.value else warn)(words, seen=count, bar=limit)
    return _tree(network, count, limit_nodes=bar.flat_nodes.value) if isinstance(network, Topology) else skip("")


def _tree(network: Topology, count: int, limit_nodes: float) -> Verdict:
    if network.blocks:
        return ok(f"{len(network.blocks)} blocks of {some(network.block_sizes) or 'one size'} nodes", seen=network.kind)
    leaves = network.leaves
    if len(leaves) == 1 and count > limit_nodes:
        return warn(f"one switch, {leaves[0].name}, holds all {count} nodes: that is as good as flat", seen=count)
    return ok(f"a tree for {count} nodes; leaf switches: {len(leaves)}, levels: {network.levels}", seen=network.kind)


@check(
    "slurm.topology.whole",
    category="networking",
    severity="high",
    criteria=_CRITERIA[:3],
    why="A node that no switch names is never part of a job with others; two separate trees never share a job.",
    fix="Name every node below a leaf, and every leaf below one root, in topology.conf; scontrol reconfigure.",
)
def whole(network: Topology, nodes: SlurmNodes) -> Verdict:
    """Fails when a node is in no leaf or block, or with several roots; cloud nodes that are powered down are hidden."""
    if network.kind == "flat":
        return skip("flat topology")
    have = {n.name for n in nodes.nodes if n.state.base != "FUTURE"}
    named = set(network.nodes())
    if lost := sorted(have - named):
        return fail(f"in no {'block' if network.blocks else 'switch'}: {some(lost)}", seen=lost)
    if len(network.roots) > 1:
        return fail(f"separate trees: {some(s.name for s in network.roots)}", seen=[s.name for s in network.roots])
    hidden = sorted(named - {n.name for n in nodes.nodes})
    more = f"; also named, and powered down or gone: {some(hidden)}" if hidden else ""
    return ok(f"all {len(have)} nodes are in one {network.kind}{more}", seen=len(have))


@check(
    "slurm.topology.nvlink",
    category="networking",
    severity="high",
    criteria=("exp-slurm-topology", "orch-computedomain"),
    why="A job spread over two NVLink domains uses the network where it was sized for NVLink, at a tenth of the speed.",
    fix="TopologyPlugin=topology/block with one block for each NVL72 rack; jobs ask for --segment.",
)
def nvlink(smi: Fleet[NvidiaSmi], jobs: Fleet[SlurmSession]) -> Verdict:
    """Fails when nodes of one leaf or block, by Slurm's address of each, are in different NVLink domains."""
    domains = {node: found for node, s in smi.items() if (found := _domain(s))}
    if not domains:
        return skip("no NVLink domain beyond one node")
    places = {node: job.topology.rpartition(".")[0] for node, job in jobs.items() if node in domains}
    if len(set(domains.values())) == 1:
        return ok(f"all {len(domains)} nodes are in one NVLink domain")
    if not any(places.values()):
        return fail(f"{len(set(domains.values()))} NVLink domains, and Slurm tells jobs of none")
    mixed = sorted({p for p in places.values() if len({domains[n] for n, q in places.items() if q == p}) > 1})
    if mixed:
        return fail(f"nodes of several NVLink domains below {some(mixed)}", seen=mixed)
    return ok(f"{len(set(domains.values()))} NVLink domains, each in places of its own")


def _domain(smi: NvidiaSmi) -> str:
    """Cluster and clique of the node's GPUs; "" without a fabric, and for one that ends at the node (no cluster)."""
    fabrics = [g.fabric for g in smi.gpus if g.fabric and (g.fabric.cluster_uuid or "").strip("0-")]
    return f"{fabrics[0].cluster_uuid}.{fabrics[0].clique_id}" if fabrics else ""
