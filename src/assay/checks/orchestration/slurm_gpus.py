"""Which GPUs a Slurm job sees: its own, all of them, and no others."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.slurm_cluster import gpu_nodes, shared_gpu_partitions
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.nvidia import NvidiaSmi
from assay.facts.slurm_session import SlurmSession
from assay.model import Missing, Verdict
from assay.slurm.config import SlurmConfig, flag
from assay.slurm.node import SlurmNodes
from assay.slurm.partition import SlurmPartitions


@check(
    "slurm.gpus.constrained",
    category="orchestration",
    severity="high",
    criteria=("orch-cuda-visible-devices",),
    why="Without device constraint a variable is all that separates jobs: a script that sets it takes another's GPUs.",
    fix="cgroup.conf: ConstrainDevices=yes; slurm.conf: TaskPlugin=task/cgroup,task/affinity; restart slurmd.",
)
def constrained(config: SlurmConfig, parts: SlurmPartitions, nodes: SlurmNodes) -> Verdict:
    """Passes with ConstrainDevices=yes and task/cgroup; warns without where jobs may share a node with GPUs."""
    if not gpu_nodes(nodes):
        return skip("Slurm knows no GPU here")
    if not list(shared_gpu_partitions(config, parts, nodes)):
        return skip("every job gets whole nodes")
    plugins = config.listed("TaskPlugin")
    if not {"task/cgroup", "cgroup"}.intersection(plugins):
        words = f"TaskPlugin={','.join(plugins) or 'none'}"
        return warn(f"{words}: nothing keeps a job from the GPUs of others", seen=list(plugins))
    told = next((part for part in config.sections.values() if "constraindevices" in part), None)
    if told is None:
        return unknown("slurmctld does not show cgroup.conf", "too-little")
    if flag(told, "constraindevices", default=False):
        return ok("jobs see only the GPUs they were given (ConstrainDevices=yes, task/cgroup)")
    return warn("ConstrainDevices=no: a job can use the GPUs of every other job on the node")


@check(
    "slurm.job.gpus",
    category="orchestration",
    severity="high",
    criteria=("orch-cuda-visible-devices",),
    why="With a wrong list CUDA runs on GPUs of another job, or on fewer than were paid for.",
    fix="Let gres.conf name the device files (AutoDetect=nvml, or File=/dev/nvidia[0-7]); restart slurmd.",
)
def job_gpus(job: SlurmSession, smi: NvidiaSmi | Missing) -> Verdict:
    """Looks at the audit's own job: CUDA or ROCm must be told of as many GPUs as Slurm gave, and all be there."""
    if not job.gpus:
        return skip("the audit's job holds no GPU")
    if job.visible is None:
        return fail(f"Slurm gave {job.gpus} GPUs and set no CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES", seen=None)
    if len(job.visible) != job.gpus:
        words = f"Slurm gave {job.gpus} GPUs; {job.visible_by} names {len(job.visible)}"
        return fail(words, seen=list(job.visible), expected=job.gpus)
    mig = any(name.startswith("MIG") for name in job.visible)
    seen = len(smi.gpus) if isinstance(smi, NvidiaSmi) else None
    if seen is not None and not mig and seen < job.gpus:
        return fail(f"Slurm gave {job.gpus} GPUs; nvidia-smi shows {seen}", seen=seen, expected=job.gpus)
    return ok(f"{job.visible_by} names the {job.gpus} GPUs of the job")
