"""Outputs of the InfiniBand tools: ibstat, ibstatus, ibv_devinfo, ibnetdiscover, perfquery, ibswinfo."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.infiniband import RdmaDevice, RdmaDevices, RdmaGid, RdmaPort, rate_of, word_of

_CA = re.compile(r"^CA '([^']+)'", re.MULTILINE)
_STATUS = re.compile(r"^Infiniband device '([^']+)' port (\d+) status:", re.MULTILINE)
_NIC = re.compile(r"^[ \t]*(NIC\d+)\s*:\s*(\S+)[ \t\r]*$", re.MULTILINE)
_HCA = re.compile(r"^hca_id:\s*(\S+)", re.MULTILINE)
_PORT = re.compile(r"^[ \t]+port:\s+(\d+)[ \t\r]*$", re.MULTILINE)
_IBSTAT_PORT = re.compile(r"^[ \t]+Port (\d+):[ \t\r]*$", re.MULTILINE)
_GID = re.compile(r"^[ \t]*GID\[ *(\d+)\]:[ \t]*([0-9a-fA-F:.]+)(?:,[ \t]*(\S[^\n]*))?", re.MULTILINE)
_LINK = re.compile(
    r"^(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+(\S+)\s+(\S+)"
    r"(?:\s+-\s+(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+\(\s*'(.*?)'\s+-\s+'(.*?)'\s*\)|\s+'(.*?)')[ \t\r]*$",
    re.MULTILINE,
)
_PERF_HEAD = re.compile(r"^#.*?Lid (\d+) port (\d+)", re.MULTILINE | re.IGNORECASE)
_PERF = re.compile(r"^(\w+):\.*([0-9a-fx]+)[ \t\r]*$", re.MULTILINE)


class FabricPort(Struct, frozen=True, kw_only=True):
    """One line of ibnetdiscover -p. A port without cable has no peer."""

    type: str
    lid: int
    port: int
    guid: str
    width: str
    speed: str
    name: str = ""
    peer_type: str | None = None
    peer_lid: int | None = None
    peer_port: int | None = None
    peer_guid: str | None = None
    peer_name: str | None = None


class PortCounters(Struct, frozen=True, kw_only=True):
    """One block of perfquery. Data counters count words of four bytes."""

    lid: int
    port: int
    counters: dict[str, int] = {}


class SwitchInfo(Struct, frozen=True, kw_only=True):
    """ibswinfo: title -> value as printed; indented titles are prefixed by their power supply ("PSU0 fan status")."""

    values: dict[str, str] = {}


def _blocks(text: str, head: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    """Every match of `head` with the text up to the next one."""
    found = list(head.finditer(text))
    ends = [*(m.start() for m in found[1:]), len(text)][: len(found)]
    return [(m, text[m.end() : end]) for m, end in zip(found, ends, strict=True)]


def _pairs(text: str) -> dict[str, str]:
    """Lower-case key -> value of "key: value" lines; the first of a key counts."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.setdefault(key.strip().lower(), value.strip())
    return pairs


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def ibstat(text: str) -> RdmaDevices:
    """CAs in the printed order; a failure of ibstat after good devices keeps the good ones."""
    devices = tuple(_ibstat_ca(m[1], body) for m, body in _blocks(text, _CA))
    if not devices:
        raise ValueError("no CA in it: not the output of ibstat")
    return RdmaDevices(devices=devices)


def _ibstat_ca(name: str, body: str) -> RdmaDevice:
    ports = _blocks(body, _IBSTAT_PORT)
    head = _pairs(body[: ports[0][0].start()] if ports else body)
    return RdmaDevice(
        name=name,
        hca_type=head.get("ca type", ""),
        fw_ver=head.get("firmware version", ""),
        node_guid=head.get("node guid", ""),
        ports=tuple(_ibstat_port(int(m[1]), _pairs(part)) for m, part in ports),
    )


def _ibstat_port(number: int, pairs: dict[str, str]) -> RdmaPort:
    rate = pairs.get("rate", "").split()
    return RdmaPort(
        port=number,
        state=pairs.get("state", ""),
        phys_state=pairs.get("physical state", ""),
        rate_gbps=float(rate[0]) if rate and rate[0].replace(".", "", 1).isdigit() else None,
        link_layer=pairs.get("link layer", ""),
        lid=_number(pairs.get("base lid", "")),
        sm_lid=_number(pairs.get("sm lid", "")),
    )


def ibstatus(text: str) -> RdmaDevices:
    """One device per "Infiniband device ... port N status" block; other text around is ignored."""
    blocks = _blocks(text, _STATUS)
    if not blocks:
        raise ValueError("no port status in it: not the output of ibstatus")
    ports: dict[str, list[RdmaPort]] = {}
    for m, body in blocks:
        ports.setdefault(m[1], []).append(_ibstatus_port(int(m[2]), _pairs(body)))
    return RdmaDevices(devices=tuple(RdmaDevice(name=n, ports=tuple(p)) for n, p in ports.items()))


def _ibstatus_port(number: int, pairs: dict[str, str]) -> RdmaPort:
    gbps, words = rate_of(pairs.get("rate", ""))
    gid = pairs.get("default gid", "")
    return RdmaPort(
        port=number,
        state=word_of(pairs.get("state", "")),
        phys_state=word_of(pairs.get("phys state", "")),
        rate_gbps=gbps,
        rate_words=words,
        link_layer=pairs.get("link_layer", ""),
        lid=_number(pairs.get("base lid", "")),
        sm_lid=_number(pairs.get("sm lid", "")),
        gids=(RdmaGid(index=0, gid=gid),) if ":" in gid else (),
    )


