"""The PCI tree: GPUs, NICs, storage and the bridges above them, with links, error counts and ACS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

from assay.facts.lspci import set_bits
from assay.facts.pci_address import ADDRESS, DEAD_WIDTH
from assay.facts.source import source
from assay.model import Exec, Fact, Files, Links, Missing, Probe, RawFact, Read

_DEVICES = "/sys/bus/pci/devices/"
_SPEED = re.compile(r"([\d.]+) GT/s")
_KEPT = ("01", "02", "03", "0604", "0680", "0801", "0b40", "12")
_AER_DRIVERS = ("nvidia", "amdgpu", "nvme", "mlx5_core", "bnxt_en", "ionic", "efa", "ena", "ice", "pcieport")
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "numa_node")

AcsState = Literal["read", "denied", "absent", "failed"]


class PciDevice(Struct, frozen=True, kw_only=True):
    """One function. `parents` = the bridges above it, nearest first; speeds in GT/s, None = the kernel does not say.

    `acs` = set bits of ACSCtl, None = no such capability or not readable; `aer` = totals since boot by severity;
    `virtual` = an SR-IOV function whose physical one is on this host; `gone` = it reads as all ones.
    """

    vendor: str = ""
    device: str = ""
    kind: str = ""
    driver: str = ""
    parents: tuple[str, ...] = ()
    numa_node: int | None = None
    speed_gts: float | None = None
    width: int | None = None
    max_speed_gts: float | None = None
    max_width: int | None = None
    acs: tuple[str, ...] | None = None
    aer: dict[str, int] = {}
    virtual: bool = False
    gone: bool = False

    @property
    def gpu(self) -> bool:
        """A display or compute controller of NVIDIA, a compute controller of AMD."""
        return (self.vendor == "10de" and self.kind[:2] == "03") or (
            self.vendor == "1002" and self.kind[:4] in ("0302", "0380", "1200")
        )

    @property
    def nic(self) -> bool:
        """A network controller, Ethernet or InfiniBand."""
        return self.kind[:2] == "02"

    @property
    def bridge(self) -> bool:
        """A PCI-to-PCI bridge: root port, switch port."""
        return self.kind[:4] == "0604"


class PciTree(Fact, frozen=True, dict=True):
    """Address -> device, of the classes that matter (no host bridges, no uncore). `acs` = could ACS be read."""

    devices: dict[str, PciDevice] = field(default_factory=dict)
    acs: AcsState = "absent"
    acs_reason: str = ""
    uptime_s: float | None = None

    @cached_property
    def gpus(self) -> dict[str, PciDevice]:
        """Physical GPUs by address."""
        return {a: d for a, d in self.devices.items() if d.gpu and not d.virtual}

    @cached_property
    def nics(self) -> dict[str, PciDevice]:
        """Physical network cards by address."""
        return {a: d for a, d in self.devices.items() if d.nic and not d.virtual}


@source(
    Probe(
        "pci.tree",
        (
            Links("devices", (_DEVICES + "*",)),
            Links("physfn", (_DEVICES + "*/physfn",)),
            Files("uevent", (_DEVICES + "*/uevent",), cap=1024),
            Files("link", tuple(_DEVICES + "*/" + f for f in _LINK_FILES), cap=64, limit=16384),
            Files(
                "aer",
                tuple(f"/sys/bus/pci/drivers/{d}/*:*/aer_dev_*" for d in _AER_DRIVERS),
                cap=2048,
                limit=2048,
            ),
            Exec("acs", ("lspci", "-D", "-vvv", "-d", "::0604"), cap=4 << 20),
            Files("uptime", ("/proc/uptime",)),
        ),
        root="ACSCtl lies beyond the first 64 bytes of the configuration space, which only root may read",
    )
)
def pci_tree(raw: RawFact) -> PciTree | Missing:
    """Hierarchy and links from sysfs, ACS of the bridges from lspci."""
    links, uevents = raw.files("devices"), raw.files("uevent")
    if not uevents:
        return Missing("absent", "no PCI device in /sys/bus/pci")
    state, reason = _acs_state(raw.read("acs"))
    acs = acs_of(raw.out("acs")) if state == "read" else {}
    aer = _aer(raw.files("aer"))
    virtual, files = raw.files("physfn"), raw.files("link")
    devices: dict[str, PciDevice] = {}
    for path, text in uevents.items():
        address = path.split("/")[5]
        ids = dict(line.partition("=")[::2] for line in text.splitlines())
        kind = ids.get("PCI_CLASS", "").zfill(6).lower()
        if kind.startswith(_KEPT):
            devices[address] = _device(address, kind, ids, links.get(_DEVICES + address, ""), files, acs, aer, virtual)
    uptime = raw.out("uptime").split()
    return PciTree(devices=devices, acs=state, acs_reason=reason, uptime_s=float(uptime[0]) if uptime else None)


def _device(  # noqa: PLR0913, PLR0917 - one place where the pieces of a device come together
    address: str,
    kind: str,
    ids: Mapping[str, str],
    link: str,
    files: Mapping[str, str],
    acs: Mapping[str, tuple[str, ...]],
    aer: Mapping[str, dict[str, int]],
    virtual: Mapping[str, str],
) -> PciDevice:
    vendor, _, device = ids.get("PCI_ID", "").lower().partition(":")
    base = f"{_DEVICES}{address}/"
    width, most = _width(files.get(base + "current_link_width")), _width(files.get(base + "max_link_width"))
    return PciDevice(
        vendor=vendor,
        device=device,
        kind=kind,
        driver=ids.get("DRIVER", ""),
        parents=tuple(a for a in reversed(ADDRESS.findall(link)) if a != address),
        numa_node=_numa(files.get(base + "numa_node", "")),
        speed_gts=_gts(files.get(base + "current_link_speed", "")),
        width=None if width == DEAD_WIDTH else width,
        max_speed_gts=_gts(files.get(base + "max_link_speed", "")),
        max_width=None if most == DEAD_WIDTH else most,
        acs=acs.get(address),
        aer=aer.get(address, {}),
        virtual=base + "physfn" in virtual,
        gone=width == DEAD_WIDTH,
    )


def _width(text: str | None) -> int | None:
    """Lanes; 0 is what functions without a link of their own say."""
    value = (text or "").strip()
    return int(value) or None if value.isdecimal() and int(value) < 255 else None


def _gts(text: str) -> float | None:
    found = _SPEED.match(text)
    return float(found[1]) if found else None


def _numa(text: str) -> int | None:
    """NUMA node; -1 is how the kernel says that it does not know."""
    value = text.strip()
    return int(value) if value.isdecimal() else None


def _aer(files: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Address -> severity -> total of errors, from the TOTAL line of each counter file."""
    totals: dict[str, dict[str, int]] = {}
    for path, text in files.items():
        parts = path.split("/")
        for line in reversed(text.splitlines()):
            name, _, value = line.partition(" ")
            if name.startswith("TOTAL_ERR_") and value.strip().isdigit():
                totals.setdefault(parts[6], {})[parts[7].removeprefix("aer_dev_")] = int(value)
    return totals


