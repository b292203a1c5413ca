"""Outputs of NVIDIA's NIC tools: mlxfwmanager, mst, mlxlink, show_gids."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct

from assay.facts.text import pairs, plain

_DEVICE = re.compile(r"^[ \t]*Device #\d+:[ \t\r]*$", re.MULTILINE)
_MST = re.compile(r"^(\S+?\(rev:[0-9a-f]+\))\s+(\S+)?\s+([0-9a-f:]+\.[0-7])\s+(.*)$", re.MULTILINE)
_MST_SHORT = re.compile(r"^[ \t]*(/dev/mst/\S+)[ \t]+- [^\n]*\n[ \t]*domain:bus:dev\.fn=(\S+)", re.MULTILINE)
_GID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}$")
_GID_HEAD = re.compile(r"^DEV\s+PORT\s+INDEX\s+GID", re.MULTILINE)


class NicFirmware(Struct, frozen=True, kw_only=True):
    """One device of mlxfwmanager. `burned` becomes active at the next reset, `running` only differs before it."""

    pci: str = ""
    type: str = ""
    psid: str = ""
    part_number: str = ""
    description: str = ""
    burned: str | None = None
    available: str | None = None
    running: str | None = None
    versions: dict[str, str] = {}
    status: str = ""

    @property
    def reset_pending(self) -> bool | None:
        """True when the burned firmware is not the running one; None where no firmware version is printed."""
        return None if self.burned is None else self.running not in (None, self.burned)


class MstDevice(Struct, frozen=True, kw_only=True):
    """One line of `mst status -v`."""

    type: str
    mst: str = ""
    pci: str = ""
    rdma: str = ""
    net: str = ""
    numa: int | None = None


class GidRow(Struct, frozen=True, kw_only=True):
    """One line of show_gids. `version` is "v1" or "v2"."""

    dev: str
    port: int
    index: int
    gid: str
    ipv4: str = ""
    version: str = ""
    netdev: str = ""

    @property
    def link_local(self) -> bool:
        """True for fe80::/10."""
        return self.gid.startswith("fe8")


def mlxfwmanager(text: str) -> tuple[NicFirmware, ...]:
    """Devices from the text form or from --query-format XML."""
    text = plain(text)
    if text.lstrip().startswith("<"):
        return _firmware_xml(text.lstrip())
    blocks = _DEVICE.split(text)[1:]
    if not blocks:
        raise ValueError("no device in it: not the output of mlxfwmanager")
    return tuple(map(_firmware_text, blocks))


def _firmware_text(block: str) -> NicFirmware:
    table = block.partition("Versions:")[2]
    keys = pairs(block)
    versions: dict[str, str] = {}
    offered: dict[str, str] = {}
    for line in table.splitlines()[1:]:
        name, _, rest = line.strip().partition("  ")
        cells = rest.split()
        if cells and ":" not in name:
            versions.setdefault(name, cells[0])
            offered.setdefault(name, (*cells, "", "")[1])
    return NicFirmware(
        pci=keys.get("PCI Device Name", ""),
        type=keys.get("Device Type", ""),
        psid=keys.get("PSID", ""),
        part_number=keys.get("Part Number", ""),
        description=keys.get("Description", ""),
        burned=_known(versions.get("FW")),
        running=_known(versions.get("FW (Running)")),
        available=_known(offered.get("FW")),
        versions=versions,
        status=keys.get("Status", ""),
    )


def _known(version: str | None) -> str | None:
    return None if version in (None, "", "N/A", "--") else version


def _firmware_xml(text: str) -> tuple[NicFirmware, ...]:
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise ValueError("XML with a document type is refused")
    try:
        root = ET.fromstring(text)  # noqa: S314 - entities are refused above
    except ET.ParseError as e:
        raise ValueError(f"broken XML: {e}") from e
    return tuple(_firmware_element(e) for e in root.iter("Device"))


def _firmware_element(element: ET.Element) -> NicFirmware:
    versions = {v.tag: v.get("current", "") for v in element.iterfind("Versions/*")}
    firmware = element.find("Versions/FW")
    return NicFirmware(
        pci=element.get("pciName", ""),
        type=element.get("type", ""),
        psid=element.get("psid", ""),
        part_number=element.get("partNumber", ""),
        description=(element.findtext("Description") or "").strip(),
        burned=_known(versions.get("FW")),
        running=_known(versions.get("FW_Running")),
        available=None if firmware is None else _known(firmware.get("available")),
        versions=versions,
        status=(element.findtext("Status") or "").strip(),
    )


def mst_status(text: str) -> tuple[MstDevice, ...]:
    """PCI devices of `mst status`, with -v or without; network names lose their "net-"."""
    text = plain(text)
    if "MST modules" not in text and "DEVICE_TYPE" not in text:
        raise ValueError("neither modules nor devices in it: not the output of mst status")
    verbose = tuple(_mst_device(m) for m in _MST.finditer(text))
    return verbose or tuple(MstDevice(type="", mst=path, pci=pci) for path, pci in _MST_SHORT.findall(text))


def _mst_device(m: re.Match[str]) -> MstDevice:
    rest = m[4].split()
    numa = rest.pop() if rest and rest[-1].lstrip("-").isdigit() else ""
    net = next((w for w in rest if w.startswith("net-")), "")
    return MstDevice(
        type=m[1],
        mst=m[2] or "",
        pci=m[3],
        rdma=next((w for w in rest if not w.startswith("net-")), ""),
        net=net.removeprefix("net-"),
        numa=int(numa) if numa else None,
    )


def mlxlink(text: str) -> dict[str, str]:
    """Title -> value of all sections, from text or JSON; the first section to name a title wins."""
    text = plain(text)
    if text.lstrip().startswith("{"):
        return _mlxlink_json(text)
    values = pairs(text)
    if "State" not in values and "Physical state" not in values:
        raise ValueError("no link state in it: not the output of mlxlink")
    return values


def _mlxlink_json(text: str) -> dict[str, str]:
    try:
        output = msgspec.json.decode(text)["result"]["output"]
    except (msgspec.DecodeError, KeyError, TypeError) as e:
        raise ValueError(f"not the JSON of mlxlink: {e}") from e
    values: dict[str, str] = {}
    for section in output.values() if isinstance(output, dict) else ():
        for title, value in section.items() if isinstance(section, dict) else ():
            values.setdefault(title, _mlxlink_value(value))
    if not values:
        raise ValueError("the JSON of mlxlink holds no values")
    return values


def _mlxlink_value(value: Any) -> str:
    """Text as it is, numbers as text; the values of a mask or of all lanes joined as in the text form."""
    if isinstance(value, dict):
        value = value.get("values", value.get("mask", ""))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def show_gids(text: str) -> tuple[GidRow, ...]:
    """Rows of show_gids, tab or blank separated; link-local rows have no IPv4 cell."""
    if not _GID_HEAD.search(text) and "n_gids_found" not in text:
        raise ValueError("no header in it: not the output of show_gids")
    return tuple(row for line in text.splitlines() if (row := _gid_row(line.split())))


def _gid_row(words: list[str]) -> GidRow | None:
    if len(words) < 5 or not words[1].isdigit() or not words[2].isdigit() or not _GID.match(words[3]):
        return None
    ipv4 = words[4] if "." in words[4] and not words[4].startswith("v") else ""
    version, netdev = [*words[5 if ipv4 else 4 :], "", ""][:2]
    return GidRow(
        dev=words[0], port=int(words[1]), index=int(words[2]), gid=words[3], ipv4=ipv4, version=version, netdev=netdev
    )


FORMATS: dict[str, Callable[[str], Any]] = {
    "mlxfwmanager": mlxfwmanager,
    "mlxfwmanager --query-format XML": mlxfwmanager,
    "mst status": mst_status,
    "mst status -v": mst_status,
    "mlxlink": mlxlink,
    "mlxlink --json": mlxlink,
    "show_gids": show_gids,
}
