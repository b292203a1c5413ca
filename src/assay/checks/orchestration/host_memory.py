"""How the host's memory is set up."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.facts.cpu import Cpu, Numa
from assay.facts.gpu_presence import GpuPresence
from assay.facts.limits import Sysctls
from assay.facts.memory import Memory
from assay.model import Verdict
from assay.profiles.host import Host


@check(
    "numa.gpu-memory",
    category="orchestration",
    severity="high",
    why="On Grace systems HBM that the kernel sees as ordinary memory fills with page cache and processes: "
    "CUDA runs out of memory it should own, and the kernel may kill jobs.",
    fix="Give GPU memory back to the driver: options nvidia NVreg_CoherentGPUMemoryMode=driver in /etc/modprobe.d, "
    "rebuild the initramfs, reboot.",
)
def gpu_memory(numa: Numa, cpu: Cpu, gpus: GpuPresence) -> Verdict:
    """Warns when NUMA nodes without CPUs hold memory on a host with NVIDIA GPUs and a CPU coherent with them."""
    if not gpus.nvidia:
        return skip("no NVIDIA GPU")
    if not cpu.grace and "POWER9" not in (cpu.model or ""):
        return skip("GPU memory of this platform is never host memory")
    found = numa.memory_only
    if not found:
        return ok("GPU memory is kept by the driver: every NUMA node with memory has CPUs")
    gib = sum(n.memory_mib or 0 for n in found) // 1024
    nodes = ", ".join(str(n.id) for n in found)
    return warn(f"{gib} GiB of GPU memory are NUMA nodes of the host ({nodes})", seen=[n.id for n in found])


@check(
    "memory.numa-balancing",
    category="orchestration",
    severity="low",
    why="Automatic NUMA balancing unmaps pages to see who uses them; on GPU hosts that costs steady performance.",
    fix="sysctl -w kernel.numa_balancing=0, and the same in /etc/sysctl.d.",
    lifecycle="experimental",
)
def numa_balancing(settings: Sysctls, numa: Numa, gpus: GpuPresence) -> Verdict:
    """Warns when it is on, on a GPU host with several NUMA nodes that have CPUs."""
    if not gpus.any:
        return skip("no GPU")
    value = settings.number("kernel.numa_balancing")
    if len(numa.cpu_nodes) < 2 or value is None:
        return skip("one NUMA node, or a kernel without automatic balancing")
    if value == 0:
        return ok("automatic NUMA balancing is off")
    return warn(f"automatic NUMA balancing is on over {len(numa.cpu_nodes)} nodes", seen=value)


@check(
    "memory.huge-pages",
    category="orchestration",
    severity="low",
    why="Without transparent huge pages large host buffers cost more page faults; memory held back in static pages "
    "is lost to everything that does not ask for it.",
    fix="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; free static pages: sysctl vm.nr_hugepages=0.",
)
def huge_pages(memory: Memory, bar: Host) -> Verdict:
    """Warns when transparent huge pages are off, or when static ones hold back a large part of memory."""
    if memory.total_mib and memory.huge_mib > memory.total_mib * bar.huge_share.value:
        words = f"{memory.huge_mib // 1024} of {memory.total_mib // 1024} GiB are held back in static huge pages"
        return warn(words, seen=memory.huge_mib, bar=bar.huge_share.bar(sign="<= "))
    if memory.thp is None:
        return skip("a kernel without transparent huge pages")
    if memory.thp == "never":
        return warn("transparent huge pages are off", seen="never", expected="madvise or always")
    if memory.thp not in ("madvise", "always"):
        return unknown(f"transparent huge pages: {memory.thp}", seen=memory.thp)
    return ok(f"transparent huge pages: {memory.thp}", seen=memory.thp)


@check(
    "memory.swap",
    category="orchestration",
    severity="low",
    why="A GPU host that swaps stalls its data loaders, and through them every GPU of the job.",
    fix="Find who holds the memory (smem, systemd-cgtop), then swapoff -a; swapon -a.",
)
def swap(memory: Memory, bar: Host) -> Verdict:
    """Warns when more than a little swap is in use; swap that lies idle is no fault."""
    if memory.swap_used_mib is None or memory.swap_total_mib is None:
        return unknown("use of swap is not given", "too-little")
    if not memory.swap_total_mib:
        return ok("no swap")
    if memory.swap_used_mib > bar.swap_used_mib.value:
        words = f"{memory.swap_used_mib / 1024:.1f} GiB of swap in use"
        return warn(words, seen=memory.swap_used_mib, bar=bar.swap_used_mib.bar(" MiB", "<= "))
    return ok("swap is there and not in use", seen=memory.swap_used_mib)
