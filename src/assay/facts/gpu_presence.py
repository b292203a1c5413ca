"""Which GPUs are bound to a compute driver on this host: the cheapest answer to "does this apply here"."""

from __future__ import annotations

from assay.facts.source import source
from assay.model import Fact, Links, Missing, Probe, RawFact, Stat


class GpuPresence(Fact, frozen=True):
    """GPUs that a job here could use: PCI addresses bound to the compute driver of NVIDIA or AMD. Both empty = none.

    For "does this rule apply": it also counts device files where /sys is hidden, and leaves out GPUs without a driver
    or lent to guests. What is plugged in, whatever its state, is in `GpuPciDevices`. `nvswitches` are those that are
    PCI functions of the host: since Blackwell they are not.
    """

    nvidia: tuple[str, ...] = ()
    amd: tuple[str, ...] = ()
    nvswitches: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """True on a GPU host."""
        return bool(self.nvidia or self.amd)


@source(
    Probe(
        "gpu.presence",
        (
            Links("nvidia", ("/sys/bus/pci/drivers/nvidia/*:*",)),
            Links("nvswitches", ("/sys/bus/pci/drivers/nvidia-nvswitch/*:*",)),
            Links("amd", ("/sys/bus/pci/drivers/amdgpu/*:*",)),
            Stat("nodes", ("/dev/kfd", "/dev/nvidia[0-9]*")),
        ),
    ),
    sees_missing=True,
)
def gpu_presence(raw: RawFact) -> GpuPresence | Missing:
    """PCI devices of the two drivers; device nodes alone count where /sys is hidden (WSL, some containers)."""
    states = {read.state for read in raw.reads}
    if not states or (states <= {"denied", "timed-out", "error"}):
        return Missing("failed", "could not look for GPUs")
    nodes = raw.files("nodes")
    nvidia = _addresses(raw, "nvidia") or tuple(sorted(n for n in nodes if n.startswith("/dev/nvidia")))
    amd = _addresses(raw, "amd") if "/dev/kfd" in nodes else ()
    return GpuPresence(nvidia=nvidia, amd=amd, nvswitches=_addresses(raw, "nvswitches"))


def _addresses(raw: RawFact, key: str) -> tuple[str, ...]:
    return tuple(sorted(path.rsplit("/", 1)[1] for path in raw.files(key)))
