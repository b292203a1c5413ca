"""Outputs of the InfiniBand tools: ibstat, ibstatus, ibv_devinfo, ibdev2netdev, ibnetdiscover, perfquery, ibswinfo."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.infiniband import RdmaDevice, RdmaDevices, RdmaGid, RdmaPort, rate_of, word_of
from assay.facts.text import integer, pairs

_CA = re.compile(r"^[ \t]*CA:? '([^']+)'", re.MULTILINE)
_PANIC = re.compile(r"^[ \t]*ibpanic: \[\d+\] (\S[^\n]*)", re.MULTILINE)
_STATUS = re.compile(r"^[ \t]*Infiniband device '([^']+)' port (\d+) status:", re.MULTILINE)
_NIC = re.compile(r"^[ \t]*(NIC\d+)\s*:\s*(\S+)[ \t\r]*$", re.MULTILINE)
_HCA = re.compile(r"^[ \t]*hca_id:[ \t]*(\S+)", re.MULTILINE)
_PORT = re.compile(r"^[ \t]+port:\s+(\d+)[ \t\r]*$", re.MULTILINE)
_IBSTAT_PORT = re.compile(r"^[ \t]*Port (\d+):[ \t\r]*$", re.MULTILINE)
_GID = re.compile(r"^[ \t]*GID\[ *(\d+)\]:[ \t]*([0-9a-fA-F:.]+)(?:,[ \t]*(\S[^\n]*))?", re.MULTILINE)
_LINK = re.compile(
    r"^[ \t]*(CA|SW|RT)[ \t]+(\d+)[ \t]+(\d+)[ \t]+(0x[0-9a-f]+)[ \t]+(\S+)[ \t]+(\S+)"
    r"(?:[ \t]+-[ \t]+(CA|SW|RT)[ \t]+(\d+)[ \t]+(\d+)[ \t]+(0x[0-9a-f]+)[ \t]+\([ \t]*'(.*?)'[ \t]+-[ \t]+'(.*?)'"
    r"[ \t]*\)|[ \t]+(?!-[ \t])(\S[^\n]*))?[ \t\r]*$",
    re.MULTILINE,
)
_PCI = re.compile(r"(?:[0-9a-f]{4,}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_LISTED = re.compile(r"^[ \t]+([A-Za-z]\w*)[ \t]+((?:[0-9a-f]{4}:?){4})[ \t\r]*$", re.MULTILINE)
_NODE = re.compile(
    r"^(Switch|Ca|Rt)[ \t]+(\d+)[ \t]+\"([SHR]-[0-9a-f]+)\"[ \t]*#[ \t]*\"([^\"\n]*)\"(?:[^\n]*?[ \t]lid[ \t](\d+))?",
    re.MULTILINE,
)
_CABLE = re.compile(r"^\[\d+\](?:\([0-9a-f]+\))?[ \t]+\"", re.MULTILINE)
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


class FabricNode(Struct, frozen=True, kw_only=True):
    """One block of ibnetdiscover without -p: `ports` it has, `cabled` those with a cable; only switches tell a LID."""

    type: str
    guid: str
    name: str
    ports: int
    cabled: int
    lid: int | None = None


class PortCounters(Struct, frozen=True, kw_only=True):
    """One block of perfquery. Data counters count words of four bytes."""

    lid: int
    port: int
    counters: dict[str, int] = {}


class IbStat(RdmaDevices, frozen=True, dict=True):
    """What ibstat printed; `error` = why it stopped, the devices behind that point are not in it."""

    error: str = ""


class RdmaNetdev(Struct, frozen=True, kw_only=True):
    """One line of ibdev2netdev. `up` is about the IP interface: an InfiniBand port without IPoIB is "Down" here.

    `state` is the port's own, which only the verbose form prints.
    """

    device: str
    port: int
    netdev: str = ""
    up: bool | None = None
    pci: str = ""
    state: str = ""
    type: str = ""
    fw_ver: str = ""


class SwitchInfo(Struct, frozen=True, kw_only=True):
    """ibswinfo: title -> value as printed; indented titles are prefixed by their power supply ("PSU0 fan status")."""

    values: dict[str, str] = {}


def _blocks(text: str, head: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    """Every match of `head` with the text up to the next one."""
    found = list(head.finditer(text))
    ends = [*(m.start() for m in found[1:]), len(text)][: len(found)]
    return [(m, text[m.end() : end]) for m, end in zip(found, ends, strict=True)]


def _lower(text: str) -> dict[str, str]:
    """The "key: value" lines with keys in lower case."""
    return {key.lower(): value for key, value in pairs(text).items()}


def ibstat(text: str) -> IbStat:
    """CAs in the printed order, with all ports or (`ibstat CA PORT`) one; those before a failure of ibstat are kept."""
    devices = tuple(_ibstat_ca(m[1], body) for m, body in _blocks(text, _CA))
    panic = _PANIC.search(text)
    if not devices and not panic:
        raise ValueError("no CA in it: not the output of ibstat")
    return IbStat(devices=devices, error=panic[1].strip() if panic else "")


def _ibstat_ca(name: str, body: str) -> RdmaDevice:
    ports = _blocks(body, _IBSTAT_PORT)
    head = _lower(body[: ports[0][0].start()] if ports else body)
    return RdmaDevice(
        name=name,
        hca_type=head.get("ca type", ""),
        fw_ver=head.get("firmware version", ""),
        node_guid=head.get("node guid", ""),
        ports=tuple(_ibstat_port(int(m[1]), _lower(part)) for m, part in ports),
    )


def _ibstat_port(number: int, pairs: dict[str, str]) -> RdmaPort:
    rate = pairs.get("rate", "").split()
    return RdmaPort(
        port=number,
        state=pairs.get("state", ""),
        phys_state=pairs.get("physical state", ""),
        rate_gbps=float(rate[0]) if rate and rate[0].replace(".", "", 1).isdigit() else None,
        link_layer=pairs.get("link layer", ""),
        lid=integer(pairs.get("base lid", "")),
        sm_lid=integer(pairs.get("sm lid", "")),
    )


def ibstatus(text: str) -> RdmaDevices:
    """One device per "Infiniband device ... port N status" block; other text around is ignored."""
    blocks = _blocks(text, _STATUS)
    if not blocks:
        raise ValueError("no port status in it: not the output of ibstatus")
    ports: dict[str, list[RdmaPort]] = {}
    for m, body in blocks:
        ports.setdefault(m[1], []).append(_ibstatus_port(int(m[2]), _lower(body)))
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
        lid=integer(pairs.get("base lid", "")),
        sm_lid=integer(pairs.get("sm lid", "")),
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
    if not blocks and "No IB devices found" in text:
        return ()
    if not blocks and _PORT.search(text):
        blocks = [("", text)]
    if not blocks:
        raise ValueError("no hca_id in it: not the output of ibv_devinfo")
    return tuple(_verbs_device(name, body) for name, body in blocks)


def _verbs_device(name: str, body: str) -> VerbsDevice:
    ports = _blocks(body, _PORT)
    head = _lower(body[: ports[0][0].start()] if ports else body)
    return VerbsDevice(
        name=name,
        fw_ver=head.get("fw_ver", ""),
        board_id=head.get("board_id", ""),
        node_guid=head.get("node_guid", ""),
        vendor_id=head.get("vendor_id", ""),
        ports=tuple(_verbs_port(int(m[1]), part) for m, part in ports),
    )


def _verbs_port(number: int, body: str) -> VerbsPort:
    pairs = {k: v.partition(" (")[0] for k, v in _lower(body).items()}
    width = pairs.get("active_width", "").upper().rstrip("X")
    speed = pairs.get("active_speed", "").split()
    lanes = int(width) if width.isdigit() else None
    lane = float(speed[0]) if speed and speed[0].replace(".", "", 1).isdigit() else None
    return VerbsPort(
        port=number,
        state=pairs.get("state", ""),
        phys_state=pairs.get("phys_state", ""),
        link_layer=pairs.get("link_layer", ""),
        lid=integer(pairs.get("port_lid", "")),
        sm_lid=integer(pairs.get("sm_lid", "")),
        active_mtu=integer(pairs.get("active_mtu", "")),
        max_mtu=integer(pairs.get("max_mtu", "")),
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


def ibnetdiscover(text: str) -> tuple[FabricNode, ...] | tuple[FabricPort, ...]:
    """`ibnetdiscover`: the nodes of the fabric, or with -p its ports."""
    blocks = _blocks(text, _NODE)
    if not blocks:
        return ibnetdiscover_ports(text)
    return tuple(
        FabricNode(
            type={"Switch": "SW", "Ca": "CA", "Rt": "RT"}[m[1]],
            ports=int(m[2]),
            guid="0x" + m[3][2:],
            name=m[4],
            lid=int(m[5]) if m[5] else None,
            cabled=len(_CABLE.findall(body)),
        )
        for m, body in blocks
    )


def _fabric_port(g: tuple[Any, ...]) -> FabricPort:
    peer = {} if g[6] is None else {
        "peer_type": g[6], "peer_lid": int(g[7]), "peer_port": int(g[8]), "peer_guid": g[9], "peer_name": g[11],
    }  # fmt: skip
    return FabricPort(
        type=g[0],
        lid=int(g[1]),
        port=int(g[2]),
        guid=g[3],
        width=g[4],
        speed=g[5],
        name=g[10] or (g[12] or "").strip().strip("'"),
        **peer,
    )


def ibdev2netdev(text: str) -> tuple[RdmaNetdev, ...]:
    """Lines "mlx5_0 port 1 ==> ib0 (Up)", also those of -v, in the printed order."""
    found = tuple(row for line in text.splitlines() if (row := _netdev(line)))
    if not found:
        raise ValueError('no line with "==>": not the output of ibdev2netdev')
    return found


def _netdev(line: str) -> RdmaNetdev | None:
    left, arrow, right = line.partition("==>")
    before, _, behind = left.rpartition(" port ")
    words, port = before.split(), behind.split()
    pci = words.pop(0) if words and _PCI.fullmatch(words[0]) else ""
    if not arrow or not words or not port or not port[0].isdigit():
        return None
    netdev, _, ip = right.partition("(")
    return RdmaNetdev(
        device=words[0],
        port=int(port[0]),
        netdev=netdev.strip(),
        up={"up": True, "down": False}.get(ip.partition(")")[0].lower()),
        pci=pci,
        state=port[1].strip("()") if len(port) > 1 else "",
        type=words[1].strip("()") if len(words) > 1 else "",
        fw_ver=words[words.index("fw") + 1] if "fw" in words[:-1] else "",
    )


def ibv_devices(text: str) -> tuple[RdmaDevice, ...]:
    """`ibv_devices`: names and node GUIDs; () when it lists none."""
    found = tuple(RdmaDevice(name=name, node_guid=guid) for name, guid in _LISTED.findall(text))
    if not found and "node GUID" not in text:
        raise ValueError("no list of devices: not the output of ibv_devices")
    return found


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
    "ibv_devices": ibv_devices,
    "ibdev2netdev": ibdev2netdev,
    "ibdev2netdev -v": ibdev2netdev,
    "ibnetdiscover": ibnetdiscover,
    "ibnetdiscover -p": ibnetdiscover_ports,
    "perfquery": perfquery,
    "perfquery -x": perfquery,
    "ibswinfo": ibswinfo,
}
