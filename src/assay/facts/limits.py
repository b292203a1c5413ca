"""Limits of the session: ulimit, limits.conf, kernel settings, control group."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct, field

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact

_LIMIT = re.compile(r"^Max ([a-z ]+?) {2,}(\d+|unlimited) +(\d+|unlimited)\b", re.MULTILINE)
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
_V1_NO_LIMIT = 1 << 62
_ITEMS = {"open files": "nofile", "locked memory": "memlock", "processes": "nproc", "stack size": "stack",
          "core file size": "core", "file size": "fsize", "address space": "as", "resident set": "rss"}  # fmt: skip
_SYSCTLS = (
    "vm/swappiness", "vm/overcommit_memory", "vm/overcommit_ratio", "vm/max_map_count", "vm/nr_hugepages",
    "vm/zone_reclaim_mode", "vm/min_free_kbytes", "vm/dirty_ratio", "vm/dirty_background_ratio",
    "kernel/numa_balancing", "kernel/perf_event_paranoid", "kernel/kptr_restrict", "kernel/yama/ptrace_scope",
    "kernel/pid_max", "kernel/threads-max", "kernel/randomize_va_space", "kernel/panic_on_oops",
    "kernel/hung_task_timeout_secs", "kernel/tainted",
    "net/core/rmem_max", "net/core/wmem_max", "net/core/somaxconn", "net/core/netdev_max_backlog",
    "net/core/default_qdisc", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_mtu_probing", "net/ipv4/ip_local_port_range",
    "net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/arp_announce", "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "fs/file-max", "fs/nr_open", "fs/aio-max-nr", "fs/inotify/max_user_watches", "fs/inotify/max_user_instances",
    "user/max_user_namespaces",
)  # fmt: skip

Amount = int | Literal["unlimited"]


class Limit(Struct, frozen=True, kw_only=True):
    """Soft and hard limit; memory in bytes."""

    soft: Amount
    hard: Amount


class LimitLine(Struct, frozen=True, kw_only=True):
    """One line of limits.conf."""

    domain: str
    kind: str
    item: str
    value: str
    file: str = ""


class Limits(Fact, frozen=True):
    """`own` = what this session of `uid` got (memlock, nofile, ...); `configured` = limits.conf, in file order."""

    uid: int | None = None
    own: dict[str, Limit] = field(default_factory=dict)
    configured: tuple[LimitLine, ...] = ()


class Sysctls(Fact, frozen=True):
    """Kernel settings by dotted name, verbatim."""

    values: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """The setting as a number, None where it is not there or not one."""
        text = self.values.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else None


class Cgroup(Fact, frozen=True):
    """The control groups of this host and what the one of this session may use. None = no limit was seen."""

    version: Literal["v1", "v2", "hybrid"] | None = None
    path: str = ""
    controllers: tuple[str, ...] = ()
    memory_max_mib: int | None = None
    cpus_max: float | None = None
    cpus_allowed: str | None = None


@source(
    Probe(
        "host.limits",
        (
            Files("own", ("/proc/self/limits",)),
            Files("configured", ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf"), limit=64),
        ),
    )
)
def host_limits(raw: RawFact) -> Limits | Missing:
    """The limits this session got, and the files they usually come from."""
    own = {
        _ITEMS.get(name, name.replace(" ", "_")): Limit(soft=_amount(soft), hard=_amount(hard))
        for name, soft, hard in _LIMIT.findall(raw.out("own"))
    }
    if not own:
        return Missing("unparsable", "/proc/self/limits names no limit")
    configured = tuple(line for path, text in raw.files("configured").items() for line in limits_conf(text, path))
    return Limits(uid=raw.uid if raw.uid >= 0 else None, own=own, configured=configured)


@source(Probe("host.sysctl", (Files("values", tuple(f"/proc/sys/{s}" for s in _SYSCTLS), cap=4096),)))
def host_sysctl(raw: RawFact) -> Sysctls:
    """Settings from /proc/sys; blanks between several numbers become one."""
    return Sysctls(
        values={
            path.removeprefix("/proc/sys/").replace("/", "."): " ".join(text.split())
            for path, text in raw.files("values").items()
        }
    )


@source(
    Probe(
        "host.cgroup",
        (
            Files("own", ("/proc/self/cgroup",)),
            Files("status", ("/proc/self/status",)),
            Files("root", ("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers")),
            Files(
                "limits",
                tuple(
                    f"/sys/fs/cgroup{place}/{name}"
                    for place in ("", "/user.slice", "/user.slice/user-*.slice", "/system.slice/slurmstepd.scope/job_*")
                    for name in ("memory.max", "cpu.max")
                ),
                limit=512,
            ),
            Files(
                "v1",
                (
                    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "/sys/fs/cgroup/memory/user.slice/user-*.slice/memory.limit_in_bytes",
                    "/sys/fs/cgroup/memory/slurm/uid_*/job_*/memory.limit_in_bytes",
                ),
                limit=512,
            ),
        ),
    )
)
def host_cgroup(raw: RawFact) -> Cgroup | Missing:
    """Version by the mount layout; limits of the own group and of those above it."""
    groups = [line.split(":", 2) for line in raw.out("own").splitlines() if line.count(":") >= 2]
    if not groups:
        return Missing("unparsable", "/proc/self/cgroup names no group")
    root = raw.files("root")
    unified = next((path for number, _, path in groups if number == "0"), "")
    v1 = next((path for _, names, path in groups if "memory" in names.split(",")), "")
    above = [f"/sys/fs/cgroup{p}" for p in _above(unified)]
    limits = raw.files("limits")
    allowed = _ALLOWED.search(raw.out("status"))
    memory = [int(t) for p in above if (t := limits.get(f"{p}/memory.max", "").strip()).isdigit()]
    memory += [n for p in _above(v1) if (n := _v1_limit(raw.files("v1"), p))]
    cpus = [c for p in above if (c := _cpus(limits.get(f"{p}/cpu.max", "")))]
    return Cgroup(
        version=_version(root, groups),
        path=unified or v1,
        controllers=tuple(next(iter(root.values()), "").split()),
        memory_max_mib=min(memory) // (1 << 20) if memory else None,
        cpus_max=min(cpus, default=None),
        cpus_allowed=allowed[1] if allowed else None,
    )


def limits_conf(text: str, file: str = "") -> tuple[LimitLine, ...]:
    """limits.conf(5): four words a line; comments and anything else are skipped."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(LimitLine(domain=w[0], kind=w[1], item=w[2], value=w[3], file=file) for w in lines if len(w) == 4)


def _amount(text: str) -> Amount:
    return "unlimited" if text == "unlimited" else int(text)


def _version(root: dict[str, str], groups: list[list[str]]) -> Literal["v1", "v2", "hybrid"]:
    if "/sys/fs/cgroup/cgroup.controllers" in root:
        return "v2"
    if root:
        return "hybrid"
    return "v2" if all(number == "0" for number, _, _ in groups) else "v1"


def _above(path: str) -> list[str]:
    """The group and every one above it, "" being the root."""
    names = [n for n in path.split("/") if n]
    return ["".join(f"/{n}" for n in names[:end]) for end in range(len(names) + 1)]


def _v1_limit(files: dict[str, str], path: str) -> int | None:
    text = files.get(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes", "").strip()
    return int(text) if text.isdigit() and int(text) < _V1_NO_LIMIT else None


def _cpus(text: str) -> float | None:
    words = text.split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() and int(words[1]) else None
