"""IMEX: the daemon that lets GPUs of several trays of an NVLink domain share memory. Only queried, never started."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from assay.facts.source import source
from assay.facts.systemd import UnitState, unit_state
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, Stat

_VERSION = re.compile(r"IMEX version is\s*:?\s*(\d[\w.]*)")
_NODE = re.compile(r"^\s*Node\s+#(\d+)\s*-\s*(\S+)\s*-\s*(\S+)(?:\s*-\s*Version:\s*(\S+))?")
_ROW = re.compile(r"^\s*(\d+)((?:\s+(?:[INRDAC]|!V!|!M!|\.\.\.))+)\s*$")
_DOMAIN = re.compile(r"^[ \t]*Domain State[ \t]*:[ \t]*(\S+)", re.MULTILINE)
_DAEMON = re.compile(r"^[ \t]*([A-Z][A-Z_]{3,})[ \t]*$", re.MULTILINE)
_NO_CONFIG = "Unable to open configuration file"
_ALARM = re.compile(r"ErrorCode:\s*(\w*IMEX\w*).*?status is (-?\d+)", re.DOTALL)


class ImexNode(Struct, frozen=True, kw_only=True):
    """One member of the domain; `version` is None where nvidia-imex-ctl does not print it."""

    index: int = 0
    address: str = ""
    state: str = ""
    version: str | None = None


class Imex(Fact, frozen=True):
    """`daemon` = READY and the like (-q); `domain` = UP, DEGRADED, DOWN (-N); `matrix` = codes by sender."""

    version: str = ""
    configured: bool | None = None
    unit: UnitState | None = None
    daemon: str = ""
    domain: str = ""
    nodes: tuple[ImexNode, ...] = ()
    matrix: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    config_nodes: int | None = None
    channels: int | None = None
    error: str = ""


@source(
    Probe(
        "nvidia.imex",
        (
            Exec("version", ("nvidia-imex", "--version")),
            Exec("unit", ("systemctl", "show", "nvidia-imex.service", "-p", "LoadState,ActiveState,SubState"), 5.0),
            Exec("daemon", ("nvidia-imex-ctl", "-q"), 5.0),
            Exec("domain", ("nvidia-imex-ctl", "-N"), 5.0),
            Files("nodes", ("/etc/nvidia-imex/nodes_config.cfg",)),
            Stat("channels", ("/dev/nvidia-caps-imex-channels/channel*",), limit=4096),
        ),
    ),
    sees_missing=True,
)
def nvidia_imex(raw: RawFact) -> Imex | Missing:
    """IMEX where it is installed; absent where there is neither the program nor its unit nor a channel."""
    m, unit = _VERSION.search(raw.out("version")), unit_state(raw.out("unit"))
    channels = len(raw.files("channels"))
    if m is None and (unit is None or unit.load == "not-found") and not channels:
        return Missing("absent", "IMEX is not installed")
    said = _said(raw)
    found = imex(said) if _answers(said) else Imex(error=next(iter(said.strip().splitlines()), "")[:200])
    nodes = raw.files("nodes")
    entries = [line for text in nodes.values() for line in text.splitlines() if line.strip() and line[0] != "#"]
    return msgspec.structs.replace(
        found,
        version=m[1] if m else "",
        unit=unit,
        channels=channels,
        config_nodes=len(entries) if nodes else None,
        daemon=found.daemon or ("TIMED_OUT" if raw.read("daemon").state == "timed-out" else ""),
    )


def _said(raw: RawFact) -> str:
    reads = (raw.read("daemon"), raw.read("domain"))
    return "\n".join(text for read in reads for text in (read.out, read.err) if text.strip())


def _answers(text: str) -> bool:
    return bool(_DOMAIN.search(text) or _DAEMON.search(text) or _NO_CONFIG in text)


def imex(text: str) -> Imex:
    """`nvidia-imex-ctl -q` and `-N`, also one after the other; versions before 570 print no Version column."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    if not _answers(text):
        raise ValueError("neither a state nor a table of nvidia-imex-ctl")
    lines = text.splitlines()
    nodes = [m.groups() for line in lines if (m := _NODE.match(line))]
    domain, daemon = _DOMAIN.search(text), _DAEMON.search(text)
    return Imex(
        configured=_NO_CONFIG not in text,
        daemon=daemon[1] if daemon else "",
        domain=domain[1] if domain else "",
        nodes=tuple(ImexNode(index=int(i), address=a, state=s, version=v) for i, a, s, v in nodes),
        matrix={m[1]: tuple(m[2].split()) for line in lines if (m := _ROW.match(line))},
        error=next((line.strip() for line in lines if _NO_CONFIG in line), ""),
    )


_CODES = {
    "CONNECTED": "C", "INVALID": "I", "NEVER_CONNECTED": "N", "RECOVERING": "R", "DISCONNECTED": "D",
    "AUTHENTICATING": "A", "VERSION_MISMATCH": "!V!", "NODE_MAP_MISMATCH": "!M!",
}  # fmt: skip


class _JsonPeer(Struct):
    status: str = ""


class _JsonNode(Struct):
    status: str = ""
    host: str = ""
    version: str | None = None
    connections: dict[str, _JsonPeer] = msgspec.field(default_factory=dict)


class _JsonDomain(Struct):
    nodes: dict[str, _JsonNode]
    status: str = ""


def _from_json(text: str) -> Imex:
    """The same of `nvidia-imex-ctl -N -j`; a state without a letter keeps its word."""
    try:
        found = msgspec.json.decode(text, type=_JsonDomain)
    except msgspec.DecodeError as e:
        raise ValueError(f"not the JSON of nvidia-imex-ctl: {e}") from e
    nodes = sorted(((int(i), node) for i, node in found.nodes.items() if i.isdecimal()), key=lambda pair: pair[0])
    return Imex(
        configured=True,
        domain=found.status,
        nodes=tuple(ImexNode(index=i, address=n.host, state=n.status, version=n.version) for i, n in nodes),
        matrix={
            str(i): tuple(
                _CODES.get(peer.status.upper(), peer.status) for _, peer in sorted(n.connections.items(), key=_at)
            )
            for i, n in nodes
        },
    )


def _at(pair: tuple[str, Any]) -> int:
    return int(pair[0]) if pair[0].isdecimal() else -1


def version(text: str) -> str:
    """The version in `nvidia-imex --version`."""
    m = _VERSION.search(text)
    if m is None:
        raise ValueError("no version of IMEX")
    return m[1]


def alarm(text: str) -> tuple[str, int]:
    """Code and status of the node condition that DCGM's IMEX watch writes."""
    m = _ALARM.search(text)
    if m is None:
        raise ValueError("no IMEX condition")
    return m[1], int(m[2])


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvidia-imex-ctl -N": imex,
    "nvidia-imex-ctl -q": imex,
    "nvidia-imex --version": version,
}
