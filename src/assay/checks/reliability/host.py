"""Faults of CPU and memory of the host."""

from __future__ import annotations

from collections import Counter

from assay.checks.alike import NODES_NAMED
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.cpu import Cpu, Numa
from assay.facts.memory import Edac, Memory
from assay.model import Missing, Verdict
from assay.profiles.host import Host

_DAY_S = 86400


@check(
    "memory.ecc",
    category="reliability",
    severity="high",
    criteria=("exp-hc-ecc",),
    why="A DIMM that cannot correct its errors ends jobs or, worse, changes their results.",
    fix="Drain the node and replace the module: its label and slot are in the message; ras-mc-ctl --errors lists them.",
)
def ecc(edac: Edac | Missing, memory: Memory | Missing, bar: Host) -> Verdict:
    """Fails on any uncorrectable error or page taken out of use; warns when corrected errors come too often.

    The rate is held over the time the counters have been running, at least one day. A virtual machine has no counters.
    """
    if isinstance(memory, Memory) and memory.corrupted_mib:
        return fail(f"{memory.corrupted_mib:g} MiB of memory taken out of use after errors that ECC could not correct")
    if isinstance(edac, Missing):
        return missing(edac)
    counted = [c for c in edac.controllers if c.uncorrected is not None and c.corrected is not None]
    if not counted:
        return unknown("no memory controller gives its counts", "failed")
    lost = sum(c.uncorrected or 0 for c in counted)
    if lost:
        return fail(f"{lost} uncorrectable memory errors{_where(edac, bad=True)}", seen=lost)
    days = max((edac.since_s or 0) / _DAY_S, 1.0)
    worst = max(
        [*(d.corrected or 0 for d in edac.dimms), *((c.corrected or 0 for c in counted) if not edac.dimms else ())]
    )
    if worst / days > bar.corrected_per_day.value:
        words = f"{worst} corrected memory errors in {days:.0f} d{_where(edac, bad=False)}"
        return warn(words, seen=worst, bar=bar.corrected_per_day.bar(" a day", "<= "))
    total = sum(c.corrected or 0 for c in counted)
    return ok(f"{total} corrected and no uncorrectable memory errors", seen=total)


def _where(edac: Edac, *, bad: bool) -> str:
    labels = [d.label for d in edac.dimms if (d.uncorrected if bad else d.corrected)]
    return f" on {some(labels)}" if labels else ""


@check(
    "memory.numa.populated",
    category="reliability",
    severity="high",
    why="CPUs whose NUMA node has no memory fetch every byte from another socket: half bandwidth, twice the latency.",
    fix="Seat or replace the DIMMs of that socket and check the memory map in the BMC's inventory.",
)
def numa_populated(numa: Numa) -> Verdict:
    """Fails when a NUMA node has CPUs and no memory; nodes with memory and no CPUs are another matter."""
    if not numa.cpu_nodes:
        return unknown("no NUMA node with CPUs", "too-little")
    if bare := numa.without_memory:
        return fail(f"NUMA node {', '.join(map(str, bare))} has CPUs and no memory", seen=list(bare))
    if any(n.memory_mib is None for n in numa.nodes if n.id in numa.cpu_nodes):
        return unknown("memory of a NUMA node is not given", "too-little")
    return ok(f"{len(numa.cpu_nodes)} NUMA nodes with CPUs, each with its own memory")


@check(
    "memory.numa.balanced",
    category="reliability",
    severity="medium",
    why="A socket with less memory than the other has lost DIMMs or channels, and with them bandwidth.",
    fix="Compare `dmidecode -t memory` with a healthy node; reseat or replace the missing modules.",
)
def numa_balanced(numa: Numa, bar: Host) -> Verdict:
    """Warns when the smallest NUMA node with CPUs and memory has much less memory than the largest."""
    sizes = [n.memory_mib for n in numa.nodes if n.cpus and n.memory_mib]
    if len(sizes) < 2:
        return skip("fewer than two NUMA nodes with CPUs and memory")
    low, high = min(sizes), max(sizes)
    seen = [low, high]
    if low < high * bar.numa_balance.value:
        words = f"the smallest NUMA node has {low // 1024} GiB, the largest {high // 1024} GiB"
        return warn(words, seen=seen, bar=bar.numa_balance.bar(sign=">= "))
    return ok(f"{len(sizes)} NUMA nodes of {low // 1024} to {high // 1024} GiB", seen=seen)


@check(
    "cpu.offline",
    category="reliability",
    severity="medium",
    why="CPUs that the kernel took out of use are missing to every job, and a scheduler counts them all the same.",
    fix="Look in dmesg for machine checks, then bring them back: echo 1 > /sys/devices/system/cpu/cpuN/online.",
)
def cpu_offline(cpu: Cpu) -> Verdict:
    """Warns when CPUs that are present are offline, unless that is how SMT was switched off."""
    if cpu.online is None:
        return unknown("the CPUs in use are not listed", "too-little")
    if not cpu.offline:
        return ok(f"all {cpu.online} CPUs in use", seen=cpu.online)
    count = len(cpu.offline)
    if cpu.smt in ("off", "forceoff") and cpu.present == 2 * count:
        return ok(f"{cpu.online} CPUs in use, their SMT siblings switched off", seen=cpu.online)
    return warn(f"{count} of {cpu.present} CPUs offline: {some(cpu.offline, 8)}", seen=count)


@check(
    "memory.uniform",
    category="reliability",
    severity="medium",
    why="A node with less memory than its peers has lost a DIMM, and jobs sized for the others fail on it.",
    fix="Compare `dmidecode -t memory` on the odd nodes with a healthy one.",
)
def memory_uniform(memory: Fleet[Memory], cpus: Fleet[Cpu], bar: Host) -> Verdict:
    """Among nodes with the same CPU model and count, warns when memory differs by more than firmware explains."""
    groups: dict[tuple[str | None, int | None], dict[str, int]] = {}
    for node, cpu in cpus.items():
        if node in memory and (size := memory[node].total_mib):
            groups.setdefault((cpu.model or cpu.part, cpu.present), {})[node] = size
    compared = {key: sizes for key, sizes in groups.items() if len(sizes) > 1}
    if not compared:
        return skip("no two nodes of one kind to compare")
    odd = {n: size for sizes in compared.values() for n, size in _smaller(sizes, bar.memory_spread.value).items()}
    if odd:
        words = some((f"{n} {size // 1024} GiB" for n, size in odd.items()), NODES_NAMED)
        return warn(f"less memory than their peers: {words}", seen=odd, bar=bar.memory_spread.bar(sign="<= "))
    return ok(f"memory is the same on all {sum(map(len, compared.values()))} nodes compared")


def _smaller(sizes: dict[str, int], spread: float) -> dict[str, int]:
    usual = Counter(round(size / 1024) for size in sizes.values()).most_common(1)[0][0] * 1024
    return {node: size for node, size in sizes.items() if size < usual * (1 - spread)}
