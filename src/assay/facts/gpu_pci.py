"""GPUs and NVSwitches as the PCI bus sees them, whether or not any driver can reach them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from assay.facts.pci_address import DEAD_WIDTH
from assay.facts.source import source
from assay.model import Fact, Files, Links, Missing, Probe, RawFact

_DEVICES = "/sys/bus/pci/devices/*/"


class PciGpu(Struct, frozen=True, kw_only=True):
    """A GPU on the bus. `gone` = it no longer answers configuration reads; None = that could not be read."""

    pci: str = ""
    vendor: Literal["nvidia", "amd"] = "nvidia"
    device: str = ""
    driver: str | None = None
    gone: bool | None = None


class GpuPciDevices(Fact, frozen=True):
    """GPUs that are plugged in, with or without a driver, answering or not, and NVSwitches; no virtual functions.

    For "is one missing or dead": `GpuPresence` tells what a job could use. Of its own, and not part of `PciTree`, so
    that no slow lspci stands between an audit and the answer.
    """

    gpus: tuple[PciGpu, ...] = ()
    nvswitches: tuple[str, ...] = ()

    @property
    def nvidia(self) -> tuple[PciGpu, ...]:
        """The NVIDIA GPUs."""
        return tuple(gpu for gpu in self.gpus if gpu.vendor == "nvidia")

    @property
    def amd(self) -> tuple[PciGpu, ...]:
        """The AMD GPUs and accelerators."""
        return tuple(gpu for gpu in self.gpus if gpu.vendor == "amd")


@source(
    Probe(
        "gpu.pci",
        (
            Files("vendor", (_DEVICES + "vendor",), cap=64),
            Files("class", (_DEVICES + "class",), cap=64),
            Files("device", (_DEVICES + "device",), cap=64),
            Files("width", (_DEVICES + "current_link_width",), cap=64),
            Links("driver", (_DEVICES + "driver",)),
            Links("physfn", (_DEVICES + "physfn",)),
        ),
    )
)
def gpu_pci(raw: RawFact) -> GpuPciDevices | Missing:
    """Display controllers and accelerators of the two vendors, and NVIDIA bridges that are NVSwitches."""
    vendors, classes = _by_device(raw, "vendor"), _by_device(raw, "class")
    if not vendors or not classes:
        return Missing("absent", "no PCI devices in /sys")
    devices, widths, drivers = _by_device(raw, "device"), _by_device(raw, "width"), _by_device(raw, "driver")
    virtual = _by_device(raw, "physfn")
    gpus: list[PciGpu] = []
    for pci, vendor in sorted(vendors.items()):
        maker = _gpu_maker(vendor, classes.get(pci, ""))
        if maker is None or pci in virtual:
            continue
        width = widths.get(pci)
        gone = int(width) == DEAD_WIDTH if width and width.isdecimal() else None
        driver = drivers.get(pci, "").rpartition("/")[2] or None
        gpus.append(PciGpu(pci=pci, vendor=maker, device=devices.get(pci, ""), driver=driver, gone=gone))
    return GpuPciDevices(gpus=tuple(gpus), nvswitches=_nvswitches(vendors, classes))


def _nvswitches(vendors: dict[str, str], classes: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        sorted(pci for pci, kind in classes.items() if kind.startswith("0x0680") and vendors.get(pci) == "0x10de")
    )


def _gpu_maker(vendor: str, kind: str) -> Literal["nvidia", "amd"] | None:
    if vendor == "0x10de" and kind.startswith("0x03"):
        return "nvidia"
    if vendor == "0x1002" and kind.startswith(("0x03", "0x1200")):
        return "amd"
    return None


def _by_device(raw: RawFact, key: str) -> dict[str, str]:
    """PCI address -> content (or link target) of one file per device."""
    return {path.split("/")[-2]: text.strip() for path, text in raw.files(key).items()}
