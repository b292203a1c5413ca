"""What ipmitool, FreeIPMI and ipmiutil print. For outputs that someone mailed: no probe asks a BMC."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

_VALUE = re.compile(r"^(-?\d+(?:\.\d+)?)\s+([A-Za-z%][A-Za-z% ]*)")
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)\b")
_STATUS = frozenset({"ok", "ns", "nc", "cr", "nr", "lnr", "lcr", "lnc", "unc", "ucr", "unr", "na", "us"})
_ENTITY = re.compile(r"^\d+\.\d+$")
_ERROR = re.compile(
    r"unable to|error|failed|could not|no such|invalid|get device|insufficient|timeout|not supported|denied",
    re.IGNORECASE,
)
_DATE = re.compile(r"^\d{1,2}/\d{1,2}/\d{2,4}$")


class Sensor(Struct, frozen=True):
    """One sensor. `value` is a number only when a unit follows; words stay words; None = the cell is empty."""

    name: str
    value: float | str | None = None
    unit: str = ""
    status: str = ""
    id: str = ""
    entity: str = ""
    also: str = ""


class Sensors(Struct, frozen=True):
    """A table of sensors and how many lines were complaints of the tool. Names may repeat."""

    sensors: tuple[Sensor, ...]
    error_lines: int = 0


class SelEvent(Struct, frozen=True):
    """One entry of the system event log. Date and time are the BMC's own, without zone; "" before it had a clock."""

    id: str
    date: str
    time: str
    sensor: str
    event: str
    asserted: bool | None = None


class PowerReading(Struct, frozen=True):
    """DCMI power in watts over the tool's own period; `active` = measuring is switched on."""

    now_w: float | None = None
    min_w: float | None = None
    max_w: float | None = None
    avg_w: float | None = None
    period_s: float | None = None
    timestamp: str | None = None
    active: bool | None = None
    power_limit_w: float | None = None
    limit_active: bool | None = None


class Lan(Struct, frozen=True):
    """The BMC's network settings. Cipher suite 0 in the list means that it may be asked without a password."""

    source: str | None = None
    ip: str | None = None
    netmask: str | None = None
    mac: str | None = None
    gateway: str | None = None
    vlan: str | None = None
    community: str | None = None
    cipher_suites: str | None = None
    auth_types: str | None = None
    fields: tuple[tuple[str, str], ...] = ()


def sdr(text: str) -> Sensors:
    """`ipmitool sdr`, `sdr elist` or `sensor`; ValueError when no row is one of a sensor."""
    found, errors = [], 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if sensor := _sensor(cells):
            found.append(sensor)
        elif _ERROR.search(line):
            errors += 1
    if not found:
        raise ValueError("no sensor row in it")
    return Sensors(tuple(found), errors)


def _sensor(cells: list[str]) -> Sensor | None:
    if len(cells) == 3 and cells[2].lower() in _STATUS and cells[0]:
        return _valued(Sensor(cells[0], status=cells[2]), cells[1])
    if len(cells) == 5 and cells[2].lower() in _STATUS and _ENTITY.match(cells[3]):
        return _valued(Sensor(cells[0], status=cells[2], id=cells[1], entity=cells[3]), cells[4])
    if len(cells) == 6 and cells[0].isdigit():  # ipmi-sensors: number, name, kind, reading, unit, event
        reading = _NUMBER.match(cells[3])
        said: float | str | None = float(reading[1]) if reading else None if cells[3] == "N/A" else cells[3]
        unit = "" if cells[4] == "N/A" or not reading else cells[4]
        return Sensor(cells[1], value=said, unit=unit, id=cells[0], also=cells[5].replace("'", ""))
    if len(cells) >= 10 and cells[0]:  # ipmitool sensor: value and unit in columns of their own
        number = _NUMBER.match(cells[1]) if not cells[1].startswith("0x") else None
        value: float | str | None = float(number[1]) if number else None if cells[1] in ("na", "") else cells[1]
        return Sensor(cells[0], value=value, unit=cells[2] if number else "", status=cells[3])
    return None


def _valued(sensor: Sensor, cell: str) -> Sensor:
    first, _, rest = cell.partition(", ")
    found = _VALUE.match(first)
    value: float | str | None = float(found[1]) if found else first or None
    unit = found[2].strip() if found else ""
    return Sensor(sensor.name, value, unit, sensor.status, sensor.id, sensor.entity, rest)


def sel(text: str) -> tuple[SelEvent, ...]:
    """`ipmitool sel list` or `sel elist`; () when the log says that it is empty, ValueError on other texts."""
    events = tuple(e for line in text.splitlines() if (e := _sel_event([c.strip() for c in line.split("|")])))
    if not events and "no entries" not in text.lower():
        raise ValueError("no event of a system event log in it")
    return events


