"""Field outputs of sshd, ss and IPMI tools. Read in place, never copied."""

import pathlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from assay.facts import ipmi, sockets
from assay.facts.sshd import FORMATS as SSHD, Sshd
from field_facts import FIELD, pair, same, snake

if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG: dict[tuple[str, str], str] = {}
View = dict[str, Any]


def number(value: Any) -> Any:
    """Integers as integers, whatever the parser keeps them in."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def view_sshd_t(text: str) -> View:
    settings = SSHD["sshd -T"](text)
    return {
        "settings": len(settings),
        "lines": len(text.splitlines()),
        **{k: number(v[0]) if len(v) == 1 else list(v) for k, v in settings.items()},
    }


class Directives(dict[str, Any]):
    """Any keyword of sshd_config under its name with or without underscores."""

    def __init__(self, found: Sshd) -> None:
        super().__init__({"matches": [m.criteria for m in found.matches], "match_blocks": len(found.matches)})
        self.found = found

    def __missing__(self, name: str) -> list[str]:
        for blocks in (self.found.settings, *(m.settings for m in self.found.matches)):
            if values := blocks.get(name.replace("_", "").lower()):
                return list(values)
        return []

    def __contains__(self, name: object) -> bool:
        return True


def view_sshd_config(text: str) -> View:
    return Directives(SSHD["sshd_config"](text))


def view_ss(text: str) -> View:
    table = sockets.ss_table(text)
    listening = [r for r in table.rows if r.state in ("LISTEN", "UNCONN")]
    wide = sorted({r.port for r in listening if r.port and r.address in ("0.0.0.0", "::")})  # noqa: S104 - compared
    return {
        "wildcard_ports": wide,
        "listening_ports": sorted({r.port for r in listening if r.port}),
        "addresses": sorted({r.address for r in table.rows}),
        "states": sorted({r.state for r in table.rows}),
        "tcp_ports": sorted({r.port for r in listening if r.port and r.proto == "tcp"}),
        "udp_ports": sorted({r.port for r in listening if r.port and r.proto == "udp"}),
        "columns": list(table.header),
        "established": sum(r.state == "ESTAB" for r in table.rows),
        "lines": len(table.rows) + bool(table.header),
        "rows": len(table.rows),
        "sockets": len(table.rows),
        "listening": len(listening),
        "header": table.header[0] if table.header else None,
        "tcp": sum(r.proto == "tcp" for r in table.rows),
        "udp": sum(r.proto == "udp" for r in table.rows),
        "ports": sorted({r.port for r in listening if r.port}),
        "processes": sorted({p for r in table.rows for p in r.processes}),
    }


def view_sensors(text: str) -> View:
    found = ipmi.sdr(text)
    rows = {
        s.name: {
            "value": number(s.value), "unit": s.unit or None, "status": s.status, "id": s.id or None,
            "entity": s.entity or None, "also": s.also or None, "event": s.also or None,
        }
        for s in reversed(found.sensors)
    }  # fmt: skip
    counts = {f"status_{s}": sum(r.status == s for r in found.sensors) for s in ("ok", "ns", "cr", "nc", "nr", "na")}
    return {
        "error_lines": found.error_lines, "errors": found.error_lines, "sensors": len(found.sensors),
        "rows": len(found.sensors), "names": [s.name for s in found.sensors], **counts,
        **{k.removeprefix("status_"): v for k, v in counts.items()},
        "not_ok": [s.name for s in found.sensors if s.status not in ("ok", "ns", "na", "")],
        "no_reading": [s.name for s in found.sensors if s.status in ("ns", "na")],
        **{snake(name): row for name, row in rows.items()}, **rows,
    }  # fmt: skip


def view_lan(text: str) -> View:
    lan = ipmi.lan_print(text)
    return {
        **{snake(k.lower()): v for k, v in reversed(lan.fields)},
        "ip_source": lan.source,
        "vlan_id": lan.vlan,
        "snmp_community": lan.community,
        "mac_address": lan.mac,
        "default_gateway": lan.gateway,
        "subnet_mask": lan.netmask,
        "ip_address": lan.ip,
        **{name: getattr(lan, name) for name in lan.__struct_fields__},
        "cipher_suite_0": "0" in (lan.cipher_suites or "").split(","),
    }


def view_power(text: str) -> View:
    power = ipmi.dcmi_power(text)
    return {name: number(getattr(power, name)) for name in power.__struct_fields__}


def view_sel(text: str) -> View:
    events = ipmi.sel(text)
    open_events = {(e.sensor, e.event): e for e in events if e.asserted}
    for e in events:
        if e.asserted is False:
            open_events.pop((e.sensor, e.event), None)
    first, last = (msgspec.to_builtins(events[i]) if events else None for i in (0, -1))
    return {
        "first": first, "last": last, "sensors": list(dict.fromkeys(e.sensor for e in events)),
        "ids": [e.id for e in events], "dates": list(dict.fromkeys(e.date for e in events)),
        "open": len(open_events), "still_asserted": [e.sensor for e in open_events.values()],
        "open_events": [e.sensor for e in open_events.values()], "pre_init": sum(not e.date for e in events),
        "event_texts": [e.event for e in events], "empty": not events,
        **{e.id: msgspec.to_builtins(e) for e in events},
        "events": len(events), "entries": len(events), "rows": len(events), "lines": len(events),
        "asserted": sum(e.asserted is True for e in events), "deasserted": sum(e.asserted is False for e in events),
    }  # fmt: skip


def view_pairs(text: str) -> View:
    pairs = reversed(ipmi.key_values(text))
    return {snake(k.lower()): number(v) for k, v in pairs}


# First prefix of the tool's name that fits.
VIEWS: dict[str, Callable[[str], View]] = {
    "sshd -T": view_sshd_t,
    "sshd_config": view_sshd_config,
    "ss ": view_ss,
    "ipmitool sdr": view_sensors,
    "ipmi-sensors": view_sensors,
    "ipmitool sel info": view_pairs,
    "ipmitool sensor": view_sensors,
    "ipmitool sel": view_sel,
    "ipmitool lan": view_lan,
    "ipmitool dcmi": view_power,
    "ipmi-dcmi": view_power,
    "ipmiutil dcmi": view_power,
    "ipmitool": view_pairs,
}


def _cases() -> list[pathlib.Path]:
    every = [p for folder in ("ssh-net", "ipmi") for p in sorted((FIELD / folder).glob("*.expected.json"))]
    sshd = [p for p in sorted((FIELD / "security").glob("*.expected.json")) if '"sshd_config"' in p.read_text()]
    return every + sshd


@pytest.mark.parametrize("path", _cases(), ids=lambda p: p.name.removesuffix(".expected.json"))
def test_field_output(path: pathlib.Path) -> None:
    text, expected = pair(path)
    tool = expected.get("tool") or expected["kind"]
    view = next((v for prefix, v in VIEWS.items() if tool.startswith(prefix)), None)
    assert view, f"no view for {tool}"
    seen = view(text)
    for fact, want in expected["facts"].items():
        if (path.name, fact) in WRONG:
            continue
        assert fact in seen, f"no such fact: {fact}"
        assert same(seen[fact], want), (fact, seen[fact], want)
