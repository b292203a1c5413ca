"""What users may measure on NVIDIA GPUs, and what an idle GPU costs."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import ok, skip, some, unknown, warn
from assay.facts.nvidia import NvidiaDriver, NvidiaGpu, NvidiaSmi
from assay.model import Verdict
from assay.profiles.nvidia import NvidiaBars, idle_watts


@check(
    "nvidia.profiling.open",
    category="monitoring",
    severity="medium",
    criteria=("mon-ncu-all-users", "exp-sa-ncu", "exp-slurm-ncu", "exp-mon-performance"),
    why="While hardware counters are for root only, users cannot profile a kernel (ncu: ERR_NVGPUCTRPERM).",
    fix="`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, rebuild the initramfs, reboot.",
)
def profiling(driver: NvidiaDriver) -> Verdict:
    """Warns when the loaded driver keeps the performance counters for root (RmProfilingAdminOnly is 1)."""
    loaded, asked = driver.params.get("RmProfilingAdminOnly"), driver.options.get("RestrictProfilingToAdminUsers")
    if loaded == 0:
        return ok("performance counters are open to all users", seen=loaded)
    if loaded == 1:
        waiting = ", although modprobe.d opens them: the driver was not reloaded" if asked == "0" else ""
        return warn(f"performance counters are for root only{waiting}", seen=loaded, expected=0)
    if loaded is None:
        return unknown("the driver does not show RmProfilingAdminOnly", "too-little")
    return unknown(f"unfamiliar RmProfilingAdminOnly {loaded}", seen=loaded)


@check(
    "nvidia.idle-power",
    category="monitoring",
    severity="low",
    criteria=("mon-idle-thermals",),
    why="A GPU that burns power while idle has a stuck context or clocks that never come down.",
    fix="Look for leftover processes (`nvidia-smi`, `fuser /dev/nvidia*`) and locked clocks (`nvidia-smi -rgc`).",
)
def idle_power(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Warns when a GPU without load, process and allocated memory draws more than the ceiling of its class."""
    idle = [gpu for gpu in smi.gpus if gpu.drawn_w is not None and _idle(gpu, bars.idle_memory_mib.value)]
    ceilings = {name: idle_watts(bars, name or "") for name in {gpu.name for gpu in idle}}
    judged = [(gpu, watts) for gpu in idle if (watts := ceilings[gpu.name]) is not None]
    if not judged:
        return skip("no idle ceiling is published for these GPUs" if idle else "no idle GPU that reports its power")
    bar = bars.idle.cited(f"<= {max(watts for _, watts in judged):g} W")
    if bad := [f"{gpu.pci}: {gpu.drawn_w:.0f} W" for gpu, watts in judged if (gpu.drawn_w or 0) > watts]:
        return warn(f"idle GPUs above {bar.value[3:]}: {some(bad)}", seen=bad, bar=bar)
    return ok(f"{len(judged)} idle GPUs within the ceiling", seen=max(gpu.drawn_w or 0 for gpu, _ in judged), bar=bar)


def _idle(gpu: NvidiaGpu, most_mib: float) -> bool:
    free = gpu.memory_used_mib is None or gpu.memory_used_mib <= most_mib
    return gpu.util_gpu_pct == 0 and not gpu.processes and free
