"""Which verb can find what each scenario shows, and what an audit finds there beyond a healthy lab."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
SLURM = ("@slurm",)
Findings = Mapping[str, tuple[str, ...]]


class Expected(NamedTuple):
    """`verbs` can find it; `findings` = "check status" -> nodes, of an audit by alice, beyond the baseline."""

    verbs: tuple[str, ...]
    findings: Findings = MappingProxyType({})


# A healthy lab: what the emulation leaves out (accounting, containers, MPI, file systems, a clock of its own).
BASELINE = frozenset(
    {
        "health.passive", "kernel.log.history", "minimums.cuda-toolkit", "net.gdrcopy", "net.hpcx",
        "net.nccl.installed", "numa.gpu-memory", "slurm.accounting", "slurm.accounting.gpus", "slurm.accounts",
        "slurm.apptainer", "slurm.docker", "slurm.enroot", "slurm.health.dcgm", "slurm.login.lasting",
        "slurm.login.packages", "slurm.login.sudo", "slurm.modules", "slurm.pyxis", "slurm.release",
        "storage.local-scratch", "storage.parallel-fs", "sudo.usable", "time.synchronised", "users.identity-provider",
    }
)  # fmt: skip
# What the kernel, the disks and the date of the machine below decide.
OF_THE_MACHINE = frozenset(
    {
        "cgroup.version", "cpu.vulnerabilities", "kernel.hardening", "kernel.taint", "limits.memlock", "limits.nofile",
        "memory.huge-pages", "memory.numa-balancing", "memory.swap", "minimums.table.fresh", "perf.access",
        "session.share", "slurm.gpus.constrained", "storage.image-space", "storage.space", "time.clocksource",
    }
)  # fmt: skip

EXPECTED: dict[str, Expected] = {
    "healthy": Expected(()),
    "healthy-provider": Expected(()),
    "no-health-checks": Expected(("audit", "inject"), {"slurm.health.program warn": SLURM}),
    "circular-gate": Expected(("inject",)),
    "diag-timeout-drains-healthy": Expected(("inject",)),
    "output-nobody-reads": Expected(("audit", "inject"), {"slurm.health.consumed fail": NODES}),
    "wrong-node-name-loop": Expected(("audit", "inject"), {"slurm.health.node-name fail": NODES}),
    "bad-spare": Expected(("inject",)),
    "stale-active-check": Expected(
        ("audit",),
        {
            "health.fresh fail": NODES,
            "health.active.dcgm warn": NODES,
            "health.active.nccl-local warn": NODES,
            "health.active.content warn": NODES,
        },
    ),
    "softlockup-storage-drain": Expected(
        ("audit", "inject"),
        {
            "slurm.drains.storage warn": SLURM,
            "slurm.nodes.usable warn": SLURM,
            "slurm.timeouts.prolog warn": SLURM,  # its epilog has no time limit either
        },
    ),
    "gpu-count-7": Expected(
        ("audit",),
        {
            "nvidia.gpu.count fail": ("gpu02",),
            "nvidia.gpu.count-uniform warn": NODES,
            "slurm.gpus.count fail": ("gpu02",),
            "slurm.job.gpus fail": ("gpu02",),
        },
    ),
    "fabric-cut": Expected(
        ("audit",),
        {
            "net.links.dead warn": ("gpu03",),
            "net.rdma.uniform fail": NODES,
            "net.roce.mtu warn": ("gpu03",),
        },
    ),
    "straggler": Expected(("bench",)),
    "local-scratch-posing-as-shared": Expected(("audit",), {"slurm.home.shared fail": NODES}),
    "nvl72-3-of-18": Expected(("audit", "inject"), {"slurm.nodes.usable warn": SLURM, "slurm.rack.usable fail": SLURM}),
    "cpu-default-1": Expected(
        ("audit",),
        {
            "slurm.defaults.cpus warn": SLURM,
            "slurm.defaults.memory warn": SLURM,  # which follows the CPUs
            "slurm.job.cpus warn": NODES,
        },
    ),
    "realmemory-2048": Expected(("audit",), {"slurm.nodes.memory fail": SLURM, "slurm.defaults.memory warn": SLURM}),
    "prolog-hangs": Expected(
        ("audit",),
        {
            "slurm.prolog.length fail": SLURM,
            "slurm.prolog.time warn": NODES,
            "slurm.timeouts.prolog warn": SLURM,
        },
    ),
    "flat-topology": Expected(("audit",), {"slurm.topology warn": SLURM}),
    "no-srun-for-users": Expected(()),  # nothing to find: an audit must get in by sbatch
}