def _acs_state(read: Read) -> tuple[AcsState, str]:
    """Whether lspci could show extended capabilities, and why not."""
    if read.state in ("absent", "denied"):
        return read.state, f"lspci: {read.state}"
    if read.state != "ok" or read.rc:
        return "failed", (read.err.strip().splitlines() or [f"lspci: {read.state}"])[-1][:200]
    if "<access denied>" in read.out:
        return "denied", "lspci needs root to read ACSCtl"
    return "read", ""


def acs_of(text: str) -> dict[str, tuple[str, ...]]:
    """Address -> set bits of ACSCtl, from `lspci -D -vvv`."""
    found: dict[str, tuple[str, ...]] = {}
    at = text.find("ACSCtl:")
    while at >= 0:
        end = text.find("\n", at)
        head = text.rfind("\n\n", 0, at)
        address = ADDRESS.match(text, head + 2 if head >= 0 else 0)
        if address:
            found[address[0]] = set_bits(text[at + 7 : end if end >= 0 else len(text)])
        at = text.find("ACSCtl:", at + 7)
    return found


def switch_path(tree: PciTree, one: str, other: str) -> tuple[str, ...]:
    """Bridges on the way between two devices below a common switch; empty when they only meet in the root complex."""
    ups, downs = tree.devices[one].parents, tree.devices[other].parents
    common = next((b for b in ups if b in downs), None)
    if common is None:
        return ()
    return (*ups[: ups.index(common)], common, *reversed(downs[: downs.index(common)]))


def links_to_root(tree: PciTree, address: str) -> Iterator[tuple[str, PciDevice, PciDevice]]:
    """Every PCIe link between a device and the root: (lower address, lower end, upper end).

    Above a device stands the port of its link; above a switch's downstream port stands the switch's own upstream port,
    which is the lower end of the next link. Inside a switch there is no link.
    """
    chain = (address, *tree.devices[address].parents)
    for lower, upper in zip(chain[::2], chain[1::2], strict=False):
        if lower in tree.devices and upper in tree.devices:
            yield lower, tree.devices[lower], tree.devices[upper]
