"""What Slurm gives to a job on a node: its name for the node, GPUs, CPUs, memory, and whose job it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

from assay.facts.source import source
from assay.model import Env, Fact, Files, Missing, Probe, RawFact

_ORDINARY = range(1000, 60000)
_NO_LOGIN = ("nologin", "/false", "/sync", "/shutdown", "/halt")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
# By name: other SLURM_* variables hold tokens.
_NAMES = (
    "SLURM_JOB_ID", "SLURM_JOB_USER", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURMD_NODENAME",
    "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_TOPOLOGY_ADDR",
    "SLURM_TOPOLOGY_ADDR_PATTERN", "HOME", *_DEVICES,
)  # fmt: skip


class SlurmSession(Fact, frozen=True):
    """The job that this node was read from. `node` = Slurm's name for it, `hostname` = its own.

    `gpu_indices` are Slurm's, `visible` are what CUDA or ROCm is told by `visible_by`; None = not said.
    `cpus_asked` = the job named a number of CPUs. `homes` = directories that hold homes of local accounts.
    """

    job: str = ""
    user: str = ""
    node: str = ""
    hostname: str = ""
    partition: str = ""
    job_nodes: int | None = None
    gpus: int | None = None
    gpu_indices: tuple[int, ...] | None = None
    visible: tuple[str, ...] | None = None
    visible_by: str = ""
    cpus: int | None = None
    cpus_asked: bool = False
    mem_per_node_mib: int | None = None
    mem_per_cpu_mib: int | None = None
    mem_per_gpu_mib: int | None = None
    topology: str = ""
    home: str = ""
    homes: tuple[str, ...] = ()


@source(
    Probe(
        "slurm.session",
        (
            Env("env", _NAMES),
            Files("hostname", ("/proc/sys/kernel/hostname",), cap=256),
            Files("passwd", ("/etc/passwd",), cap=1 << 20),
        ),
    ),
    sees_missing=True,
)
def session(raw: RawFact) -> SlurmSession | Missing:
    """The environment of a job step, and the local accounts' home directories."""
    env = raw.files("env")
    if not env.get("SLURM_JOB_ID"):
        return Missing("not-applicable", "not read from within a job of Slurm")
    by = next((name for name in _DEVICES if name in env), "")
    return SlurmSession(
        job=env["SLURM_JOB_ID"],
        user=env.get("SLURM_JOB_USER", ""),
        node=env.get("SLURMD_NODENAME", ""),
        hostname=raw.out("hostname").strip(),
        partition=env.get("SLURM_JOB_PARTITION", ""),
        job_nodes=_whole(env, "SLURM_JOB_NUM_NODES"),
        gpus=_whole(env, "SLURM_GPUS_ON_NODE"),
        gpu_indices=_indices(env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS")),
        visible=_listed(env[by]) if by else None,
        visible_by=by,
        cpus=_whole(env, "SLURM_CPUS_ON_NODE"),
        cpus_asked="SLURM_CPUS_PER_TASK" in env or "SLURM_CPUS_PER_GPU" in env,
        mem_per_node_mib=_whole(env, "SLURM_MEM_PER_NODE"),
        mem_per_cpu_mib=_whole(env, "SLURM_MEM_PER_CPU"),
        mem_per_gpu_mib=_whole(env, "SLURM_MEM_PER_GPU"),
        topology=env.get("SLURM_TOPOLOGY_ADDR", ""),
        home=env.get("HOME", ""),
        homes=homes(raw.out("passwd")),
    )


def homes(passwd: str) -> tuple[str, ...]:
    """The directories that people's home directories lie in, each once."""
    rows = (line.split(":") for line in passwd.splitlines())
    people = (r for r in rows if len(r) == 7 and r[2].isdecimal() and int(r[2]) in _ORDINARY)
    found = (r[5].rstrip("/").rpartition("/")[0] for r in people if not r[6].endswith(_NO_LOGIN))
    return tuple(sorted({place for place in found if place}))


def _whole(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 16 else None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _indices(text: str | None) -> tuple[int, ...] | None:
    found: list[int] = []
    for part in _listed(text or ""):
        span = _RANGE.fullmatch(part)
        if not span or int(span[2] or span[1]) - int(span[1]) > 1024:
            return None
        found += range(int(span[1]), int(span[2] or span[1]) + 1)
    return tuple(found) if text else None
