"""CPU frequency and the right to profile."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.facts.cpu import Cpu
from assay.facts.limits import Sysctls
from assay.facts.tools import ProfilingTools
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.host import Host

_SCALING = frozenset({"ondemand", "schedutil", "conservative"})
_HARDWARE_DRIVEN = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
_SLOW = frozenset({"power", "balance_power"})


@check(
    "cpu.governor",
    category="monitoring",
    severity="medium",
    criteria=("mon-cpu-governor",),
    why="A CPU held at a low clock starves the GPUs: kernel launches, data loading and collectives all wait for it.",
    fix="cpupower frequency-set -g performance; keep it over reboots with tuned-adm profile throughput-performance.",
)
def governor(cpu: Cpu, bar: Host) -> Verdict:
    """Records governor, driver and package power limits.

    Warns for a clock that is held down: powersave (unless the hardware chooses the clock and is not told to save
    power), or a maximum set below what the CPU can do. A guest without frequency control is skipped.
    """
    if not cpu.governors:
        return skip("no frequency control here (a virtual machine, or the firmware does it)")
    seen = {"governors": cpu.governors, "driver": cpu.driver, "power_limits_w": cpu.power_limits_w}
    names = ", ".join(sorted(cpu.governors))
    words = f"{names} ({cpu.driver or 'driver not named'}{f', {cpu.preference}' if cpu.preference else ''})"
    if held := _held_down(cpu):
        return warn(f"governor {words}: {held}", seen=seen)
    if cpu.max_mhz and cpu.limit_mhz and cpu.limit_mhz < cpu.max_mhz * bar.cpu_cap.value:
        limited = f"clock limited to {cpu.limit_mhz:.0f} of {cpu.max_mhz:.0f} MHz"
        return warn(f"governor {words}: {limited}", seen=seen, bar=bar.cpu_cap.bar(sign=">= "))
    if odd := cpu.governors.keys() - _SCALING - {"performance", "powersave"}:
        return unknown(f"governor {', '.join(sorted(odd))} is not known", seen=seen)
    limits = "".join(f", {zone} {watts:.0f} W" for zone, watts in sorted(cpu.power_limits_w.items()))
    return ok(f"governor {words}{limits}", seen=seen)


def _held_down(cpu: Cpu) -> str:
    if "powersave" in cpu.governors and cpu.driver not in _HARDWARE_DRIVEN:
        return "powersave holds the lowest clock with this driver"
    return (
        "the hardware is told to save power" if cpu.preference in _SLOW and "performance" not in cpu.governors else ""
    )


@check(
    "perf.access",
    category="monitoring",
    severity="medium",
    criteria=("mon-perf-access", "exp-slurm-perf"),
    why="Without perf a user cannot tell why a job is slow on the CPU side.",
    fix="Install the perf package of the running kernel; sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0.",
)
def perf_access(tools: ProfilingTools, settings: Sysctls, place: Virtualisation | Missing, bar: Host) -> Verdict:
    """Passes when perf is installed for the running kernel and the kernel lets users profile; nothing is run."""
    if elsewhere := not_the_host(place, "tools"):
        return elsewhere
    paranoid = settings.number("kernel.perf_event_paranoid")
    if "perf" not in tools.paths or tools.perf_runs is False:
        wrapper = "/usr/bin/perf is only a wrapper: the tool of this kernel is missing" if "perf" in tools.paths else ""
        return warn(wrapper or "perf is not installed", seen=paranoid)
    if paranoid is None:
        return unknown("kernel.perf_event_paranoid cannot be read", "failed")
    if paranoid > bar.perf_paranoid.value:
        words = f"kernel.perf_event_paranoid is {paranoid}: users cannot profile the kernel"
        return warn(words, seen=paranoid, bar=bar.perf_paranoid.bar(sign="<= "))
    if settings.number("kernel.kptr_restrict") == 2:
        return warn("kernel.kptr_restrict is 2: perf shows no kernel symbols, not even to root", seen=2)
    return ok(f"perf is installed, kernel.perf_event_paranoid is {paranoid}", seen=paranoid)
