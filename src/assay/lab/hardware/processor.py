"""CPUs, NUMA nodes and memory as the kernel shows them."""

from __future__ import annotations

from assay.lab.hardware.layout import cpu_ranges
from assay.lab.hardware.shapes import Cpu, Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts


def kernel_files(shape: Shape, state: State) -> Parts:
    """/proc/cpuinfo, /proc/meminfo, /sys/devices/system: CPUs, NUMA nodes, memory controllers."""
    parts = Parts()
    cpu = shape.cpu
    total = cpu.sockets * cpu.cores * cpu.threads
    parts.files["/proc/cpuinfo"] = "".join(_cpuinfo(cpu, n) for n in range(total))
    parts.files["/proc/uptime"] = f"{state.uptime_s:.2f} {state.uptime_s * total * 0.97:.2f}\n"
    _topology(parts, cpu, total)
    if cpu.driver:
        _frequency(parts, cpu, total)
    _nodes(parts, shape)
    _memory(parts, shape)
    if not shape.guest:
        _controllers(parts, shape, state)
    return parts


def _cpuinfo(cpu: Cpu, n: int) -> str:
    if cpu.arch == "aarch64":
        return (
            f"processor\t: {n}\nBogoMIPS\t: 2000.00\nFeatures\t: {cpu.flags}\nCPU implementer\t: {cpu.vendor}\n"
            f"CPU architecture: {cpu.family}\nCPU variant\t: 0x0\nCPU part\t: 0x{cpu.number:x}\nCPU revision\t: "
            f"{cpu.stepping}\n\n"
        )
    cores = cpu.sockets * cpu.cores
    core = n % cores
    flags = f"flags\t\t: {cpu.flags}\n"
    return (
        f"processor\t: {n}\nvendor_id\t: {cpu.vendor}\ncpu family\t: {cpu.family}\nmodel\t\t: {cpu.number}\n"
        f"model name\t: {cpu.model}\nstepping\t: {cpu.stepping}\nphysical id\t: {core // cpu.cores}\n"
        f"siblings\t: {cpu.cores * cpu.threads}\ncore id\t\t: {core % cpu.cores}\ncpu cores\t: {cpu.cores}\n{flags}"
        "bogomips\t: 4000.00\n\n"
    )


def _topology(parts: Parts, cpu: Cpu, total: int) -> None:
    home = "/sys/devices/system/cpu"
    smt = "on" if cpu.threads > 1 else "notsupported"
    every = f"0-{total - 1}"
    parts.put(home, {"online": every, "present": every, "possible": every, "isolated": "", "smt/control": smt})
    cores = cpu.sockets * cpu.cores
    own = ",".join(str(t * cores) for t in range(cpu.threads))
    package = ",".join(f"{t * cores}-{t * cores + cpu.cores - 1}" for t in range(cpu.threads))
    names = {
        "core_cpus_list": own, "thread_siblings_list": own, "package_cpus_list": package, "core_siblings_list": package,
    }  # fmt: skip
    parts.put(f"{home}/cpu0/topology", names)
    parts.put(f"{home}/vulnerabilities", cpu.vulnerabilities)
    parts.put(f"{home}/cpuidle", {"current_driver": cpu.idle})
    source = {"aarch64": "arch_sys_counter"}.get(cpu.arch, "tsc" if cpu.driver else "kvm-clock")
    parts.put("/sys/devices/system/clocksource/clocksource0", {"current_clocksource": source})
    if cpu.virtualisation:
        parts.put(f"/sys/module/{cpu.virtualisation}/parameters", {"nested": "N"})
        parts.node("/dev/kvm", "0660", "10:232", gid=993)


def _frequency(parts: Parts, cpu: Cpu, total: int) -> None:
    home = "/sys/devices/system/cpu/cpufreq"
    for n in range(total):
        parts.put(f"{home}/policy{n}", {"scaling_governor": "performance"})
    values: dict[str, object] = {
        "scaling_driver": cpu.driver, "cpuinfo_max_freq": cpu.max_khz, "scaling_max_freq": cpu.max_khz,
    }  # fmt: skip
    if cpu.preference:
        values["energy_performance_preference"] = cpu.preference
    parts.put(f"{home}/policy0", values)
    if cpu.driver == "intel_pstate":
        parts.put("/sys/devices/system/cpu/intel_pstate", {"no_turbo": 0})
    if cpu.rapl_uw:
        for socket in range(cpu.sockets):
            names = {"name": f"package-{socket}", "constraint_0_power_limit_uw": cpu.rapl_uw}
            parts.put(f"/sys/class/powercap/intel-rapl:{socket}", names)


