"""The amdgpu driver: loaded, and the same everywhere."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some
from assay.facts.amd_devices import AmdDevices
from assay.facts.gpu_pci import GpuPciDevices
from assay.model import Missing, Verdict


@check(
    "amd.module.loaded",
    category="reliability",
    severity="critical",
    criteria=("life-fabric-driver-ready", "exp-sa-image-ready"),
    why="Without the amdgpu module the GPUs in the machine cannot be used at all.",
    fix="`modprobe amdgpu`; install the amdgpu-dkms package for this kernel and make the module load at boot.",
)
def module_loaded(pci: GpuPciDevices, devices: AmdDevices | Missing) -> Verdict:
    """Fails when AMD GPUs are on the PCI bus and no amdgpu module (loaded or built in) drives them."""
    own = [gpu for gpu in pci.amd if gpu.driver in (None, "amdgpu")]
    if not own:
        return skip("no AMD GPU on the PCI bus")
    if isinstance(devices, Missing):
        return fail(f"{len(own)} AMD GPUs and no amdgpu module") if devices.kind == "absent" else missing(devices)
    if not devices.loaded:
        return (
            skip("a container without the host's /sys/module", "denied")
            if devices.kfd
            else fail("amdgpu is not loaded")
        )
    if unbound := [gpu.pci for gpu in own if gpu.driver is None]:
        return fail(f"amdgpu does not drive {some(unbound, 8)}", seen=unbound)
    return ok(f"amdgpu {devices.module_version or 'of the kernel'} drives {len(own)} GPUs")


@check(
    "amd.driver.uniform",
    category="reliability",
    severity="medium",
    criteria=("life-fabric-driver-ready",),
    why="Different amdgpu drivers give different bugs and speeds depending on where a job lands.",
    fix="Reinstall the odd nodes from the image of the majority.",
)
def driver_uniform(devices: Fleet[AmdDevices]) -> Verdict:
    """Warns when the nodes with AMD GPUs do not all load the same amdgpu version."""
    versions = {node: d.module_version or "of the kernel" for node, d in devices.items() if d.loaded}
    return alike("amdgpu driver", {"": versions})
