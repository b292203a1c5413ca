"""RDMA devices (InfiniBand, RoCE, EFA, Omni-Path) as the kernel shows them in sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct, structs

from assay.facts.pci_address import last_address
from assay.facts.source import source
from assay.facts.text import integer
from assay.model import Fact, Files, Links, Missing, Probe, RawFact, Stat

_RATE = re.compile(r"([\d.]+)\s*Gb/sec(?:\s*\(([^)]*)\))?")
_NUMBERED = re.compile(r"([^\d]*)(\d*)")


class RdmaGid(Struct, frozen=True, kw_only=True):
    """One entry of a port's GID table; `type` is "IB/RoCE v1", "RoCE v2" or "" where the kernel does not say."""

    index: int
    gid: str
    type: str = ""

    @property
    def ipv4(self) -> bool:
        """True for an IPv4-mapped GID."""
        return self.gid.startswith("0000:0000:0000:0000:0000:ffff:")

    @property
    def link_local(self) -> bool:
        """True for fe80::/10, which no router forwards."""
        return self.gid.startswith("fe8")


class RdmaPort(Struct, frozen=True, kw_only=True):
    """One port. `state` and `phys_state` are words without number ("ACTIVE", "LinkUp"); `rate_words` is "4X NDR"."""

    port: int = 1
    state: str = ""
    phys_state: str = ""
    rate_gbps: float | None = None
    rate_words: str = ""
    link_layer: str = ""
    lid: int | None = None
    sm_lid: int | None = None
    counters: dict[str, int] = {}
    unreadable_counters: int = 0
    pkeys: tuple[str, ...] = ()
    gids: tuple[RdmaGid, ...] = ()

    @property
    def active(self) -> bool:
        """The port carries traffic."""
        return self.state.upper() == "ACTIVE"


class RdmaDevice(Struct, frozen=True, kw_only=True):
    """One RDMA device. `fw_ver`, `hca_type` ("MT4129") and `board_id` (PSID) are as sysfs says; `pci` is its address.

    `virtual` = an SR-IOV function; `uverbs` = the device file user space opens (None = the class directory names none),
    `uverbs_access` = what this user may do with it; `netdevs` = its Ethernet or IPoIB interfaces in this name space.
    """

    name: str
    fw_ver: str = ""
    hca_type: str = ""
    board_id: str = ""
    node_guid: str = ""
    driver: str = ""
    pci: str = ""
    virtual: bool = False
    uverbs: str | None = None
    uverbs_access: str | None = None
    netdevs: tuple[str, ...] = ()
    ports: tuple[RdmaPort, ...] = ()


class RdmaDevices(Fact, frozen=True, dict=True):
    """Every RDMA device, in natural order of names. `uptime_s` tells over which time its counters grew."""

    devices: tuple[RdmaDevice, ...] = ()
    uptime_s: float | None = None

    @cached_property
    def rails(self) -> tuple[RdmaDevice, ...]:
        """The compute network of the node; empty when no port is active."""
        return rails(self.devices)


def rails(devices: Iterable[RdmaDevice]) -> tuple[RdmaDevice, ...]:
    """The largest set of like devices at the highest active rate; empty when no port is active.

    Like = same driver, type, board and link layer: front-end cards, the ConnectX functions that manage NVLink on
    HGX baseboards (another board) and virtual functions of this host fall out. Down members of the set stay in it,
    except the second ports of two-port cards where none of them is in use. One slow Ethernet card that could do RDMA
    is a front end.
    """
    groups: dict[tuple[str, str, str, str], list[RdmaDevice]] = {}
    for d in devices:
        if not d.virtual and d.ports:
            groups.setdefault((d.driver, d.hca_type, d.board_id, d.ports[0].link_layer), []).append(d)
    best = max(groups.values(), key=_rank, default=[])
    if top_rate(best) is None:
        return ()
    if len(best) == 1 and best[0].ports[0].link_layer == "Ethernet" and (top_rate(best) or 0) < _BACK_END_GBPS:
        return ()
    used = {_function(d) for d in best if any(p.active for p in d.ports)}
    return tuple(d for d in best if _function(d) in used)