def _nodes(parts: Parts, shape: Shape) -> None:
    count = shape.cpu.sockets * shape.cpu.nodes
    kib = shape.memory_gib * 1024 * 1024 // count
    high = [2 + 8 * i for i in range(shape.gpus)] if shape.gpu and shape.gpu.coherent else []
    every = [*range(count), *high]
    for node in every:
        cpus = cpu_ranges(shape, node) if node < count else ""
        size = kib if node < count else (shape.gpu.memory_mib * 1024 if shape.gpu else 0)
        free = size * 9 // 10
        lines = {"MemTotal": size, "MemFree": free, "MemUsed": size - free}
        text = "".join(f"Node {node} {f'{name}:':<16}{value} kB\n" for name, value in lines.items())
        parts.files[f"/sys/devices/system/node/node{node}/meminfo"] = text
        values = {"cpulist": cpus, "cpumap": _mask(cpus, shape.cpu), "distance": _distances(node, every, count)}
        parts.put(f"/sys/devices/system/node/node{node}", values)


def _mask(ranges: str, cpu: Cpu) -> str:
    """CPUs as the kernel writes a mask: words of 32 bits, the highest first."""
    bits = 0
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        bits |= (1 << int(last or first) + 1) - (1 << int(first))
    words = -(-cpu.sockets * cpu.cores * cpu.threads // 32)
    return ",".join(f"{bits >> 32 * n & 0xFFFFFFFF:08x}" for n in reversed(range(words)))


def _distances(node: int, every: list[int], count: int) -> str:
    return " ".join("10" if n == node else "21" if max(n, node) < count else "80" for n in every)


def _memory(parts: Parts, shape: Shape) -> None:
    total = shape.memory_gib * 1024 * 1024 * 985 // 1000
    if shape.gpu and shape.gpu.coherent:
        total += shape.gpus * shape.gpu.memory_mib * 1024
    values = {
        "MemTotal": total, "MemFree": total * 9 // 10, "MemAvailable": total * 94 // 100, "Buffers": 812344,
        "Cached": total // 30, "SwapCached": 0, "SwapTotal": 0, "SwapFree": 0, "AnonPages": 5120344,
        "HardwareCorrupted": 0, "AnonHugePages": 2097152,
    }  # fmt: skip
    pool = "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB\n"
    parts.files["/proc/meminfo"] = "".join(f"{f'{name}:':<16}{value:>10} kB\n" for name, value in values.items()) + pool
    for size in ("2048kB", "1048576kB"):
        parts.put(f"/sys/kernel/mm/hugepages/hugepages-{size}", {"nr_hugepages": 0, "free_hugepages": 0})
    thp = {"enabled": "[always] madvise never", "defrag": "always defer defer+madvise [madvise] never"}
    parts.put("/sys/kernel/mm/transparent_hugepage", thp)


def _controllers(parts: Parts, shape: Shape, state: State) -> None:
    count = shape.cpu.sockets * (4 if shape.cpu.vendor == "GenuineIntel" else 1)
    size = shape.memory_gib * 1024 // count
    for n in range(count):
        home = f"/sys/devices/system/edac/mc/mc{n}"
        values = {"ce_count": 0, "ue_count": 0, "mc_name": f"MC#{n}", "size_mb": size}
        parts.put(home, {**values, "seconds_since_reset": int(state.uptime_s) - 12})
        for slot in range(2):
            label = f"CPU_SrcID#{n * shape.cpu.sockets // count}_MC#{n}_Chan#{slot}_DIMM#0"
            parts.put(f"{home}/dimm{slot}", {"dimm_label": label, "dimm_ce_count": 0, "dimm_ue_count": 0})
