"""DCGM on this host: versions, what it discovers, which background health watches are on.

dcgmi talks to the host engine, so it is asked only where the unit of a host engine has a control group.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.facts.dcgm_health import health_check, tree
from assay.facts.source import source
from assay.facts.systemd import control_groups
from assay.facts.text import tried
from assay.model import Exec, Fact, Missing, Probe, RawFact

_COUNT = re.compile(r"^(\d+) (GPU|NvSwitch|CPU|CPU Core|ConnectX)(?:s|es)? found", re.MULTILINE)
_ROW = re.compile(r"^\| *(?:(\d+) *)?\|([^:|]+):(.*?)(?:\(Active\)\s*)?\|\s*$")
_WIDEST = 500
_WATCH = re.compile(
    r"(?:^|[|\s\"->])(PCIe|NVLINK|Memory|SM|InfoROM|Thermal|Power|Driver|NvSwitch N?F)\b[\s|:\"]+(On|Off)\b"
)
_VERSION = re.compile(r"^[ \t]*[Vv]ersion[ \t]*:[ \t]*(\S+)", re.MULTILINE)
_ENGINE_BLOCK = re.compile(r"^[ \t]*Hostengine build info", re.MULTILINE)
_ENTITY = re.compile(r"^\s*(GPU|GPU-I|GPU-CI|Switch|CPU|Core|Link)\s+(\d\S*)\s+(.*\S)\s*$")
_LINK_OWNER = re.compile(r"^\s*(?:gpuId|physicalId|NvSwitch|GPU)\s+(\d+)\s*:\s*$", re.IGNORECASE)
_LINK_STATES = frozenset({"U", "D", "X", "_"})
RUNNING = control_groups("nvidia-dcgm", "dcgm", "nvidia-hostengine", "nv-hostengine")
_NULLS = {"<<<NULL>>>", "N/A", "Not Supported", "Not Specified", "Insf. Perm.", ""}


class DcgmVersion(Fact, frozen=True):
    """Versions of the client on PATH and, where it answered, of the host engine it talks to."""

    client: str | None = None
    engine: str | None = None


class DcgmGpu(Struct, frozen=True, kw_only=True):
    """One GPU of `dcgmi discovery -l`; `name` None where DCGM prints its blank."""

    id: int
    name: str | None = None
    pci_bus_id: str | None = None
    uuid: str | None = None
    error: str = ""


class DcgmDiscovery(Fact, frozen=True):
    """GPUs listed and the counts that the headings claim; None where this version has no such section."""

    gpus: tuple[DcgmGpu, ...] = ()
    claimed: int | None = None
    nvswitches: int | None = None
    cpus: int | None = None


class DcgmHealth(Fact, frozen=True):
    """Background health watches of the group of all GPUs, by subsystem: on or off."""

    watches: dict[str, bool] = field(default_factory=dict)


@source(
    Probe(
        "dcgm.version",
        (
            Exec("version", ("dcgmi", "--version"), timeout_s=5.0),
            Exec("build", ("dcgmi", "-v"), timeout_s=5.0, each=RUNNING),
        ),
    )
)
def dcgm_version(raw: RawFact) -> DcgmVersion | Missing:
    """The client's own version; the host engine's only where its unit runs."""
    texts = [t for t in (raw.out("build"), raw.out("version")) if t.strip()]
    found = [tried(version, text) for text in texts]
    best = next((v for v in found if v), None)
    return best or Missing("failed", _first_line(raw, "version") or "dcgmi gave no version")


@source(Probe("dcgm.discovery", (Exec("list", ("dcgmi", "discovery", "-l"), timeout_s=10.0, each=RUNNING),)))
def dcgm_discovery(raw: RawFact) -> DcgmDiscovery | Missing:
    """Its exit code is ignored: it may be 223 with a complete list."""
    return tried(discovery, raw.out("list")) or Missing("failed", _first_line(raw, "list") or "it printed nothing")


@source(Probe("dcgm.health", (Exec("watches", ("dcgmi", "health", "-g", "0", "-f"), timeout_s=10.0, each=RUNNING),)))
def dcgm_health(raw: RawFact) -> DcgmHealth | Missing:
    """The watch configuration as fetched; nothing is set and nothing is checked."""
    return tried(health, raw.out("watches")) or Missing("failed", _first_line(raw, "watches") or "it printed nothing")


def _first_line(raw: RawFact, key: str) -> str:
    read = raw.read(key)
    return next((line.strip() for line in (read.out + "\n" + read.err).splitlines() if line.strip()), "")[:200]


# ---- formats ------------------------------------------------------------------------------------------------


def version(text: str) -> DcgmVersion:
    """`dcgmi -v` (one block for the client, one for the host engine) or `dcgmi --version` (one line)."""
    marker = _ENGINE_BLOCK.search(text)
    client, engine = (text[: marker.start()], text[marker.end() :]) if marker else (text, "")
    found, other = _VERSION.search(client) or re.search(r"dcgmi\s+version:?\s+(\S+)", client), _VERSION.search(engine)
    if not found and not other:
        raise ValueError("no version of dcgmi in it")
    return DcgmVersion(client=found[1] if found else None, engine=other[1] if other else None)


def discovery(text: str) -> DcgmDiscovery:
    """`dcgmi discovery -l`; the list may be cut or shorter than the heading claims."""
    counts = {kind: int(n) for n, kind in _COUNT.findall(text)}
    if "GPU" not in counts and "GPU ID" not in text:
        raise ValueError("not an answer of dcgmi discovery -l")
    section = text.split("NvSwitch", 1)[0].split("CPUs found", 1)[0]
    gpus: list[dict[str, str]] = []
    for row in filter(None, (_ROW.match(line) for line in section.splitlines() if len(line) <= _WIDEST)):
        if row[1]:
            gpus.append({"id": row[1]})
        if gpus:
            gpus[-1][row[2].strip()] = row[3].strip()
    return DcgmDiscovery(
        gpus=tuple(_gpu(g) for g in gpus),
        claimed=counts.get("GPU"),
        nvswitches=counts.get("NvSwitch"),
        cpus=counts.get("CPU"),
    )


def _gpu(values: dict[str, str]) -> DcgmGpu:
    known = {k: v for k, v in values.items() if v not in _NULLS}
    return DcgmGpu(
        id=int(values["id"]),
        name=known.get("Name"),
        pci_bus_id=known.get("PCI Bus ID"),
        uuid=known.get("Device UUID"),
        error=known.get("Error", ""),
    )


def health(text: str) -> DcgmHealth:
    """`dcgmi health -f`, box or -j."""
    watches = {name: state == "On" for name, state in _WATCH.findall(text)}
    if not watches and "{" in text:
        watches = {name: node.value == "On" for name, node in tree(text).items() if node.value in {"On", "Off"}}
    if not watches:
        raise ValueError("no health watches in it")
    return DcgmHealth(watches=watches)


class Dmon(Struct, frozen=True, kw_only=True):
    """`dcgmi dmon`: one row per sample and entity, None for N/A. No rows = no data, which is not idle."""

    columns: tuple[str, ...] = ()
    rows: tuple[DmonRow, ...] = ()
    warning: str = ""


class DmonRow(Struct, frozen=True, kw_only=True):
    """One line of dmon: entity ("GPU 0") and a value per column."""

    entity: str
    values: dict[str, float | None]


def dmon(text: str) -> Dmon:
    """`dcgmi dmon`: a "#" header with a unit line under it, repeated now and then; the entity is two words."""
    columns: tuple[str, ...] = ()
    rows: list[DmonRow] = []
    notes: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            columns = tuple(line[1:].split()[1:])
        elif (row := _ENTITY.match(line)) and columns:
            cells = row[3].split()
            if len(cells) == len(columns):
                values = dict(zip(columns, map(_cell, cells), strict=True))
                rows.append(DmonRow(entity=f"{row[1]} {row[2]}", values=values))
        elif line.strip() and not line.startswith("ID"):
            notes.append(line.strip())
    warning = " ".join(notes) if any("warning" in n.lower() or "error" in n.lower() for n in notes) else ""
    if not columns and not warning:
        raise ValueError("no header of dcgmi dmon in it")
    return Dmon(columns=columns, rows=tuple(rows), warning=warning)


class LinkStates(Struct, frozen=True, kw_only=True):
    """`dcgmi nvlink -s`: a letter per link. U up, D down, X disabled, _ not supported. Switches by physical id."""

    gpus: dict[int, tuple[str, ...]] = field(default_factory=dict)
    switches: dict[int, tuple[str, ...]] = field(default_factory=dict)


def nvlink(text: str) -> LinkStates:
    """Link states of GPUs and, below their own heading, of NVSwitches."""
    found: dict[str, dict[int, tuple[str, ...]]] = {"gpus": {}, "switches": {}}
    part, number = "gpus", -1
    for line in text.splitlines():
        cells = line.split()
        if line.strip().lower().startswith("nvswitches"):
            part = "switches"
        elif heading := _LINK_OWNER.match(line):
            number = int(heading[1])
        elif cells and number >= 0 and all(cell in _LINK_STATES for cell in cells):
            found[part][number] = found[part].get(number, ()) + tuple(cells)
    if not found["gpus"] and not found["switches"]:
        raise ValueError("no link of dcgmi nvlink")
    return LinkStates(**found)


def _cell(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


FORMATS: dict[str, Callable[[str], Any]] = {
    "dcgmi -v": version,
    "dcgmi --version": version,
    "dcgmi discovery -l": discovery,
    "dcgmi health -f": health,
    "dcgmi health -c": health_check,
    "dcgmi dmon": dmon,
    "dcgmi nvlink -s": nvlink,
}
