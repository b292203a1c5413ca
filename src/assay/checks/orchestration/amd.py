"""What a user of AMD GPUs needs from the node: device files and runtime."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.amd_devices import AmdDevices, DeviceFile
from assay.facts.gpu_pci import GpuPciDevices
from assay.facts.rocminfo import Rocm
from assay.model import Missing, Verdict


@check(
    "amd.devices.access",
    category="orchestration",
    severity="high",
    criteria=("exp-sa-container-gpu", "exp-sa-image-ready"),
    why="HIP programs open /dev/kfd and /dev/dri/renderD*: a user who may not, sees no GPU and no clear message.",
    fix="Install AMD's udev rule (mode 0666) or add users to the group of the files: `usermod -aG render,video USER`.",
)
def access(devices: AmdDevices) -> Verdict:
    """Judges what the auditing user may do; as root, whether all users or the members of a named group may."""
    if devices.kfd is None or not devices.render:
        absent = "/dev/kfd" if devices.kfd is None else "/dev/dri/renderD*"
        return fail(f"{absent} is missing though amdgpu is there", seen=absent)
    files = (devices.kfd, *devices.render)
    if devices.uid > 0:
        return _own_access(devices.kfd, devices.render)
    if all(_mode(f) & 0o006 == 0o006 for f in files):
        return ok("every user may use the GPUs")
    if shut := [f.path for f in files if not _for_group(f)]:
        return warn(f"only root may open {some(shut)}", seen=shut)
    groups = sorted({f.group or str(f.gid) for f in files if _mode(f) & 0o006 != 0o006})
    return ok(f"members of {', '.join(groups)} may use the GPUs", seen=groups)


def _own_access(kfd: DeviceFile, render: tuple[DeviceFile, ...]) -> Verdict:
    shut = [f"{f.path} ({f.mode} {f.group or f.gid})" for f in (kfd, *render) if not {"r", "w"} <= set(f.access)]
    if shut and (len(shut) == len(render) or shut[0].startswith(kfd.path)):
        return warn(f"this user may not open {some(shut)}", seen=shut)
    return ok("this user may use the GPUs")


def _mode(file: DeviceFile) -> int:
    return int(file.mode, 8)


def _for_group(file: DeviceFile) -> bool:
    """True when users other than root can be let in: by the group, or as everybody."""
    mode = _mode(file)
    return mode & 0o006 == 0o006 or (mode & 0o060 == 0o060 and file.gid != 0)


@check(
    "amd.rocm.sees-gpus",
    category="orchestration",
    severity="high",
    criteria=("exp-sa-image-ready", "exp-sa-container-gpu"),
    why="The ROCm runtime, not the driver, decides how many GPUs PyTorch finds.",
    fix="Run `rocminfo` as the user: it names the missing group, module or library.",
)
def runtime(pci: GpuPciDevices, rocm: Rocm | Missing, devices: AmdDevices | Missing) -> Verdict:
    """Fails when rocminfo sees fewer GPUs than amdgpu drives and this container was given, or says it cannot look."""
    driven = sum(gpu.driver == "amdgpu" for gpu in pci.amd)
    if not driven:
        return skip("amdgpu drives no GPU")
    if isinstance(rocm, Missing):
        return missing(rocm)
    if rocm.state:
        words = rocm.error or rocm.state
        return (
            skip(f"this user may not: {words}", "denied") if rocm.state == "no_access" else fail(f"rocminfo: {words}")
        )
    seen = len(rocm.gpus)
    if not rocm.agents:
        return unknown("rocminfo is not installed or lists nothing", "too-little")
    driven = min(driven, len(devices.render)) if isinstance(devices, AmdDevices) and devices.render else driven
    if seen < driven:
        return fail(f"rocminfo sees {seen} of {driven} GPUs", seen=seen, expected=driven)
    return ok(f"rocminfo sees {seen} GPUs", seen=seen)


@check(
    "amd.rocm.uniform",
    category="orchestration",
    severity="medium",
    criteria=("exp-sa-image-ready",),
    why="A program built for one ROCm release may not start on a node with another.",
    fix="Install the same ROCm release everywhere, or ship it in the container image.",
)
def rocm_uniform(installs: Fleet[Rocm]) -> Verdict:
    """Warns when the nodes with ROCm do not all have the same release under /opt/rocm."""
    return alike("ROCm release", {"": {node: r.version for node, r in installs.items() if r.version}})
