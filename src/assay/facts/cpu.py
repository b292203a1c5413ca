"""CPU: model, cores on and off, frequency governor, power limits; NUMA nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from assay.facts.source import source, why_missing
from assay.model import Fact, Files, Missing, Probe, RawFact

_NODE = re.compile(r"/node(\d+)/")
_MEMORY = re.compile(r"^Node \d+ (MemTotal|MemFree):\s+(\d+) kB$", re.MULTILINE)
_RAPL = re.compile(r"/(intel-rapl:\d+)/")
_SPAN_LIMIT = 1 << 16
_CPU = "/sys/devices/system/cpu"


class Cpu(Fact, frozen=True):
    """The processors. `offline` are present but not in use; `governors` counts cpufreq policies; limits in watts."""

    model: str | None = None
    vendor: str | None = None
    implementer: str | None = None
    part: str | None = None
    hypervisor: bool | None = None
    online: int | None = None
    present: int | None = None
    offline: tuple[int, ...] = ()
    isolated: str = ""
    smt: str | None = None
    threads_per_core: int | None = None
    sockets: int | None = None
    governors: dict[str, int] = field(default_factory=dict)
    driver: str | None = None
    preference: str | None = None
    max_mhz: float | None = None
    limit_mhz: float | None = None
    turbo: bool | None = None
    idle_driver: str | None = None
    power_limits_w: dict[str, float] = field(default_factory=dict)

    @property
    def grace(self) -> bool:
        """True on NVIDIA Grace (Arm Neoverse V2)."""
        return self.implementer == "0x41" and self.part == "0xd4f"


class NumaNode(Struct, frozen=True, kw_only=True):
    """One NUMA node; `cpus` counts them; `distances` in the order of the nodes."""

    id: int
    cpus: int | None = None
    cpu_list: str | None = None
    memory_mib: int | None = None
    free_mib: int | None = None
    distances: tuple[int, ...] = ()


class Numa(Fact, frozen=True):
    """All NUMA nodes. `count` = how many there are, also where the text shows only some of them."""

    count: int | None = None
    nodes: tuple[NumaNode, ...] = ()

    @property
    def cpu_nodes(self) -> tuple[int, ...]:
        """Nodes with CPUs."""
        return tuple(n.id for n in self.nodes if n.cpus or (n.cpus is None and n.cpu_list))

    @property
    def memory_only(self) -> tuple[NumaNode, ...]:
        """Nodes with memory and no CPU: HBM of a GPU or a CPU, or CXL memory."""
        return tuple(n for n in self.nodes if n.cpus == 0 and n.memory_mib)

    @property
    def empty(self) -> tuple[int, ...]:
        """Nodes with neither: places kept for MIG instances or hot-plug."""
        return tuple(n.id for n in self.nodes if n.cpus == 0 and n.memory_mib == 0)

    @property
    def without_memory(self) -> tuple[int, ...]:
        """Nodes that have CPUs and no memory of their own."""
        return tuple(n.id for n in self.nodes if n.cpus and n.memory_mib == 0)


class CpuInfo(Struct, frozen=True, kw_only=True):
    """/proc/cpuinfo: its first block, and how many blocks there are."""

    processors: int
    model: str | None = None
    vendor: str | None = None
    implementer: str | None = None
    part: str | None = None
    flags: frozenset[str] = frozenset()
    fields: dict[str, str] = field(default_factory=dict)


@source(
    Probe(
        "cpu.topology",
        (
            Files("info", ("/proc/cpuinfo",)),
            Files("lists", tuple(f"{_CPU}/{f}" for f in ("online", "present", "isolated", "smt/control"))),
            Files("siblings", tuple(f"{_CPU}/cpu0/topology/{f}" for f in ("core_cpus_list", "package_cpus_list"))),
            Files("older", tuple(f"{_CPU}/cpu0/topology/{f}" for f in ("thread_siblings_list", "core_siblings_list"))),
            Files("governors", (f"{_CPU}/cpufreq/policy*/scaling_governor",)),
            Files(
                "frequency",
                (
                    f"{_CPU}/cpufreq/policy0/scaling_driver",
                    f"{_CPU}/cpufreq/policy0/energy_performance_preference",
                    f"{_CPU}/cpufreq/policy0/cpuinfo_max_freq",
                    f"{_CPU}/cpufreq/policy0/scaling_max_freq",
                    f"{_CPU}/cpufreq/boost",
                    f"{_CPU}/intel_pstate/no_turbo",
                    f"{_CPU}/cpuidle/current_driver",
                ),
            ),
            Files(
                "rapl",
                (
                    "/sys/class/powercap/intel-rapl:*/name",
                    "/sys/class/powercap/intel-rapl:*/constraint_0_power_limit_uw",
                ),
                limit=64,
            ),
        ),
    )
)
def cpu_topology(raw: RawFact) -> Cpu | Missing:
    """Sysfs says what is there; cpuinfo only names it."""
    lists = _by_name(raw.files("lists"))
    if missing := why_missing([raw.read("lists")], "no list of CPUs in sysfs"):
        return missing
    if "online" not in lists:
        return Missing("unparsable", "sysfs does not list the CPUs in use")
    info = cpuinfo(raw.out("info")) if raw.files("info") else CpuInfo(processors=0)
    online = cpu_list(lists["online"])
    present = cpu_list(lists["present"]) if "present" in lists else online
    siblings = _by_name(raw.files("older")) | _by_name(raw.files("siblings"))
    frequency = _by_name(raw.files("frequency"))
    return Cpu(
        model=info.model,
        vendor=info.vendor,
        implementer=info.implementer,
        part=info.part,
        hypervisor="hypervisor" in info.flags if info.flags and info.vendor else None,
        online=len(online),
        present=len(present),
        offline=tuple(sorted(set(present) - set(online))),
        isolated=lists.get("isolated", ""),
        smt=lists.get("control"),
        threads_per_core=_size(siblings, "core_cpus_list", "thread_siblings_list"),
        sockets=_packages(len(online), _size(siblings, "package_cpus_list", "core_siblings_list")),
        governors=dict(Counter(g.strip() for g in raw.files("governors").values())),
        driver=frequency.get("scaling_driver"),
        preference=frequency.get("energy_performance_preference"),
        max_mhz=_mhz(frequency.get("cpuinfo_max_freq")),
        limit_mhz=_mhz(frequency.get("scaling_max_freq")),
        turbo=_turbo(frequency),
        idle_driver=frequency.get("current_driver"),
        power_limits_w=_power_limits(raw.files("rapl")),
    )


@source(
    Probe(
        "cpu.numa",
        (
            Files("cpus", ("/sys/devices/system/node/node*/cpulist",)),
            Files("memory", ("/sys/devices/system/node/node*/meminfo",)),
            Files("distances", ("/sys/devices/system/node/node*/distance",)),
        ),
    )
)
def cpu_numa(raw: RawFact) -> Numa | Missing:
    """One node per directory in sysfs, in order of their numbers."""
    cpus, memory = _by_node(raw.files("cpus")), _by_node(raw.files("memory"))
    distances = _by_node(raw.files("distances"))
    if missing := why_missing([raw.read("cpus")], "no NUMA node in sysfs"):
        return missing
    nodes = tuple(_numa_node(i, cpus[i], memory.get(i, ""), distances.get(i, "")) for i in sorted(cpus))
    return Numa(count=len(nodes), nodes=nodes)


def _numa_node(number: int, cpus: str, memory: str, distances: str) -> NumaNode:
    sizes = {name: int(kib) // 1024 for name, kib in _MEMORY.findall(memory)}
    return NumaNode(
        id=number,
        cpus=len(cpu_list(cpus)),
        cpu_list=cpus,
        memory_mib=sizes.get("MemTotal"),
        free_mib=sizes.get("MemFree"),
        distances=tuple(map(int, distances.split())),
    )


def cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's "0-3,8,10-11" as numbers, in order; ValueError for anything else."""
    numbers: list[int] = []
    for part in text.replace(" ", "").strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < _SPAN_LIMIT:
            raise ValueError(f"not a list of CPUs: {text[:80]!r}")
        numbers.extend(range(low, high + 1))
    return tuple(numbers)


