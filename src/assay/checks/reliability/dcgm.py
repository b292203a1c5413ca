"""DCGM in the background: the host engine runs, sees every GPU and watches them."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, unknown, warn
from assay.facts.dcgm import DcgmDiscovery, DcgmHealth
from assay.facts.exporters import MonitoringAgents
from assay.facts.gpu_presence import GpuPresence
from assay.model import Missing, Verdict

_NO_GPU = "no NVIDIA GPU here"
# Watches of machines that have NVSwitches as PCI functions, and one that most versions leave off.
_OPTIONAL = frozenset({"NvSwitch NF", "NvSwitch F", "Driver"})


@check(
    "dcgm.engine",
    category="reliability",
    severity="high",
    criteria=("exp-hc-dcgm-background",),
    why="Without a DCGM host engine nobody looks at ECC, NVLink, PCIe and thermals between jobs.",
    fix="Install datacenter-gpu-manager-4; systemctl enable --now nvidia-dcgm.",
)
def engine(gpus: GpuPresence, agents: MonitoringAgents) -> Verdict:
    """Passes when nv-hostengine runs, alone or inside dcgm-exporter; a GPU daemon without DCGM is a warning."""
    if not gpus.nvidia:
        return skip(_NO_GPU)
    names = {a.name for a in agents.agents}
    if "nv-hostengine" in names:
        return ok("nv-hostengine runs", seen=sorted(names))
    if "dcgm-exporter" in names:
        return ok("the host engine runs inside dcgm-exporter", seen=sorted(names))
    if agents.hidden:
        return unknown("processes of other users are hidden here", "too-little")
    if others := [n for n in agents.role("health") if n != "node-problem-detector"]:
        return warn(f"no DCGM host engine; {', '.join(others)} looks at the GPUs", seen=others)
    installed = "nv-hostengine" in agents.installed
    return fail("DCGM is installed but its host engine does not run" if installed else "no DCGM host engine")


@check(
    "dcgm.watches",
    category="reliability",
    severity="medium",
    criteria=("exp-hc-dcgm-background",),
    why="The host engine judges only subsystems whose watch somebody switched on: by default none is.",
    fix="dcgmi health -g 0 -s a at boot, e.g. in a drop-in of nvidia-dcgm.service (ExecStartPost).",
)
def watches(gpus: GpuPresence, agents: MonitoringAgents, health: DcgmHealth | Missing) -> Verdict:
    """Passes when all health watches of the group of all GPUs are on; warns when none or only some are."""
    if not gpus.nvidia:
        return skip(_NO_GPU)
    if isinstance(health, Missing):
        if health.kind != "absent":
            return missing(health)
        inside = {"nv-hostengine", "dcgm-exporter"} & {a.name for a in agents.agents}
        if inside or agents.hidden:
            return unknown(
                "the host engine runs in a container: its watches cannot be read from the host", "too-little"
            )
        return skip("no DCGM host engine runs", "absent")
    return _watched(health)


def _watched(health: DcgmHealth) -> Verdict:
    off = sorted(name for name, on in health.watches.items() if not on and name not in _OPTIONAL)
    on = sorted(name for name, on in health.watches.items() if on)
    if not on:
        return warn("no health watch is on for the group of all GPUs", seen=health.watches)
    if off:
        return warn(f"health watches off: {', '.join(off)}", seen=health.watches)
    return ok(f"health watches on: {', '.join(on)}", seen=health.watches)


@check(
    "dcgm.sees-all-gpus",
    category="reliability",
    severity="high",
    criteria=("exp-hc-dcgm-background",),
    why="A GPU that DCGM does not list is neither watched nor exported: dashboards stay green without it.",
    fix="dcgmi discovery -l; systemctl restart nvidia-dcgm after a GPU came back; look for Xid 79 in the kernel log.",
)
def sees_all(gpus: GpuPresence, found: DcgmDiscovery) -> Verdict:
    """Compares the GPUs that DCGM lists with those bound to the NVIDIA driver."""
    if not gpus.nvidia:
        return skip(_NO_GPU)
    listed = found.claimed if found.claimed is not None else len(found.gpus)
    if not all(":" in address for address in gpus.nvidia):
        return unknown("the PCI devices of the driver are not visible here", "too-little")
    if listed < len(gpus.nvidia):
        return fail(f"DCGM lists {listed} of {len(gpus.nvidia)} GPUs", seen=listed, expected=len(gpus.nvidia))
    return ok(f"DCGM lists {listed} GPUs", seen=listed, expected=len(gpus.nvidia))