def nic_legend(text: str) -> dict[str, str]:
    """NICn -> device of the legend under `nvidia-smi topo -m`."""
    return dict(_NIC.findall(text))


class VerbsPort(RdmaPort, frozen=True, kw_only=True):
    """A port as ibv_devinfo shows it: link width in lanes, speed per lane, MTUs in bytes."""

    active_mtu: int | None = None
    max_mtu: int | None = None
    width: int | None = None
    lane_gbps: float | None = None


class VerbsDevice(RdmaDevice, frozen=True, kw_only=True):
    """A device as ibv_devinfo shows it."""

    vendor_id: str = ""
    ports: tuple[VerbsPort, ...] = ()


def ibv_devinfo(text: str) -> tuple[VerbsDevice, ...]:
    """Devices in the printed order; ports without a device line before them (a cut paste) belong to a nameless one."""
    blocks = [(m[1], body) for m, body in _blocks(text, _HCA)]
    if not blocks and _PORT.search(text):
        blocks = [("", text)]
    if not blocks:
        raise ValueError("no hca_id in it: not the output of ibv_devinfo")
    return tuple(_verbs_device(name, body) for name, body in blocks)


def _verbs_device(name: str, body: str) -> VerbsDevice:
    ports = _blocks(body, _PORT)
    head = _pairs(body[: ports[0][0].start()] if ports else body)
    return VerbsDevice(
        name=name,
        fw_ver=head.get("fw_ver", ""),
        board_id=head.get("board_id", ""),
        node_guid=head.get("node_guid", ""),
        vendor_id=head.get("vendor_id", ""),
        ports=tuple(_verbs_port(int(m[1]), part) for m, part in ports),
    )


def _verbs_port(number: int, body: str) -> VerbsPort:
    pairs = {k: v.partition(" (")[0] for k, v in _pairs(body).items()}
    width = pairs.get("active_width", "").upper().rstrip("X")
    speed = pairs.get("active_speed", "").split()
    lanes = int(width) if width.isdigit() else None
    lane = float(speed[0]) if speed and speed[0].replace(".", "", 1).isdigit() else None
    return VerbsPort(
        port=number,
        state=pairs.get("state", ""),
        phys_state=pairs.get("phys_state", ""),
        link_layer=pairs.get("link_layer", ""),
        lid=_number(pairs.get("port_lid", "")),
        sm_lid=_number(pairs.get("sm_lid", "")),
        active_mtu=_number(pairs.get("active_mtu", "")),
        max_mtu=_number(pairs.get("max_mtu", "")),
        width=lanes,
        lane_gbps=lane,
        rate_gbps=lanes * lane if lanes and lane else None,
        gids=tuple(RdmaGid(index=int(i), gid=g, type=t.strip()) for i, g, t in _GID.findall(body)),
    )


def ibnetdiscover_ports(text: str) -> tuple[FabricPort, ...]:
    """Lines of `ibnetdiscover -p`."""
    ports = tuple(_fabric_port(m.groups()) for m in _LINK.finditer(text))
    if not ports:
        raise ValueError("no port line in it: not the output of ibnetdiscover -p")
    return ports


def _fabric_port(g: tuple[Any, ...]) -> FabricPort:
    peer = {} if g[6] is None else {
        "peer_type": g[6], "peer_lid": int(g[7]), "peer_port": int(g[8]), "peer_guid": g[9], "peer_name": g[11],
    }  # fmt: skip
    return FabricPort(
        type=g[0], lid=int(g[1]), port=int(g[2]), guid=g[3], width=g[4], speed=g[5], name=g[10] or g[12] or "", **peer
    )


def perfquery(text: str) -> tuple[PortCounters, ...]:
    """One entry per "# Port ... counters: Lid L port P" block."""
    blocks = _blocks(text, _PERF_HEAD)
    if not blocks:
        raise ValueError("no counter block in it: not the output of perfquery")
    return tuple(
        PortCounters(lid=int(m[1]), port=int(m[2]), counters={k: int(v, 0) for k, v in _PERF.findall(body)})
        for m, body in blocks
    )


def ibswinfo(text: str) -> SwitchInfo:
    """Title | value lines; an indented title belongs to the power supply above it."""
    values: dict[str, str] = {}
    unit = ""
    for line in text.splitlines():
        title, bar, value = line.partition("|")
        key = title.strip()
        if not bar or not key:
            continue
        if not title[0].isspace():
            unit = key.split()[0] if key.startswith("PSU") else ""
            values.setdefault(key, value.strip())
        else:
            values.setdefault(f"{unit} {key}" if unit else key, value.strip())
    if not values:
        raise ValueError("no table line in it: not the output of ibswinfo")
    return SwitchInfo(values=values)


FORMATS: dict[str, Callable[[str], Any]] = {
    "ibstat": ibstat,
    "ibstatus": ibstatus,
    "ibv_devinfo": ibv_devinfo,
    "ibv_devinfo -v": ibv_devinfo,
    "ibnetdiscover -p": ibnetdiscover_ports,
    "perfquery -x": perfquery,
    "ibswinfo": ibswinfo,
}