def cpuinfo(text: str) -> CpuInfo:
    """/proc/cpuinfo of x86, arm64 (no model name) or POWER; a last line without an end is not believed."""
    lines = text.splitlines()
    if not text.endswith("\n"):
        lines = lines[:-1]
    fields: dict[str, str] = {}
    processors = 0
    for line in lines:
        key, colon, value = line.partition(":")
        key = key.strip()
        if colon and key == "processor":
            processors += 1
        if colon and processors <= 1:
            fields.setdefault(key, value.strip())
    if not processors:
        raise ValueError("not /proc/cpuinfo: no processor")
    return CpuInfo(
        processors=processors,
        model=fields.get("model name") or fields.get("cpu"),
        vendor=fields.get("vendor_id"),
        implementer=fields.get("CPU implementer"),
        part=fields.get("CPU part"),
        flags=frozenset((fields.get("flags") or fields.get("Features") or "").split()),
        fields=fields,
    )


def _by_name(files: dict[str, str]) -> dict[str, str]:
    return {path.rsplit("/", 1)[1]: text.strip() for path, text in files.items()}


def _by_node(files: dict[str, str]) -> dict[int, str]:
    return {int(found[1]): text.strip() for path, text in files.items() if (found := _NODE.search(path))}


def _size(lists: dict[str, str], *names: str) -> int | None:
    return next((len(cpu_list(lists[n])) for n in names if lists.get(n)), None)


def _packages(online: int, in_first: int | None) -> int | None:
    return max(1, round(online / in_first)) if in_first else None


def _mhz(khz: str | None) -> float | None:
    return int(khz) / 1000 if khz and khz.isdigit() else None


def _turbo(frequency: dict[str, str]) -> bool | None:
    if "no_turbo" in frequency:
        return frequency["no_turbo"] == "0"
    return frequency["boost"] == "1" if "boost" in frequency else None


def _power_limits(files: dict[str, str]) -> dict[str, float]:
    zones: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        if found := _RAPL.search(path):
            zones.setdefault(found[1], {})[path.rsplit("/", 1)[1]] = text.strip()
    limits = _limits(zones.values())
    return {name: int(limit) / 1e6 for name, limit in limits if limit.isdigit()}


def _limits(zones: Iterable[dict[str, str]]) -> Iterable[tuple[str, str]]:
    return ((z["name"], z.get("constraint_0_power_limit_uw", "")) for z in zones if "name" in z)


FORMATS: dict[str, Callable[[str], Any]] = {"/proc/cpuinfo": cpuinfo}