def top_rate(devices: Iterable[RdmaDevice]) -> float | None:
    """Highest rate of an active port, Gb/s."""
    return max((p.rate_gbps for d in devices for p in d.ports if p.active and p.rate_gbps is not None), default=None)


def _rank(group: list[RdmaDevice]) -> tuple[float, int, bool, int]:
    active = sum(any(p.active for p in d.ports) for d in group)
    return top_rate(group) or 0.0, active, group[0].ports[0].link_layer == "InfiniBand", len(group)


def _function(device: RdmaDevice) -> str:
    return device.pci.rpartition(".")[2]


_BACK_END_GBPS = 200
"""A single Ethernet card below this rate is no compute network: clouds give such a one to every machine."""
_IB = "/sys/class/infiniband/*/"
_PORT = _IB + "ports/*/"
_PROBE = Probe(
    "rdma.sysfs",
    (
        Files("device", tuple(_IB + f for f in ("fw_ver", "board_id", "hca_type", "node_guid"))),
        Files("port", tuple(_PORT + f for f in ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid"))),
        Files(
            "counters",
            tuple(
                _PORT + "counters/" + f
                for f in (
                    "symbol_error", "link_downed", "link_error_recovery", "local_link_integrity_errors",
                    "port_rcv_errors", "port_xmit_discards", "excessive_buffer_overrun_errors", "port_rcv_packets",
                )
            )
            + tuple(_PORT + "hw_counters/" + f for f in ("out_of_sequence", "rx_icrc_encapsulated")),
        ),
        Files("pkeys", (_PORT + "pkeys/[0-7]",)),
        Files("gids", (_PORT + "gids/[0-9]", _PORT + "gids/1[0-5]"), limit=8192),
        Files("gid_types", (_PORT + "gid_attrs/types/[0-9]", _PORT + "gid_attrs/types/1[0-5]"), limit=8192),
        Links("links", (_IB + "device", _IB + "device/driver", _IB + "device/physfn")),
        Stat("netdevs", (_IB + "device/net/*",)),
        Files("verbs", ("/sys/class/infiniband_verbs/uverbs*/ibdev",)),
        Stat("nodes", ("/dev/infiniband/uverbs*",)),
        Files("uptime", ("/proc/uptime",)),
    ),
)  # fmt: skip


@source(_PROBE)
def rdma_sysfs(raw: RawFact) -> RdmaDevices | Missing:
    """Identity, ports, error counters, partition keys and GIDs of every device under /sys/class/infiniband."""
    values: dict[str, str] = {}
    for key in ("device", "port", "counters", "pkeys", "gids", "gid_types"):
        values.update(raw.files(key))
    if not values:
        return Missing("absent", "/sys/class/infiniband: no RDMA device")
    links = raw.files("links")
    verbs = {v.strip(): path.split("/")[4] for path, v in raw.files("verbs").items()}
    nodes = {path.rsplit("/", 1)[1]: stat for path, stat in raw.files("nodes").items()}
    netdevs: dict[str, list[str]] = {}
    for path in raw.files("netdevs"):
        netdevs.setdefault(path.split("/")[4], []).append(path.rsplit("/", 1)[1])
    devices = tuple(
        _located(device, links, verbs.get(device.name), nodes, tuple(sorted(netdevs.get(device.name, ()))))
        for device in rdma_from_files(values).devices
    )
    uptime = raw.out("uptime").split()
    return RdmaDevices(devices=devices, uptime_s=float(uptime[0]) if uptime else None)


def _located(
    device: RdmaDevice, links: Mapping[str, str], uverbs: str | None, nodes: Mapping[str, str], netdevs: tuple[str, ...]
) -> RdmaDevice:
    base = f"/sys/class/infiniband/{device.name}/device"
    return structs.replace(
        device,
        driver=links.get(base + "/driver", "").rsplit("/", 1)[-1],
        pci=last_address(links.get(base, "")),
        virtual=base + "/physfn" in links,
        uverbs=uverbs,
        uverbs_access=(nodes[uverbs].split() or [""])[-1] if uverbs and uverbs in nodes else None,
        netdevs=netdevs,
    )


def rdma_from_files(values: Mapping[str, str]) -> RdmaDevices:
    """Devices from path -> content of any files below an `infiniband` directory of sysfs."""
    trees: dict[str, dict[str, str]] = {}
    for path, value in values.items():
        name, _, rest = path.partition("/infiniband/")[2].partition("/")
        if rest:
            trees.setdefault(name, {})[rest] = value.strip()
    return RdmaDevices(devices=tuple(_device(name, trees[name]) for name in sorted(trees, key=natural)))


def _device(name: str, tree: Mapping[str, str]) -> RdmaDevice:
    ports: dict[str, dict[str, str]] = {}
    for path, value in tree.items():
        if path.startswith("ports/"):
            number, _, rest = path[6:].partition("/")
            ports.setdefault(number, {})[rest] = value
    return RdmaDevice(
        name=name,
        fw_ver=tree.get("fw_ver", ""),
        hca_type=tree.get("hca_type", ""),
        board_id=tree.get("board_id", ""),
        node_guid=tree.get("node_guid", ""),
        ports=tuple(_port(int(number), files) for number, files in sorted(ports.items()) if number.isdigit()),
    )


def _port(number: int, files: Mapping[str, str]) -> RdmaPort:
    gbps, words = rate_of(files.get("rate", ""))
    counters = {p.rsplit("/", 1)[1]: v for p, v in files.items() if "counters/" in p}
    numbers = {name: int(v) for name, v in counters.items() if v.isdigit()}
    pkeys = sorted((p for p in files if p.startswith("pkeys/")), key=natural)
    return RdmaPort(
        port=number,
        state=word_of(files.get("state", "")),
        phys_state=word_of(files.get("phys_state", "")),
        rate_gbps=gbps,
        rate_words=words,
        link_layer=files.get("link_layer", ""),
        lid=integer(files.get("lid", "")),
        sm_lid=integer(files.get("sm_lid", "")),
        counters=numbers,
        unreadable_counters=len(counters) - len(numbers),
        pkeys=tuple(files[p] for p in pkeys if files[p] not in ("0x0000", "0x0", "")),
        gids=_gids(files),
    )


def _gids(files: Mapping[str, str]) -> tuple[RdmaGid, ...]:
    table = {int(p[5:]): v for p, v in files.items() if p.startswith("gids/") and p[5:].isdigit()}
    return tuple(
        RdmaGid(index=i, gid=table[i], type=files.get(f"gid_attrs/types/{i}", ""))
        for i in sorted(table)
        if table[i].strip("0:")
    )


def word_of(text: str) -> str:
    """The word behind a number: "4: ACTIVE" -> "ACTIVE"."""
    number, colon, word = text.partition(":")
    return word.strip() if colon and number.strip().isdigit() else text.strip()


def rate_of(text: str) -> tuple[float | None, str]:
    """Rate and its words: "400 Gb/sec (4X NDR)" -> (400.0, "4X NDR"); (None, "") where it is no rate."""
    found = _RATE.match(text)
    return (float(found[1]), found[2] or "") if found else (None, "")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key that puts mlx5_2 before mlx5_10."""
    return tuple((int(part or 0), text) for text, part in _NUMBERED.findall(name))


def sysfs_listing(text: str) -> RdmaDevices:
    """Devices from lines "path:content", as `grep -r . /sys/class/infiniband/` prints them."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        colon = line.find(":", line.find("/infiniband/"))
        if "/infiniband/" in line and colon > 0:
            values.setdefault(line[:colon], line[colon + 1 :])
    if not values:
        raise ValueError("no line names a file below an infiniband directory")
    return rdma_from_files(values)


FORMATS: dict[str, Callable[[str], RdmaDevices]] = {"grep -r . /sys/class/infiniband/": sysfs_listing}
