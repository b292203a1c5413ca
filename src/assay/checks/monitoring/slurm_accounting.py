"""What Slurm keeps of jobs for reports, and whether its health check program looks at GPUs."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.slurm_cluster import gpu_nodes
from assay.checks.verdict import ok, skip, some, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.health_programs import HealthPrograms
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes
from assay.slurm.sdiag import Sdiag


@check(
    "slurm.accounting.gpus",
    category="monitoring",
    severity="medium",
    criteria=("mon-sacct", "mon-slurm-integration"),
    why="Where GPUs are not counted, no report can say who used how many, and quotas on GPUs cannot be set.",
    fix="slurm.conf: AccountingStorageTRES=gres/gpu and JobAcctGatherType=jobacct_gather/cgroup; restart slurmctld.",
)
def gpus(config: SlurmConfig, nodes: SlurmNodes) -> Verdict:
    """On a cluster with GPUs, warns when accounting does not track gres/gpu, or gathers nothing from jobs."""
    if not gpu_nodes(nodes):
        return skip("Slurm knows no GPU here")
    if (config.value("AccountingStorageType") or "none").endswith("none"):
        return warn("accounting is switched off: nothing is kept of a job")
    tracked = config.listed("AccountingStorageTRES")
    if not any(name.startswith("gres/gpu") for name in tracked):
        return warn(f"AccountingStorageTRES does not track gres/gpu: {some(tracked, 8)}", seen=list(tracked))
    gather = config.value("JobAcctGatherType")
    if gather is None or gather.endswith("none"):
        return warn("JobAcctGatherType is none: memory and CPU use of jobs are not kept")
    return ok(f"GPUs are tracked; use of CPU and memory comes from {gather}")


@check(
    "slurm.health.dcgm",
    category="monitoring",
    severity="medium",
    criteria=("mon-dcgm-healthprogram", "exp-slurm-dcgm-health"),
    why="A health check that does not ask the GPUs lets a node with broken ones take the next job.",
    fix="Let the program read dcgmi health -c -j (background watches on) or NHC's check_nv_healthmon, and drain.",
)
def dcgm(gpus: GpuPresence, health: HealthPrograms) -> Verdict:
    """Looks in the health check program on the node for DCGM, and for watches of GPUs by other means."""
    if not gpus.any:
        return skip("no GPU")
    found = [p for p in health.programs if p.name == "slurm HealthCheckProgram"]
    if not found:
        return skip("no health check program of Slurm on this host")
    program = found[0]
    if "dcgm" in program.command.lower() or "dcgm-diag" in program.tests or program.diag_level:
        return ok(f"{program.command} asks DCGM", seen=program.command)
    kinds = [w for w in program.watches if w != "collective"]
    if not kinds:
        return unknown(f"what {program.command} looks at is not in it", "too-little")
    return warn(f"{program.command} looks at {some(kinds)}; it does not ask DCGM", seen=kinds)


@check(
    "slurm.controller.load",
    category="monitoring",
    severity="medium",
    criteria=("mon-slurm-integration",),
    why="A slurmctld that is flooded with requests answers late: submissions time out and nodes look silent.",
    fix="sdiag names users and kinds of requests: poll less, use job arrays; SlurmctldParameters=rl_enable.",
)
def load(diag: Sdiag, bar: Slurm) -> Verdict:
    """Warns when requests queue up in slurmctld or towards slurmdbd, as sdiag counts them."""
    threads, agents, dbd = diag.server_threads, diag.agent_queue, diag.dbd_queue
    if threads is None and agents is None and dbd is None:
        return unknown("sdiag tells no queue", "too-little")
    words = f"{threads or 0} threads busy, {agents or 0} messages and {dbd or 0} records of accounting wait"
    seen = {bar.busy_threads: threads, bar.waiting_messages: agents, bar.waiting_records: dbd}
    over = next((limit for limit, number in seen.items() if (number or 0) >= limit.value), None)
    return warn(words, bar=over.bar("", "< ")) if over else ok(words)
