"""Field outputs of sshd, ss and IPMI tools. Read in place, never copied."""

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from assay.facts import ipmi, sockets
from assay.facts.sshd import FORMATS as SSHD, Sshd

FIELD = pathlib.Path(__file__).resolve().parents[3] / "shared/field"
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
    return {
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
            "entity": s.entity or None,
        }
        for s in reversed(found.sensors)
    }  # fmt: skip
    return {"error_lines": found.error_lines, "sensors": len(found.sensors), "rows": len(found.sensors), **rows}


def view_lan(text: str) -> View:
    lan = ipmi.lan_print(text)
    snake = {re.sub(r"\W+", "_", k.lower()).strip("_"): v for k, v in reversed(lan.fields)}
    return {
        **snake,
        **{name: getattr(lan, name) for name in lan.__struct_fields__},
        "cipher_suite_0": "0" in (lan.cipher_suites or "").split(","),
    }


def view_power(text: str) -> View:
    power = ipmi.dcmi_power(text)
    return {name: number(getattr(power, name)) for name in power.__struct_fields__}


def view_sel(text: str) -> View:
    events = ipmi.sel(text)
    return {
        "events": len(events), "entries": len(events), "rows": len(events),
        "asserted": sum(e.asserted is True for e in events), "deasserted": sum(e.asserted is False for e in events),
    }  # fmt: skip


def view_pairs(text: str) -> View:
    pairs = reversed(ipmi.key_values(text))
    return {re.sub(r"\W+", "_", k.lower()).strip("_"): number(v) for k, v in pairs}


# First prefix of the tool's name that fits.
VIEWS: dict[str, Callable[[str], View]] = {
    "sshd -T": view_sshd_t,
    "sshd_config": view_sshd_config,
    "ss ": view_ss,
    "ipmitool sdr": view_sensors,
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


def agrees(got: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and agrees(got[k], v) for k, v in want.items())
    return bool(got == want)


@pytest.mark.parametrize("path", _cases(), ids=lambda p: p.name.removesuffix(".expected.json"))
def test_field_output(path: pathlib.Path) -> None:
    expected = json.loads(path.read_text())
    tool = expected.get("tool") or expected["kind"]
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in sorted(path.parent.glob(stem + ".*")) if p != path).read_text()
    view = next((v for prefix, v in VIEWS.items() if tool.startswith(prefix)), None)
    assert view, f"no view for {tool}"
    seen = view(text)
    for fact, want in expected["facts"].items():
        if (path.name, fact) in WRONG:
            continue
        assert fact in seen, f"no such fact: {fact}"
        assert agrees(seen[fact], want), (fact, seen[fact], want)