def _sel_event(cells: list[str]) -> SelEvent | None:
    if len(cells) < 3 or not re.fullmatch(r"[0-9a-fA-F]+", cells[0]):
        return None
    if cells[1].startswith("OEM record"):
        return SelEvent(cells[0], "", "", cells[1], " | ".join(cells[2:]))
    if len(cells) < 4:
        return None
    if _DATE.match(cells[1]) and len(cells) >= 5:
        date, clock, rest = cells[1], cells[2], cells[3:]
    elif "pre-init" in cells[1].lower():
        date, clock, rest = "", "", cells[3:] if re.match(r"^[\d:]+$", cells[2]) else cells[2:]
    else:
        return None
    directions = {"asserted": True, "deasserted": False}
    asserted = next((directions[c.lower()] for c in rest if c.lower() in directions), None)
    words = [c for c in rest[1:] if c and c.lower() not in directions]
    return SelEvent(cells[0], date, clock, rest[0], " | ".join(words), asserted)


def key_values(text: str) -> tuple[tuple[str, str], ...]:
    """`Key : value` lines in order; a line that starts with the colon continues the value before it."""
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            continue
        if key.strip():
            pairs.append((key.strip(), value.strip()))
        elif pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}\n{value.strip()}")
    return tuple(pairs)


def lan_print(text: str) -> Lan:
    """`ipmitool lan print`; ValueError when it names no address source."""
    pairs = key_values(text)
    known = dict(reversed(pairs))
    if "IP Address Source" not in known and "IP Address" not in known:
        raise ValueError("no LAN settings of a BMC in it")
    return Lan(
        source=known.get("IP Address Source"),
        ip=known.get("IP Address"),
        netmask=known.get("Subnet Mask"),
        mac=known.get("MAC Address"),
        gateway=known.get("Default Gateway IP"),
        vlan=known.get("802.1q VLAN ID"),
        community=known.get("SNMP Community String"),
        cipher_suites=known.get("RMCP+ Cipher Suites"),
        auth_types=known.get("Auth Type Enable"),
        fields=pairs,
    )


# Words of the three tools for one thing, in lower case; the first that is there counts.
_POWER = {
    "now_w": ("instantaneous power reading", "current power"),
    "min_w": (
        "minimum during sampling period", "minimum power over sampling duration", "min power over sample duration",
    ),
    "max_w": (
        "maximum during sampling period", "maximum power over sampling duration", "max power over sample duration",
    ),
    "avg_w": (
        "average power reading over sample period", "average power over sampling duration",
        "avg power over sample duration",
    ),
    "power_limit_w": ("power limit",),
}  # fmt: skip
_INACTIVE = frozenset({"deactivated", "inactive", "not active", "not available"})
_SECONDS = {"seconds": 1.0, "second": 1.0, "sec": 1.0, "s": 1.0, "milliseconds": 1e-3, "ms": 1e-3}


def dcmi_power(text: str) -> PowerReading:
    """Power reading of `ipmitool dcmi`, `ipmi-dcmi` or `ipmiutil dcmi`; ValueError when it has no current power."""
    known = {key.lower(): value for key, value in reversed(key_values(text))}
    watts = {name: _watts(next((known[k] for k in keys if k in known), "")) for name, keys in _POWER.items()}
    if not any(k in known for k in _POWER["now_w"]):
        raise ValueError("no power reading in it")
    state = known.get("power reading state is") or known.get("power measurement")
    limit = known.get("power limit", "")
    period = known.get("sampling period") or known.get("statistics reporting time period") or ""
    return PowerReading(
        **watts,
        period_s=_seconds(period),
        timestamp=known.get("ipmi timestamp") or known.get("time stamp") or known.get("timestamp"),
        active=_active(state),
        limit_active=_active(limit.partition("(")[2].rstrip(")")),
    )


def _watts(text: str) -> float | None:
    found = _VALUE.match(text)
    return float(found[1]) if found and found[2].lower().startswith("watt") else None


def _seconds(text: str) -> float | None:
    found = _VALUE.match(text)
    unit = _SECONDS.get(found[2].strip().lower()) if found else None
    return float(found[1]) * unit if found and unit else None


def _active(words: str | None) -> bool | None:
    word = (words or "").strip().lower()
    return True if word in ("activated", "active") else False if word in _INACTIVE else None


def _listing(text: str) -> dict[str, str]:
    pairs = key_values(text)
    if len(pairs) < 3:
        raise ValueError("no list of keys and values")
    return dict(reversed(pairs))


FORMATS: dict[str, Callable[[str], Any]] = {
    "ipmitool sdr": sdr,
    "ipmitool sdr elist": sdr,
    "ipmitool sensor": sdr,
    "ipmi-sensors": sdr,
    "ipmitool sel info": _listing,
    "ipmitool sel list": sel,
    "ipmitool sel elist": sel,
    "ipmitool lan print": lan_print,
    "ipmitool dcmi power reading": dcmi_power,
    "ipmi-dcmi --get-system-power-statistics": dcmi_power,
    "ipmiutil dcmi": dcmi_power,
    "ipmitool mc info": _listing,
    "ipmitool chassis status": _listing,
    "ipmitool fru print": _listing,
}
