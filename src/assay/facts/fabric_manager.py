"""Fabric Manager: version, service state and the end of its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from assay.facts.source import source
from assay.facts.systemd import UnitState, unit_state
from assay.model import Exec, Fact, Missing, Probe, RawFact

_VERSION = re.compile(r"Fabric Manager version is\s*:?\s*(\d[\w.]*)")
_LINE = re.compile(r"^\[([A-Z][a-z]{2} +\d+ \d{4} [\d:]+)\] \[(\w+)\](?: \[tid \d+\])? ?(.*)$")
_ERROR_LEVELS = frozenset({"ERROR", "CRITICAL", "FATAL"})
_NOTHING = "NV_WARN_NOTHING_TO_DO"
_JOURNAL = re.compile(r"^([A-Z][a-z]{2} +\d+ [\d:]+|\d{4}-\d\d-\d\d\S+) \S+ [\w.@-]+(?:\[\d+\])?: (.*)$")
_CONFIGURED = "Successfully configured all the available"
_TROUBLE = re.compile(r"\b(?:fail(?:ed|ure)?|error|invalid|abort(?:ed|ing)?|unable|not supported)\b", re.IGNORECASE)
_SXID = re.compile(
    r"detected NVSwitch (non-)?fatal error (\d+)(?: on fid (\d+))?(?:.{0,40}?pci bus id (\S+))?(?:.{0,40}?port (\d+))?"
)
_ENGINE_LINE = re.compile(r"(?:^|\s)(?:ERROR|CRITICAL|FATAL)\s+\[[\d:]+\]\s+(?:\[\[\w+\]\]\s+)?(\S.*)$", re.MULTILINE)
_ENGINE = re.compile(r"returned (Object is in an undefined state|[A-Z][^\n.]*?error[^\n.]*)", re.IGNORECASE)
_KEPT = 8
_COMM = "nv-fabricmanager"[:15]  # the kernel cuts names of processes


class SwitchError(Struct, frozen=True, kw_only=True):
    """An SXid that Fabric Manager saw: the code, whether it is fatal, and where."""

    code: int = 0
    fatal: bool = False
    fid: int | None = None
    pci: str | None = None
    port: int | None = None


class FabricLog(Struct, frozen=True, kw_only=True):
    """What the log says: times as printed (local, no zone), levels seen, the last error lines.

    `configured` = it said that all *available* GPUs are configured, which does not mean that none is missing.
    """

    lines: int = 0
    first: str = ""
    last: str = ""
    levels: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    team_setups: int = 0
    nothing_to_do: bool = False
    configured: bool = False
    switch_errors: tuple[SwitchError, ...] = ()


class FabricManager(Fact, frozen=True):
    """`log` covers the end of fabricmanager.log, None = not readable. `process` = it runs, maybe in a container."""

    version: str = ""
    unit: UnitState | None = None
    process: bool = False
    log: FabricLog | None = None


@source(
    Probe(
        "nvidia.fabricmanager",
        (
            Exec("version", ("nv-fabricmanager", "--version")),
            Exec(
                "unit",
                ("systemctl", "show", "nvidia-fabricmanager.service", "-p", "LoadState,ActiveState,SubState"),
                timeout_s=5.0,
            ),
            Exec("process", ("pgrep", "-x", _COMM), timeout_s=5.0),
            Exec("log", ("tail", "-c", "65536", "/var/log/fabricmanager.log"), timeout_s=5.0, keep="tail"),
        ),
        root="fabricmanager.log is readable by root only on some distributions",
    ),
    sees_missing=True,
)
def fabric_manager(raw: RawFact) -> FabricManager | Missing:
    """Fabric Manager where it is installed; absent where there is neither the program nor its unit."""
    m = _VERSION.search(raw.out("version"))
    unit = unit_state(raw.out("unit"))
    process = bool(raw.out("process").strip())
    if m is None and not process and (unit is None or unit.load == "not-found"):
        if any(raw.read(key).state == "timed-out" for key in ("version", "unit")):
            return Missing("timed-out", "nv-fabricmanager did not answer in time")
        return Missing("absent", "Fabric Manager is not installed")
    text = raw.out("log") if raw.read("log").state == "ok" else ""
    return FabricManager(version=m[1] if m else "", unit=unit, process=process, log=log(text) if text.strip() else None)


def version(text: str) -> str:
    """The version in `nv-fabricmanager --version`."""
    m = _VERSION.search(text)
    if m is None:
        raise ValueError("no version of Fabric Manager")
    return m[1]


def log(text: str) -> FabricLog:
    """fabricmanager.log: a record starts with "[date] [LEVEL]" and may run over several lines. Or its journal."""
    lines = text.splitlines()
    records = [m.groups() for line in lines if (m := _LINE.match(line))] or [*_unlevelled(lines)]
    if not records:
        raise ValueError("no record of a Fabric Manager log")
    errors = [f"{at} {words.strip()}".strip()[:200] for at, level, words in records if level in _ERROR_LEVELS]
    return FabricLog(
        lines=len(records),
        first=records[0][0] if records else "",
        last=records[-1][0] if records else "",
        levels=tuple(sorted({level for _, level, _ in records} - {""})),
        errors=tuple(errors[-_KEPT:]),
        team_setups=text.count("successfully setup multicast team"),
        nothing_to_do=_NOTHING in text,
        configured=_CONFIGURED in text,
        switch_errors=tuple(
            SwitchError(code=int(code), fatal=not mild, fid=_int(fid), pci=pci or None, port=_int(port))
            for mild, code, fid, pci, port in _SXID.findall(text)
        ),
    )


def _unlevelled(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """What Fabric Manager prints on the console or to the journal: (time, level, words); trouble by its words."""
    for line in lines:
        if any(name in line.lower() for name in ("fabric manager", "fabricmanager", "nvswitch")):
            journal = _JOURNAL.match(line)
            words = journal[2] if journal else line
            yield journal[1] if journal else "", "ERROR" if _TROUBLE.search(words) else "", words


def _int(text: str) -> int | None:
    return int(text) if text else None


def hostengine_errors(text: str) -> tuple[str, ...]:
    """Errors that nv-hostengine's log repeats, each once, without the place in the source."""
    words = [line.split(" [/", 1)[0] for line in _ENGINE_LINE.findall(text)] or _ENGINE.findall(text)
    found = tuple(dict.fromkeys(m[1] if (m := _ENGINE.search(line)) else line.strip() for line in words))
    if not found and "]]" not in text:
        raise ValueError("no record of an nv-hostengine log")
    return found


FORMATS: dict[str, Callable[[str], Any]] = {
    "nv-fabricmanager --version": version,
    "fabricmanager.log": log,
    "nvidia-imex.log": log,
    "nv-hostengine.log": hostengine_errors,
}
