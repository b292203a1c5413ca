"""What a session may use: limits, control group, its share of the host."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.cpu import Cpu, cpu_list
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevices
from assay.facts.limits import Cgroup, Limits
from assay.facts.memory import Memory
from assay.facts.nvidia import NvidiaSmi
from assay.facts.slurm_session import SlurmSession
from assay.model import Missing, Verdict
from assay.profiles.host import Host

_MIB = 1 << 20


@check(
    "limits.memlock",
    category="orchestration",
    severity="high",
    criteria=("orch-resource-defaults",),
    why="RDMA pins its buffers: with a low limit NCCL and MPI cannot open InfiniBand or RoCE and fail, or fall to TCP.",
    fix='Put "* - memlock unlimited" into /etc/security/limits.d and LimitMEMLOCK=infinity into the unit of slurmd, '
    "containerd or docker; log in again.",
)
def memlock(limits: Limits, rdma: RdmaDevices, bar: Host) -> Verdict:
    """On a host with RDMA devices, locked memory must be unlimited; a small limit fails, a large one warns.

    For root, whose sessions skip "*" in limits.conf, a line there that frees users counts.
    """
    if not rdma.devices:
        return skip("no RDMA device")
    own = limits.own.get("memlock")
    if own is None:
        return unknown("the limit of locked memory is not given", "too-little")
    if own.soft == "unlimited":
        return ok("locked memory is unlimited")
    words = f"locked memory is limited to {own.soft // _MIB} MiB"
    freed = any(
        x.item == "memlock" and x.domain == "*" and x.value in ("unlimited", "infinity", "-1")
        for x in limits.configured
    )
    if limits.uid == 0 and freed:
        return ok(f"{words} for root; limits.conf frees users")
    if own.hard == "unlimited" or own.soft >= bar.memlock_mib.value * _MIB:
        return warn(words, seen=own.soft, expected="unlimited")
    return fail(words, seen=own.soft, expected="unlimited", bar=bar.memlock_mib.bar(" MiB", ">= "))


@check(
    "limits.nofile",
    category="orchestration",
    severity="low",
    criteria=("orch-resource-defaults",),
    why="Data loaders, Ray and parameter servers open tens of thousands of files and sockets.",
    fix='Put "* - nofile 1048576" into /etc/security/limits.d; log in again.',
)
def nofile(limits: Limits, bar: Host) -> Verdict:
    """Warns when the hard limit of open files is low; a low soft limit can be raised by the user."""
    own = limits.own.get("nofile")
    if own is None:
        return unknown("the limit of open files is not given", "too-little")
    words = f"open files: {own.soft} at once, {own.hard} on demand"
    if own.hard != "unlimited" and own.hard < bar.nofile.value:
        return warn(words, seen=own.hard, bar=bar.nofile.bar(sign=">= "))
    return ok(words, seen=own.hard)


@check(
    "cgroup.version",
    category="orchestration",
    severity="low",
    why="Slurm, Kubernetes and container runtimes drop control groups v1; memory and devices are fenced worse there.",
    fix="Boot with systemd.unified_cgroup_hierarchy=1, or move to a distribution whose default is v2.",
)
def cgroup_version(group: Cgroup) -> Verdict:
    """Passes for the unified hierarchy, warns for v1 and for the mixture of both."""
    if group.version is None:
        return unknown("the version of control groups could not be told", "too-little")
    if group.version == "v2":
        return ok("control groups v2")
    return warn(f"control groups {group.version}", seen=group.version, expected="v2")


@check(
    "session.share",
    category="orchestration",
    severity="medium",
    criteria=("orch-resource-defaults",),
    why="A session that holds GPUs and only a few of the host's CPUs or little of its memory cannot feed them; "
    "one logical CPU is a default often left in Slurm.",
    fix="Raise the defaults: DefCpuPerGPU and DefMemPerGPU in slurm.conf, or requests and limits of the pod.",
)
def share(  # noqa: PLR0913, PLR0917 - what the session got, and what the host has
    group: Cgroup,
    memory: Memory,
    cpu: Cpu,
    gpus: GpuPresence,
    smi: NvidiaSmi | Missing,
    job: SlurmSession | Missing,
    bar: Host,
) -> Verdict:
    """On a GPU host, warns when this session may use much less of the CPUs or of memory than its share of the GPUs.

    A job of Slurm gets what was asked for: there slurm.job.cpus looks at the defaults.
    """
    if not gpus.any:
        return skip("no GPU")
    if isinstance(job, SlurmSession):
        return skip("read from within a job of Slurm")
    low = bar.session_share.value * _held(gpus, smi)
    cpus = len(cpu_list(group.cpus_allowed)) if group.cpus_allowed else None
    if group.cpus_max and (cpus is None or group.cpus_max < cpus):
        cpus = int(group.cpus_max)
    if cpus is None or not cpu.online or not memory.total_mib:
        return unknown("the share of this session is not given", "too-little")
    if cpus < cpu.online * low:
        return warn(f"this session may use {cpus} of {cpu.online} CPUs", seen=cpus, bar=bar.session_share.bar())
    if group.memory_max_mib and group.memory_max_mib < memory.total_mib * low:
        words = f"this session may use {group.memory_max_mib // 1024} of {memory.total_mib // 1024} GiB memory"
        return warn(words, seen=group.memory_max_mib, bar=bar.session_share.bar())
    return ok(f"this session may use {cpus} of {cpu.online} CPUs and its share of memory")


def _held(gpus: GpuPresence, smi: NvidiaSmi | Missing) -> float:
    """Which part of the host's GPUs this session sees; all of them where that cannot be told."""
    seen = 0 if isinstance(smi, Missing) else len(smi.gpus)
    return min(seen / len(gpus.nvidia), 1.0) if seen and gpus.nvidia else 1.0
