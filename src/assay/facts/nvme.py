"""NVMe drives and block devices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from assay.facts.shapes import shaped
from assay.facts.smart import whole
from assay.facts.source import source, why_missing
from assay.model import Fact, Files, Links, Missing, Probe, RawFact

_CONTROLLER = re.compile(r"^/sys/class/nvme/(nvme\d+)/")
_BLOCK = re.compile(r"^/sys/block/([^/]+)/(.+)$")
_NAMESPACE = re.compile(r"^(nvme\d+)(?:c\d+)?n\d+$")
_DISKS = ("[a-k]*", "[m-q]*", "[s-z]*")  # all but loop and ram
_SECTOR = 512  # size in sysfs is in units of 512 bytes, whatever the drive uses
_USAGE = re.compile(r"/\s*([\d.]+)\s+([kMGTP]?B)$")
_GB = {"B": 1e-9, "kB": 1e-6, "MB": 1e-3, "GB": 1.0, "TB": 1e3, "PB": 1e6}


class NvmeDrive(Struct, frozen=True, kw_only=True):
    """One NVMe controller. `state` is live on a working one; `transport` is pcie on a local one."""

    name: str
    model: str = ""
    firmware: str = ""
    state: str | None = None
    transport: str | None = None
    numa_node: int | None = None
    address: str = ""
    namespaces: tuple[str, ...] = ()
    size_gb: float | None = None


class NvmeDrives(Fact, frozen=True):
    """All NVMe controllers; sizes in GB (10^9 bytes)."""

    drives: tuple[NvmeDrive, ...] = ()


class DriveTemperature(Struct, frozen=True, kw_only=True):
    """Composite temperature of one drive with the limits it states itself."""

    name: str
    current_c: float | None = None
    warning_c: float | None = None
    critical_c: float | None = None


class NvmeTemperatures(Fact, frozen=True):
    """Temperatures from hwmon."""

    drives: tuple[DriveTemperature, ...] = ()


class BlockDevice(Struct, frozen=True, kw_only=True):
    """One block device. `slaves` = what a RAID or mapped one is made of; `degraded` = how many RAID members lack."""

    size_gb: float | None = None
    rotational: bool | None = None
    read_only: bool | None = None
    mapped_name: str = ""
    slaves: tuple[str, ...] = ()
    raid: str = ""
    degraded: int | None = None


class BlockDevices(Fact, frozen=True):
    """Block devices by kernel name, without loop and ram devices."""

    devices: dict[str, BlockDevice] = field(default_factory=dict)

    def whole(self, node: str) -> tuple[str, ...]:
        """Kernel names of the disks under a device node such as /dev/md0p1 or /dev/mapper/vg-scratch."""
        name = node.removeprefix("/dev/mapper/") if node.startswith("/dev/mapper/") else node.removeprefix("/dev/")
        return tuple(dict.fromkeys(self._disks(self._known(name), 8)))

    def _known(self, name: str) -> str:
        if name in self.devices:
            return name
        mapped = next((n for n, d in self.devices.items() if d.mapped_name == name), None)
        return mapped or next((n for n in (re.sub(r"p?\d+$", "", name),) if n in self.devices), name)

    def _disks(self, name: str, depth: int) -> Iterable[str]:
        slaves = self.devices[name].slaves if name in self.devices and depth else ()
        if not slaves:
            return [name]
        return [disk for slave in slaves for disk in self._disks(self._known(slave), depth - 1)]


@source(
    Probe(
        "storage.nvme",
        (
            Files(
                "controllers",
                tuple(
                    f"/sys/class/nvme/nvme*/{f}"
                    for f in ("model", "firmware_rev", "state", "transport", "numa_node", "address")
                ),
                cap=256,
            ),
            Files("sizes", ("/sys/block/nvme*/size",), cap=64),
        ),
    ),
    sees_missing=True,
)
def storage_nvme(raw: RawFact) -> NvmeDrives | Missing:
    """Controllers of /sys/class/nvme; a namespace belongs to the controller of the same number."""
    if missing := why_missing([raw.read("controllers")], "no NVMe drive"):
        return missing
    values: dict[str, dict[str, str]] = {}
    for path, text in raw.files("controllers").items():
        if found := _CONTROLLER.match(path):
            values.setdefault(found[1], {})[path.rsplit("/", 1)[1]] = text.strip()
    sizes = {path.split("/")[3]: int(text) * _SECTOR / 1e9 for path, text in raw.files("sizes").items()}
    return NvmeDrives(drives=tuple(_drive(name, values[name], sizes) for name in sorted(values, key=_number)))


def _drive(name: str, values: dict[str, str], sizes: dict[str, float]) -> NvmeDrive:
    own = {n: size for n, size in sizes.items() if (found := _NAMESPACE.match(n)) and found[1] == name}
    node = values.get("numa_node", "")
    return NvmeDrive(
        name=name,
        model=values.get("model", ""),
        firmware=values.get("firmware_rev", ""),
        state=values.get("state"),
        transport=values.get("transport"),
        numa_node=int(node) if node.isdigit() else None,
        address=values.get("address", "") if values.get("transport") == "pcie" else "",
        namespaces=tuple(sorted(own)),
        size_gb=round(sum(own.values()), 1) if own else None,
    )


@source(
    Probe(
        "storage.nvme-temperature",
        (
            Files(
                "hwmon",
                tuple(
                    f"/sys/class/nvme/nvme*/{place}/temp1_{f}"
                    for place in ("hwmon*", "device/hwmon/hwmon*")
                    for f in ("input", "max", "crit")
                ),
                cap=64,
            ),
        ),
        timeout_s=4.0,
    ),
    sees_missing=True,
)
def storage_nvme_temperature(raw: RawFact) -> NvmeTemperatures | Missing:
    """A probe of its own: reading hwmon asks the drive, and a dead drive may not answer."""
    if missing := why_missing([raw.read("hwmon")], "no NVMe drive with a temperature"):
        return missing
    values: dict[str, dict[str, float]] = {}
    for path, text in raw.files("hwmon").items():
        if (found := _CONTROLLER.match(path)) and text.strip().lstrip("-").isdigit():
            values.setdefault(found[1], {})[path.rsplit("_", 1)[1]] = int(text) / 1000
    return NvmeTemperatures(
        drives=tuple(
            DriveTemperature(
                name=name, current_c=t.get("input"), warning_c=_limit(t.get("max")), critical_c=_limit(t.get("crit"))
            )
            for name, t in sorted(values.items())
        )
    )


def _limit(celsius: float | None) -> float | None:
    """Drives without a limit state one of 0 K or 65535 K."""
    return celsius if celsius is not None and 0 < celsius < 200 else None


@source(
    Probe(
        "storage.block",
        (
            Files(
                "devices",
                (
                    *(f"/sys/block/{name}/{f}" for name in _DISKS for f in ("size", "ro", "queue/rotational")),
                    "/sys/block/dm-*/dm/name",
                    "/sys/block/md*/md/level",
                    "/sys/block/md*/md/degraded",
                ),
                cap=256,
            ),
            Links("slaves", ("/sys/block/md*/slaves/*", "/sys/block/dm-*/slaves/*")),
        ),
    )
)
def storage_block(raw: RawFact) -> BlockDevices | Missing:
    """Sizes, kinds and what each device is made of, from /sys/block."""
    values: dict[str, dict[str, str]] = {}
    for path, text in raw.files("devices").items():
        if found := _BLOCK.match(path):
            values.setdefault(found[1], {})[found[2]] = text.strip()
    slaves: dict[str, list[str]] = {}
    for path in raw.files("slaves"):
        if found := _BLOCK.match(path):
            slaves.setdefault(found[1], []).append(path.rsplit("/", 1)[1])
    if not values:
        return Missing("absent", "no block device")
    return BlockDevices(devices={name: _block(v, sorted(slaves.get(name, ()))) for name, v in values.items()})


def _block(values: dict[str, str], slaves: list[str]) -> BlockDevice:
    size, degraded = values.get("size", ""), values.get("md/degraded", "")
    return BlockDevice(
        size_gb=round(int(size) * _SECTOR / 1e9, 1) if size.isdigit() else None,
        rotational=_flag(values.get("queue/rotational")),
        read_only=_flag(values.get("ro")),
        mapped_name=values.get("dm/name", ""),
        slaves=tuple(slaves),
        raid=values.get("md/level", ""),
        degraded=int(degraded) if degraded.isdigit() else None,
    )


def _flag(text: str | None) -> bool | None:
    return {"0": False, "1": True}.get(text or "")


def _number(name: str) -> int:
    return int(name.removeprefix("nvme"))


@shaped("nvme list")
def nvme_list(text: str) -> NvmeDrives:
    """`nvme list -o json`: a flat list of namespaces, or hosts with subsystems with controllers (2.11 and later)."""
    match json.loads(text):
        case {"Devices": [*devices]}:
            return NvmeDrives(drives=tuple(drive for device in devices for drive in _listed_drives(device)))
    raise ValueError("not the JSON of nvme list")


def _listed_drives(device: dict[str, Any]) -> Iterable[NvmeDrive]:
    if "Subsystems" not in device:
        return [_flat(device)]
    return (_listed(c, s) for s in device["Subsystems"] for c in s.get("Controllers", ()))


def _listed(controller: dict[str, Any], subsystem: dict[str, Any]) -> NvmeDrive:
    spaces = controller.get("Namespaces") or subsystem.get("Namespaces") or ()
    return NvmeDrive(
        name=str(controller.get("Controller", "")),
        model=str(controller.get("ModelNumber", "")).strip(),
        firmware=str(controller.get("Firmware", "")).strip(),
        transport=controller.get("Transport"),
        address=str(controller.get("Address", "")),
        namespaces=tuple(str(n.get("NameSpace", "")) for n in spaces),
        size_gb=sum(whole(n.get("PhysicalSize")) or 0 for n in spaces) / 1e9 if spaces else None,
    )


def _flat(device: dict[str, Any]) -> NvmeDrive:
    path = str(device.get("DevicePath", "")).removeprefix("/dev/")
    found = _NAMESPACE.match(path)
    size = whole(device.get("PhysicalSize"))
    return NvmeDrive(
        name=found[1] if found else path,
        model=str(device.get("ModelNumber", "")).strip(),
        firmware=str(device.get("Firmware", "")).strip(),
        namespaces=(path,) if path else (),
        size_gb=None if size is None else size / 1e9,
    )


def nvme_list_any(text: str) -> NvmeDrives:
    """`nvme list`, JSON or the table."""
    return nvme_list(text) if text.lstrip().startswith("{") else nvme_list_text(text)


def nvme_list_text(text: str) -> NvmeDrives:
    """The table of `nvme list`: the line of dashes says where the columns are."""
    lines = text.splitlines()
    ruler = next((i for i, line in enumerate(lines) if i and line.startswith("----")), None)
    if ruler is None or not lines[ruler - 1].startswith("Node"):
        raise ValueError("not the output of nvme list")
    spans = [m.span() for m in re.finditer(r"-+", lines[ruler])]
    heads = [lines[ruler - 1][start:end].strip() for start, end in spans]
    rows = (
        dict(zip(heads, (line[start:end].strip() for start, end in spans), strict=True)) for line in lines[ruler + 1 :]
    )
    return NvmeDrives(drives=tuple(_table_row(row) for row in rows if row["Node"].startswith("/dev/")))


def _table_row(row: dict[str, str]) -> NvmeDrive:
    path = row["Node"].removeprefix("/dev/")
    found = _NAMESPACE.match(path)
    size = _USAGE.search(row.get("Usage", ""))
    return NvmeDrive(
        name=found[1] if found else path,
        model=row.get("Model", ""),
        firmware=row.get("FW Rev", ""),
        namespaces=(path,),
        size_gb=float(size[1]) * _GB[size[2]] if size else None,
    )


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvme list": nvme_list_any,
    "nvme list -o json": nvme_list,
}
