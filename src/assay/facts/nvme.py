"""NVMe drives and block devices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from assay.facts.gaps import gap
from assay.facts.shapes import shaped
from assay.facts.source import source
from assay.model import Fact, Files, Links, Missing, Probe, RawFact

_CONTROLLER = re.compile(r"^/sys/class/nvme/(nvme\d+)/")
_BLOCK = re.compile(r"^/sys/block/([^/]+)/(.+)$")
_NAMESPACE = re.compile(r"^(nvme\d+)(?:c\d+)?n\d+$")
_DISKS = ("[a-k]*", "[m-q]*", "[s-z]*")  # all but loop and ram
_KELVIN = 273
_SECTOR = 512  # size in sysfs is in units of 512 bytes, whatever the drive uses
_BITS = ("available_spare", "temp_threshold", "reliability_degraded", "ro", "vmbu_failed", "pmr_ro")


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


class SmartLog(Struct, frozen=True, kw_only=True):
    """Health of one drive. `critical_warning` is the bit field; `exit_status` that of smartctl, also a bit field."""

    passed: bool | None = None
    exit_status: int | None = None
    model: str | None = None
    critical_warning: int | None = None
    temperature_c: float | None = None
    available_spare: int | None = None
    available_spare_threshold: int | None = None
    percent_used: int | None = None
    media_errors: int | None = None
    num_err_log_entries: int | None = None
    power_on_hours: int | None = None
    unsafe_shutdowns: int | None = None
    data_units_written: int | None = None

    @property
    def worn(self) -> bool | None:
        """True when the spare blocks are at or below the drive's own threshold, whatever `passed` says."""
        if self.available_spare is None or self.available_spare_threshold is None:
            return None
        return self.available_spare <= self.available_spare_threshold


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
    if missing := gap(raw, "controllers", "no NVMe drive"):
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
    if missing := gap(raw, "hwmon", "no NVMe drive with a temperature"):
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


@shaped("nvme smart-log")
def smart_log(text: str) -> SmartLog:
    """`nvme smart-log -o json`: numbers or strings, critical_warning a number or an object, temperature in kelvin."""
    log = json.loads(text)
    if not isinstance(log, dict) or "critical_warning" not in log or "temperature" not in log:
        raise ValueError("not the JSON of nvme smart-log")
    kelvin = _int(log["temperature"])
    return SmartLog(
        critical_warning=_warning(log["critical_warning"]),
        temperature_c=None if kelvin is None else kelvin - _KELVIN,
        available_spare=_int(log.get("avail_spare")),
        available_spare_threshold=_int(log.get("spare_thresh")),
        percent_used=_int(log.get("percent_used", log.get("percentage_used"))),
        media_errors=_int(log.get("media_errors")),
        num_err_log_entries=_int(log.get("num_err_log_entries")),
        power_on_hours=_int(log.get("power_on_hours")),
        unsafe_shutdowns=_int(log.get("unsafe_shutdowns")),
        data_units_written=_int(log.get("data_units_written")),
    )


@shaped("smartctl")
def smartctl_json(text: str) -> SmartLog:
    """`smartctl --json -a` of an NVMe or SATA drive; what the drive does not have stays None."""
    document = json.loads(text)
    if not isinstance(document, dict) or "smartctl" not in document:
        raise ValueError("not the JSON of smartctl")
    log = document.get("nvme_smart_health_information_log", {})
    return SmartLog(
        passed=document.get("smart_status", {}).get("passed"),
        exit_status=_int(document["smartctl"].get("exit_status")),
        model=document.get("model_name"),
        critical_warning=_int(log.get("critical_warning")),
        temperature_c=_int(document.get("temperature", {}).get("current", log.get("temperature"))),
        available_spare=_int(log.get("available_spare")),
        available_spare_threshold=_int(log.get("available_spare_threshold")),
        percent_used=_int(log.get("percentage_used")),
        media_errors=_int(log.get("media_errors")),
        num_err_log_entries=_int(log.get("num_err_log_entries")),
        power_on_hours=_int(document.get("power_on_time", {}).get("hours", log.get("power_on_hours"))),
        unsafe_shutdowns=_int(log.get("unsafe_shutdowns")),
        data_units_written=_int(log.get("data_units_written")),
    )


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
        size_gb=sum(_int(n.get("PhysicalSize")) or 0 for n in spaces) / 1e9 if spaces else None,
    )


def _flat(device: dict[str, Any]) -> NvmeDrive:
    path = str(device.get("DevicePath", "")).removeprefix("/dev/")
    found = _NAMESPACE.match(path)
    size = _int(device.get("PhysicalSize"))
    return NvmeDrive(
        name=found[1] if found else path,
        model=str(device.get("ModelNumber", "")).strip(),
        firmware=str(device.get("Firmware", "")).strip(),
        namespaces=(path,) if path else (),
        size_gb=None if size is None else size / 1e9,
    )


def _warning(value: Any) -> int | None:
    if not isinstance(value, dict):
        return _int(value)
    if "value" in value:
        return _int(value["value"])
    return sum(bool(_int(value.get(name))) << bit for bit, name in enumerate(_BITS))


def _int(value: Any) -> int | None:
    """An integer, also as a string or a float; anything else is not known."""
    text = str(value).replace(",", "").strip() if value is not None and not isinstance(value, bool) else ""
    try:
        return int(float(text)) if "." in text or "e" in text else int(text, 0)
    except (ValueError, OverflowError):
        return None


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvme smart-log -o json": smart_log,
    "nvme list -o json": nvme_list,
    "smartctl --json": smartctl_json,
}
