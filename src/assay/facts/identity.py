"""Which machine this is, so that a replacement under the same name is told from the old one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact

DMI = "/sys/class/dmi/id/"
# What firmware says when nobody wrote a serial number.
_PLACEHOLDERS = frozenset({
    "", "0", "none", "n/a", "na", "null", "unknown", "default string", "not specified", "not applicable",
    "to be filled by o.e.m.", "system serial number", "chassis serial number", "base board serial number", "0123456789",
    "empty", "oem", "invalid", "not available", "............",
})  # fmt: skip


class Identity(Fact, frozen=True):
    """Names of one machine. Serial numbers and the UUID need root; None = not read or a placeholder."""

    machine_id: str | None = None
    serial: str | None = None
    board_serial: str | None = None
    uuid: str | None = None
    vendor: str = ""
    product: str = ""


@source(
    Probe(
        "host.identity",
        (
            Files("machine", ("/etc/machine-id", "/var/lib/dbus/machine-id")),
            Files("names", (DMI + "sys_vendor", DMI + "product_name")),
            Files("serials", (DMI + "product_serial", DMI + "board_serial", DMI + "product_uuid")),
        ),
        root="serial numbers and the product UUID are readable by root only",
    )
)
def host_identity(raw: RawFact) -> Identity | Missing:
    """machine-id, and what the firmware names."""
    serials, names = raw.files("serials"), raw.files("names")
    return Identity(
        machine_id=usable(raw.out("machine")),
        serial=usable(serials.get(DMI + "product_serial", "")),
        board_serial=usable(serials.get(DMI + "board_serial", "")),
        uuid=usable(serials.get(DMI + "product_uuid", "")),
        vendor=names.get(DMI + "sys_vendor", "").strip(),
        product=names.get(DMI + "product_name", "").strip(),
    )


def usable(text: str) -> str | None:
    """The value, or None for what firmware writes when nobody filled it in."""
    value = text.strip()
    junk = value.lower() in _PLACEHOLDERS or value in ("uninitialized", "03000200-0400-0500-0006-000700080009")
    return None if junk or not value.strip("0-.") else value


def identity(machine_id: str | None, serial: str | None, gpu_uuids: Iterable[str]) -> str:
    """12 hex digits that stay while the machine stays, "" when nothing identifies it.

    GPU UUIDs count only without a serial number: a GPU that fell off the bus does not make another machine.
    """
    hardware = (serial,) if serial else tuple(sorted(set(gpu_uuids)))
    parts = [part.strip().lower() for part in (machine_id or "", *hardware)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12] if any(parts) else ""
