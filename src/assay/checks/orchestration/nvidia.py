"""How a node hands out the memory of its NVIDIA GPUs."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.facts.nvidia import NvidiaDriver, NvidiaSmi
from assay.model import Verdict


@check(
    "nvidia.coherent_memory",
    category="orchestration",
    severity="medium",
    criteria=("orch-sane-defaults",),
    why="On Grace systems GPU memory can appear as system memory: host processes land in it, and limits count it.",
    fix="`options nvidia NVreg_CoherentGPUMemoryMode=driver` in /etc/modprobe.d (driver 580 or later), then reboot.",
)
def coherent_memory(smi: NvidiaSmi, driver: NvidiaDriver) -> Verdict:
    """Warns when GPUs attached by NVLink-C2C leave their memory to the kernel as NUMA nodes; other GPUs are skipped."""
    if not any(gpu.c2c == "Enabled" for gpu in smi.gpus):
        return skip("no GPU attached by NVLink-C2C")
    mode = driver.params.get("CoherentGPUMemoryMode")
    if mode is None:
        return unknown("this driver has no CoherentGPUMemoryMode", "too-little")
    if mode == "driver":
        return ok("the driver manages the GPU memory", seen=mode)
    if mode in ("", "numa"):
        return warn("GPU memory is exposed as NUMA nodes of the system", seen=mode, expected="driver")
    return unknown(f"unfamiliar CoherentGPUMemoryMode {mode}", seen=mode)
