"""systemd: which units run, which failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.facts.source import source
from assay.facts.text import settings
from assay.model import Exec, Fact, Links, Missing, Probe, RawFact

_MARK = re.compile(r"\s*(?:[\u25cf\u25cb\u00d7\u21bb*x]\s+)?")  # a bullet, or what stands for it in a C locale
_NO_SYSTEMD = ("has not been booted with systemd", "Failed to connect to bus", "Failed to list units")
_SUFFIXES = (
    ".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".slice", ".scope",
)  # fmt: skip
_LOADED = re.compile(r"Loaded: (\S+)(?: \(([^;)]*)(?:; ([^;)]+))?)?")
_ACTIVE = re.compile(r"Active: (\S+)(?: \(([^)]*)\))?(?: since ([^;]+))?")
_UNKNOWN = re.compile(r"^[ \t]*Unit (\S+) could not be found\.", re.MULTILINE)
_PID = re.compile(r"Main PID: (\d+)(?: \(([^)]+)\))?")
_ENGINE = re.compile(r"host engine version (\S+)(?: using port number: (\d+))?")


class Unit(Struct, frozen=True):
    """One line of list-units. `failed` is about ACTIVE; a not-found unit is not a failed one."""

    name: str
    load: str
    active: str
    sub: str
    description: str = ""

    @property
    def failed(self) -> bool:
        """True when systemd says so."""
        return self.active == "failed"


class UnitStatus(Struct, frozen=True):
    """`systemctl status` of one unit; None where the text does not say."""

    name: str
    description: str = ""
    load: str | None = None
    path: str | None = None
    enabled: bool | None = None
    active: str | None = None
    sub: str | None = None
    since: str | None = None
    main_pid: int | None = None
    command: str | None = None
    log: tuple[str, ...] = ()


class UnitState(Struct, frozen=True, kw_only=True):
    """One unit as `systemctl show` prints it."""

    load: str = ""
    active: str = ""
    sub: str = ""


class SystemdUnits(Fact, frozen=True):
    """Services by name -> "active/sub"; failed units of every type; names enabled at boot."""

    services: dict[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()

    def running(self, name: str) -> bool:
        """True when the service is active and running."""
        return self.services.get(name) == "active/running"


def control_groups(*units: str) -> tuple[str, ...]:
    """Globs of the control groups of these units: they exist while a unit runs, and reading them starts nothing."""
    tops = ("", "systemd/", "unified/")
    return tuple(f"/sys/fs/cgroup/{top}system.slice/{unit}.service" for unit in units for top in tops)


_LIST = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--full")


@source(
    Probe(
        "systemd.units",
        (
            Exec("services", (*_LIST, "--type=service"), timeout_s=5.0),
            Exec("failed", (*_LIST, "--state=failed"), timeout_s=5.0),
            Links("enabled", ("/etc/systemd/system/*.wants/*",)),
        ),
    )
)
def systemd_units(raw: RawFact) -> SystemdUnits | Missing:
    """Both lists; a host that runs no systemd is not applicable, never "nothing failed"."""
    read = raw.read("services")
    said = read.err or read.out
    if any(words in said for words in _NO_SYSTEMD):
        return Missing("not-applicable", "systemd does not run here")
    if read.state != "ok" or raw.read("failed").state != "ok":
        return Missing(
            "timed-out" if "timed-out" in {r.state for r in raw.reads} else "failed", "systemctl gave no list"
        )
    services = list_units(read.out)
    failed = list_units(raw.out("failed")) if raw.out("failed").strip() else []
    return SystemdUnits(
        services={u.name: f"{u.active}/{u.sub}" for u in services if u.load != "not-found"},
        failed=tuple(sorted({u.name for u in (*services, *failed) if u.failed})),
        enabled=tuple(sorted({p.rsplit("/", 1)[1] for p in raw.files("enabled")})),
    )


def list_units(text: str) -> list[Unit]:
    """Lines of `systemctl list-units`, with or without bullets, header and legend."""
    if any(words in text for words in _NO_SYSTEMD):
        raise ValueError("systemd does not run here")
    units = [unit for line in text.splitlines() if (unit := _unit(line))]
    if not units and "0 loaded units listed" not in text:
        raise ValueError("no line of list-units in it")
    return units


def _unit(line: str) -> Unit | None:
    name, load, active, sub, description = (*_unmarked(line).split(None, 4), "", "", "", "", "")[:5]
    if not sub or not name.endswith(_SUFFIXES):
        return None
    return Unit(name, load, active, sub, description.strip())


def _unmarked(line: str) -> str:
    mark = _MARK.match(line)
    return line[mark.end() :] if mark else line


def unit_files(text: str) -> dict[str, str]:
    """`systemctl list-unit-files`: unit -> enabled, disabled, static, masked..."""
    rows = [line.split() for line in text.splitlines()]
    states = {row[0]: row[1] for row in rows if len(row) >= 2 and row[0].endswith(_SUFFIXES)}
    if not states:
        raise ValueError("no line of list-unit-files in it")
    return states


def unit_properties(text: str) -> dict[str, str]:
    """`systemctl show UNIT`: KEY=value; only the first unit's where several were asked for."""
    values = settings(text.split("\n\n", 1)[0])
    if not values:
        raise ValueError("no property in it")
    return values


def unit_state(text: str) -> UnitState | None:
    """LoadState, ActiveState and SubState of `systemctl show`; None when systemd did not answer."""
    values = settings(text)
    if "ActiveState" not in values:
        return None
    return UnitState(load=values.get("LoadState", ""), active=values["ActiveState"], sub=values.get("SubState", ""))


def unit_status(text: str) -> UnitStatus:
    """`systemctl status UNIT`."""
    if any(words in text for words in _NO_SYSTEMD):
        raise ValueError("systemd does not run here")
    if unknown := _UNKNOWN.search(text):
        return UnitStatus(name=unknown[1], load="not-found")
    heads = (_unmarked(line.strip()).partition(" - ") for line in text.splitlines())
    name, _, description = next((h for h in heads if h[0].endswith(_SUFFIXES) and " " not in h[0]), ("", "", ""))
    loaded, active, pid = _LOADED.search(text), _ACTIVE.search(text), _PID.search(text)
    if not name or not loaded or not active:
        raise ValueError("not an answer of systemctl status")
    return UnitStatus(
        name=name,
        description=description.strip(),
        load=loaded[1],
        path=loaded[2] if (loaded[2] or "").startswith("/") else None,
        enabled=_enabled(loaded[1] if loaded[1] == "masked" else loaded[3]),
        active=active[1],
        sub=active[2],
        since=active[3].strip() if active[3] else None,
        main_pid=int(pid[1]) if pid else None,
        command=pid[2] if pid else None,
        log=tuple(text.partition("\n\n")[2].splitlines()),
    )


def _enabled(word: str | None) -> bool | None:
    return {"enabled": True, "enabled-runtime": True, "disabled": False, "masked": False}.get(word or "")


def host_engine(status: UnitStatus) -> tuple[str, int | None] | None:
    """Version and port that a DCGM host engine printed when it started, from the log lines of its unit."""
    found = next((m for line in reversed(status.log) if (m := _ENGINE.search(line))), None)
    return (found[1], int(found[2]) if found[2] else None) if found else None


FORMATS: dict[str, Callable[[str], Any]] = {
    "systemctl list-units": list_units,
    "systemctl --failed": list_units,
    "systemctl status": unit_status,
    "systemctl show": unit_properties,
    "systemctl list-unit-files": unit_files,
}
