"""What a Slurm job gets when its script names little: CPUs, memory, a partition."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.slurm_cluster import (
    HIDDEN,
    default_cpus,
    default_memory_mib,
    gpu_nodes,
    gpus_of,
    names,
    shared_gpu_partitions,
)
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.slurm_session import SlurmSession
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes
from assay.slurm.partition import SlurmPartitions

_WHOLE = "no partition with GPUs that shares nodes"


@check(
    "slurm.defaults.cpus",
    category="orchestration",
    severity="medium",
    criteria=("orch-resource-defaults", "exp-slurm-defaults"),
    why="Slurm's own default is one CPU per task: a job that asks for GPUs alone loads its data with a single core.",
    fix="slurm.conf: JobDefaults=DefCpuPerGPU=N with N = CPUs of a node / its GPUs; scontrol reconfigure.",
)
def cpus(config: SlurmConfig, parts: SlurmPartitions, nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Warns where a shared partition with GPUs has no DefCpuPerGPU, or a small one; a submit plugin may set it too."""
    shared = list(shared_gpu_partitions(config, parts, nodes))
    if not shared:
        return skip(_WHOLE)
    limit = bar.cpus_per_gpu.bar(" CPUs per GPU", ">= ")
    told = {p.name: default_cpus(config, p) for p, _ in shared}
    low = [name for name, n in told.items() if (n or 1) < bar.cpus_per_gpu.value]
    if not low:
        return ok(f"a job gets {min(n or 1 for n in told.values())} CPUs per GPU", seen=told, bar=limit)
    words = f"a job that names no CPUs gets {min(told[name] or 1 for name in low)} in {some(low)}"
    if plugins := config.listed("JobSubmitPlugins"):
        return unknown(f"{words}, unless the submit plugin {some(plugins)} sets them", "too-little", seen=told)
    return warn(words, seen=told, bar=limit)


@check(
    "slurm.job.cpus",
    category="orchestration",
    severity="high",
    criteria=("orch-resource-defaults", "exp-slurm-defaults"),
    why="A job that holds all GPUs of a node and one or two CPUs starves them, and looks like a slow cluster.",
    fix="slurm.conf: JobDefaults=DefCpuPerGPU=N; until then every job needs --cpus-per-gpu or --exclusive.",
)
def job_cpus(job: SlurmSession, bar: Slurm) -> Verdict:
    """Looks at the audit's own job: it asked for GPUs and named no CPUs; warns when it got few per GPU."""
    if not job.gpus:
        return skip("the audit's job holds no GPU")
    if job.cpus_asked or job.cpus is None:
        return skip("the audit's job named its CPUs" if job.cpus_asked else "the job's CPUs are not told")
    words = f"a job with {job.gpus} GPUs that names no CPUs gets {job.cpus}"
    limit = bar.cpus_per_gpu.bar(" CPUs per GPU", ">= ")
    if job.cpus < job.gpus * bar.cpus_per_gpu.value:
        return warn(words, seen=job.cpus, bar=limit)
    return ok(words, seen=job.cpus, bar=limit)


@check(
    "slurm.defaults.memory",
    category="orchestration",
    severity="medium",
    criteria=("orch-resource-defaults", "exp-slurm-defaults"),
    why="With a tiny default jobs die for memory that is there; without one the first job takes all of a node's.",
    fix="slurm.conf: JobDefaults=DefMemPerGPU=M with M = RealMemory / GPUs of a node; scontrol reconfigure.",
)
def memory(config: SlurmConfig, parts: SlurmPartitions, nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Where memory is handed out, warns when a job with one GPU gets a small part of its share, or the whole node."""
    if "MEMORY" not in (config.value("SelectTypeParameters") or "").upper():
        return skip("memory is not handed out by Slurm here")
    shared = list(shared_gpu_partitions(config, parts, nodes))
    if not shared:
        return skip(_WHOLE)
    for part, node in shared:
        if not node.real_memory_mib:
            return unknown(f"RealMemory of {node.name} is not told", "too-little")
        share = node.real_memory_mib / gpus_of(node)
        given = default_memory_mib(config, part, node)
        if given is None and gpus_of(node) > 1:
            return warn(f"{part.name}: a job that names no memory takes all of a node's")
        if given is not None and given < share * bar.default_memory_share.value:
            words = f"{part.name}: a job with one GPU that names no memory gets {given:.0f} of {share:.0f} MiB"
            return warn(words, seen=given, bar=bar.default_memory_share.bar(" of its share", ">= "))
    return ok("a job that names no memory gets a fair part of it")


@check(
    "slurm.nodes.memory",
    category="orchestration",
    severity="high",
    criteria=("orch-resource-defaults",),
    why="Slurm hands out RealMemory, not what is built in: a node left at a default runs no job that asks for more.",
    fix="Run slurmd -C on the node and put its RealMemory, less a few GiB for the system, into slurm.conf.",
)
def real_memory(nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Fails for GPU nodes that declare a few GiB per GPU, or less memory than slurmd sees free."""
    found = gpu_nodes(nodes)
    if not found:
        return skip("no node with GPUs")
    floor = bar.memory_per_gpu_gib.value * 1024
    low = [n for n in found if n.real_memory_mib is not None and n.real_memory_mib < floor * gpus_of(n)]
    if low:
        words = f"RealMemory={low[0].real_memory_mib} MiB for {gpus_of(low[0])} GPUs on {some(names(low))}"
        return fail(words, seen=low[0].real_memory_mib, bar=bar.memory_per_gpu_gib.bar(" GiB per GPU", ">= "))
    under = [n for n in found if (n.free_memory_mib or 0) > (n.real_memory_mib or 0) * bar.free_over_real.value]
    if under:
        words = f"{under[0].free_memory_mib} MiB are free where RealMemory says {under[0].real_memory_mib}"
        return fail(f"{words} on {some(names(under))}", seen=names(under), bar=bar.free_over_real.bar("", "<= "))
    if silent := [n for n in found if n.real_memory_mib is None]:
        return unknown(f"RealMemory is not told for {some(names(silent))}", "too-little")
    return ok(f"{len(found)} GPU nodes declare {found[0].real_memory_mib} MiB", seen=found[0].real_memory_mib)


@check(
    "slurm.partitions",
    category="orchestration",
    severity="medium",
    criteria=("orch-resource-defaults",),
    why="A job goes to the default partition: where that has no GPUs, or is closed, the cluster looks broken.",
    fix="scontrol update partitionname=NAME state=up; Default=YES on the partition that holds the GPU nodes.",
)
def partitions(parts: SlurmPartitions, nodes: SlurmNodes) -> Verdict:
    """Warns for partitions that are not up, for none as default, and for a default without GPUs where others have."""
    if not nodes.nodes:
        return unknown(HIDDEN, "too-little")
    if closed := [f"{p.name} {p.state}" for p in parts.partitions if p.state not in (None, "UP")]:
        return warn(f"partitions that take no jobs: {some(closed)}", seen=closed)
    default = parts.default()
    if default is None:
        return warn("no default partition: every job must name one")
    with_gpus = {p for n in gpu_nodes(nodes) for p in n.partitions}
    if with_gpus and default.name not in with_gpus:
        return warn(
            f"the default partition {default.name} has no GPUs; {some(sorted(with_gpus))} has", seen=default.name
        )
    return ok(f"{len(parts.partitions)} partitions are up; the default is {default.name}")
