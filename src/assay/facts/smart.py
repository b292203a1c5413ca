"""Health of drives as smartctl and nvme-cli tell it. For outputs that someone mailed: no probe asks a drive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.shapes import shaped

_KELVIN = 273
_BITS = ("available_spare", "temp_threshold", "reliability_degraded", "ro", "vmbu_failed", "pmr_ro")
_LINE = re.compile(r"^[ \t]*([A-Za-z][^:\n]*?)[ \t]*:[ \t]*(\S[^\n]*)$", re.MULTILINE)
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d[\d,]*)")
_HEALTH = re.compile(r"^SMART (?:overall-health self-assessment test result|Health Status): (\S+)", re.MULTILINE)
_FLAGS = re.compile(r"0x[0-9a-f]{4}|[POSRCK-]{6}")
_FAILED = frozenset({"NOW", "FAILING_NOW", "Past", "In_the_past"})


class SmartLog(Struct, frozen=True, kw_only=True):
    """Health of one drive. `critical_warning` is the bit field; `exit_status` that of smartctl, also a bit field.

    `attributes` = raw values of an ATA drive by name, `failed_attributes` those at or below their threshold;
    `error` = why the tool could not ask the drive.
    """

    passed: bool | None = None
    exit_status: int | None = None
    error: str = ""
    device: str | None = None
    protocol: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    size_gb: float | None = None
    critical_warning: int | None = None
    temperature_c: float | None = None
    available_spare: int | None = None
    available_spare_threshold: int | None = None
    percent_used: int | None = None
    media_errors: int | None = None
    num_err_log_entries: int | None = None
    power_on_hours: int | None = None
    power_cycles: int | None = None
    unsafe_shutdowns: int | None = None
    data_units_written: int | None = None
    grown_defects: int | None = None
    uncorrected_errors: int | None = None
    attributes: dict[str, int] = {}
    failed_attributes: tuple[str, ...] = ()

    @property
    def worn(self) -> bool | None:
        """True when the spare blocks are at or below the drive's own threshold, whatever `passed` says."""
        if self.available_spare is None or self.available_spare_threshold is None:
            return None
        return self.available_spare <= self.available_spare_threshold


def smart_log(text: str) -> SmartLog:
    """`nvme smart-log`, JSON or text."""
    return smart_log_json(text) if text.lstrip().startswith("{") else smart_log_text(text)


@shaped("nvme smart-log")
def smart_log_json(text: str) -> SmartLog:
    """`nvme smart-log -o json`: numbers or strings, critical_warning a number or an object, temperature in kelvin."""
    log = json.loads(text)
    if not isinstance(log, dict) or "critical_warning" not in log or "temperature" not in log:
        raise ValueError("not the JSON of nvme smart-log")
    kelvin = whole(log["temperature"])
    return SmartLog(
        critical_warning=_warning(log["critical_warning"]),
        temperature_c=None if kelvin is None else kelvin - _KELVIN,
        available_spare=whole(log.get("avail_spare")),
        available_spare_threshold=whole(log.get("spare_thresh")),
        percent_used=whole(log.get("percent_used", log.get("percentage_used"))),
        media_errors=whole(log.get("media_errors")),
        num_err_log_entries=whole(log.get("num_err_log_entries")),
        power_on_hours=whole(log.get("power_on_hours")),
        power_cycles=whole(log.get("power_cycles")),
        unsafe_shutdowns=whole(log.get("unsafe_shutdowns")),
        data_units_written=whole(log.get("data_units_written")),
    )


def smart_log_text(text: str) -> SmartLog:
    """`nvme smart-log`: "key : value" lines; digits may be grouped, temperatures are in degrees Celsius."""
    values = {key.lower().replace(" ", "_"): value for key, value in reversed(_LINE.findall(text))}
    if "critical_warning" not in values or "available_spare" not in values:
        raise ValueError("not the output of nvme smart-log")
    return _from_lines(values, "num_err_log_entries", "media_errors")


def _from_lines(values: dict[str, str], log_entries: str, media_errors: str) -> SmartLog:
    return SmartLog(
        critical_warning=_leading(values.get("critical_warning")),
        temperature_c=_leading(values.get("temperature")),
        available_spare=_leading(values.get("available_spare")),
        available_spare_threshold=_leading(values.get("available_spare_threshold")),
        percent_used=_leading(values.get("percentage_used")),
        media_errors=_leading(values.get(media_errors)),
        num_err_log_entries=_leading(values.get(log_entries)),
        power_on_hours=_leading(values.get("power_on_hours")),
        power_cycles=_leading(values.get("power_cycles")),
        unsafe_shutdowns=_leading(values.get("unsafe_shutdowns")),
        data_units_written=_leading(values.get("data_units_written")),
    )


def smartctl(text: str) -> SmartLog:
    """`smartctl -a`, JSON or text."""
    return smartctl_json(text) if text.lstrip().startswith("{") else smartctl_text(text)


