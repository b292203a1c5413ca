"""The NVIDIA kernel driver: /proc/driver/nvidia and its device files."""

from __future__ import annotations

from assay.lab.hardware.layout import Device, gpu_uuid, of
from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts

_PARAMS = (
    "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\n"
    "DeviceFileMode: 438\nInitializeSystemMemoryAllocations: 1\nUsePageAttributeTable: 4294967295\nEnableMSI: 1\n"
    "EnableStreamMemOPs: 0\nEnableUserNUMAManagement: 1\nNvLinkDisable: 0\nRmProfilingAdminOnly: {admin}\n"
    "PreserveVideoMemoryAllocations: 0\nEnableGpuFirmware: 18\nEnableGpuFirmwareLogs: 2\n"
    "OpenRmEnableUnsupportedGpus: 1\n"
    'ImexChannelCount: 2048\nCreateImexChannel0: {channel}\nCoherentGPUMemoryMode: ""\nRegistryDwords: ""\n'
    'RegistryDwordsPerDevice: ""\nRmMsg: ""\nGpuBlacklist: ""\nTemporaryFilePath: "/var/tmp"\nExcludedGpus: ""\n'
)


def driver(  # noqa: PLR0913 - every part of what is described
    host: str,
    shape: Shape,
    state: State,
    found: tuple[Device, ...],
    *,
    open_module: bool = True,
    for_root: bool = False,
) -> Parts:
    """The loaded module and its GPUs; `for_root` = hardware counters are for root only."""
    parts = Parts()
    gpus, arch = of("gpu", found), shape.cpu.arch
    kind = f"Open Kernel Module for {arch}" if open_module else f"{arch} Kernel Module"
    release = "  Release Build  (builder@build)" if open_module else ""
    parts.files["/proc/driver/nvidia/version"] = (
        f"NVRM version: NVIDIA UNIX {kind}  {state.driver}{release}  Thu Jul 30 04:12:55 UTC 2026\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )
    values = {"admin": int(for_root), "channel": int(shape.domain)}
    parts.files["/proc/driver/nvidia/params"] = _PARAMS.format(**values)
    counters = "" if for_root else "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
    channel = "options nvidia NVreg_CreateImexChannel0=1\n" if shape.domain else ""
    parts.files["/etc/modprobe.d/nvidia.conf"] = counters + channel or "# nothing set\n"
    for gpu in gpus:
        parts.node(f"/dev/nvidia{gpu.index}", "0666", f"195:{gpu.index}")
        parts.files[f"/proc/driver/nvidia/gpus/{gpu.address}/information"] = _information(host, shape, state, gpu)
    for name, device in (("nvidiactl", "195:255"), ("nvidia-uvm", "511:0"), ("nvidia-uvm-tools", "511:1")):
        parts.node(f"/dev/{name}", "0666", device)
    for i in (1, 2):
        parts.node(f"/dev/nvidia-caps/nvidia-cap{i}", "0400" if i == 1 else "0444", f"236:{i}")
    for switch in of("nvswitch", found):
        parts.node(f"/dev/nvidia-nvswitch{switch.index}", "0666", f"510:{switch.index}")
    if shape.switches:
        parts.node("/dev/nvidia-nvswitchctl", "0666", "510:255")
    if shape.domain:
        parts.node("/dev/nvidia-caps-imex-channels/channel0", "0666", "234:0")
    return parts


def _information(host: str, shape: Shape, state: State, gpu: Device) -> str:
    model, vbios = (shape.gpu.name, shape.gpu.vbios) if shape.gpu else ("", "")
    return (
        f"Model: \t\t {model}\nIRQ:   \t\t {140 + gpu.index}\nGPU UUID: \t {gpu_uuid(host, gpu.index)}\n"
        f"Video BIOS: \t {vbios.lower()}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {gpu.address}\nDevice Minor: \t {gpu.index}\nGPU Firmware: \t {state.driver}\nGPU "
        "Excluded:\t No\n"
    )