@shaped("smartctl")
def smartctl_json(text: str) -> SmartLog:
    """`smartctl --json -a` of an NVMe, ATA or SCSI drive; what the drive does not have stays None."""
    document = json.loads(text)
    if not isinstance(document, dict) or "smartctl" not in document:
        raise ValueError("not the JSON of smartctl")
    log = document.get("nvme_smart_health_information_log", {})
    said = (m["string"] for m in document["smartctl"].get("messages", ()) if m.get("severity") == "error")
    capacity = whole(document.get("user_capacity", {}).get("bytes", document.get("nvme_total_capacity")))
    table = document.get("ata_smart_attributes", {}).get("table", ())
    return SmartLog(
        passed=document.get("smart_status", {}).get("passed"),
        exit_status=whole(document["smartctl"].get("exit_status")),
        error=next(said, ""),
        device=document.get("device", {}).get("name"),
        protocol=document.get("device", {}).get("protocol"),
        model=document.get("model_name", document.get("scsi_model_name")),
        serial=document.get("serial_number"),
        firmware=document.get("firmware_version", document.get("scsi_revision")),
        size_gb=None if capacity is None else capacity / 1e9,
        critical_warning=whole(log.get("critical_warning")),
        temperature_c=whole(document.get("temperature", {}).get("current", log.get("temperature"))),
        available_spare=whole(log.get("available_spare")),
        available_spare_threshold=whole(log.get("available_spare_threshold")),
        percent_used=_percent_used(document, log),
        media_errors=whole(log.get("media_errors")),
        num_err_log_entries=whole(log.get("num_err_log_entries", _ata_errors(document))),
        power_on_hours=whole(document.get("power_on_time", {}).get("hours", log.get("power_on_hours"))),
        power_cycles=whole(document.get("power_cycle_count", log.get("power_cycles"))),
        unsafe_shutdowns=whole(log.get("unsafe_shutdowns")),
        data_units_written=whole(log.get("data_units_written")),
        grown_defects=whole(document.get("scsi_grown_defect_list")),
        uncorrected_errors=_uncorrected(document.get("scsi_error_counter_log")),
        attributes={row["name"]: row["raw"]["value"] for row in table},
        failed_attributes=tuple(row["name"] for row in table if row.get("when_failed")),
    )


def _percent_used(document: dict[str, Any], log: dict[str, Any]) -> int | None:
    scsi = document.get("scsi_percentage_used_endurance_indicator")
    return whole(log.get("percentage_used", document.get("endurance_used", {}).get("current_percent", scsi)))


def _ata_errors(document: dict[str, Any]) -> Any:
    logs = document.get("ata_smart_error_log", {})
    return logs.get("summary", logs.get("extended", {})).get("count")


def _uncorrected(log: Any) -> int | None:
    if not isinstance(log, dict):
        return None
    return sum(whole(kind.get("total_uncorrected_errors")) or 0 for kind in log.values())


def smartctl_text(text: str) -> SmartLog:
    """`smartctl -a` as text."""
    if not text.lstrip().startswith("smartctl ") and "=== START OF" not in text:
        raise ValueError("not the output of smartctl")
    found = dict(reversed(_LINE.findall(text)))
    values = {key.lower().replace(" ", "_"): value for key, value in found.items()}
    health = _HEALTH.search(text)
    table = [row for line in text.splitlines() if (row := _attribute(line.split()))]
    log = _from_lines(values, "error_information_log_entries", "media_and_data_integrity_errors")
    attributes = {name: int(raw) for name, _, raw in table}
    hours = log.power_on_hours if log.power_on_hours is not None else attributes.get("Power_On_Hours")
    kept = {name: getattr(log, name) for name in log.__struct_fields__}
    return SmartLog(
        **kept
        | {
            "passed": {"PASSED": True, "OK": True}.get(health[1], False) if health else None,
            "model": found.get("Model Number") or found.get("Device Model") or found.get("Product"),
            "serial": found.get("Serial Number") or found.get("Serial number"),
            "firmware": found.get("Firmware Version") or found.get("Revision"),
            "power_on_hours": hours,
            "grown_defects": _leading(found.get("Elements in grown defect list")),
            "attributes": attributes,
            "failed_attributes": tuple(name for name, when, _ in table if when in _FAILED),
        }
    )


def _attribute(words: list[str]) -> tuple[str, str, str] | None:
    """Name, when it failed and raw value of a row in the long or the brief form of the table."""
    if len(words) < 8 or not words[0].isdigit() or not _FLAGS.fullmatch(words[2]):
        return None
    at = 8 if words[2].startswith("0x") else 6
    return (words[1], words[at], words[at + 1]) if len(words) > at + 1 and words[at + 1].isdigit() else None


def _warning(value: Any) -> int | None:
    if not isinstance(value, dict):
        return whole(value)
    if "value" in value:
        return whole(value["value"])
    return sum(bool(whole(value.get(name))) << bit for bit, name in enumerate(_BITS))


def _leading(text: str | None) -> int | None:
    """The number a value begins with: "1,384 [708 GB]", "100%", "0x04"."""
    found = _NUMBER.match(text or "")
    return whole(found[0]) if found else None


def whole(value: Any) -> int | None:
    """An integer, also as a string or a float; anything else is not known."""
    text = str(value).replace(",", "").strip() if value is not None and not isinstance(value, bool) else ""
    try:
        return int(text, 0) if text.startswith("0x") else int(float(text)) if set(".e") & set(text) else int(text)
    except (ValueError, OverflowError):
        return None


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvme smart-log": smart_log,
    "nvme smart-log -o json": smart_log,
    "smartctl -a": smartctl,
    "smartctl --json": smartctl,
}
