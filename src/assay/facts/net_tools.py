"""Outputs of ethtool, ip and rdma (iproute2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from assay.facts.text import pairs

_SETTINGS = re.compile(r"^Settings for (\S+):", re.MULTILINE)
_LINK = re.compile(
    r"^[ \t]*(?:\d+(?:/\d+)?:[ \t]*|link[ \t]+)(\S+?)/(\d+):?[ \t]+(?:\S+[ \t]+)*?state[ \t]+(\S+)"
    r"[ \t]+physical_state[ \t]+(\S+)(?:[ \t]+netdev[ \t]+(\S+))?",
    re.MULTILINE,
)
_IP = re.compile(r"^(\d+):\s+([^:@\s]+)(?:@(\S+?))?:\s+<([^>]*)>\s+mtu\s+(\d+)(.*)$", re.MULTILINE)
_BRIEF = re.compile(
    r"^[ \t]*([^:@\s]+)(?:@(\S+))?[ \t]+([A-Z]+)[ \t]*(?:[ \t]([^<\n]*))?(?:<([^>\n]*)>)?[ \t\r]*$", re.MULTILINE
)
_STATES = frozenset({"UP", "DOWN", "UNKNOWN", "DORMANT", "LOWERLAYERDOWN", "NOTPRESENT", "TESTING"})
_COUNTERS = re.compile(r"^[ \t]*link[ \t]+(\S+?/\d+)[ \t]+(\S[^\n]*)$", re.MULTILINE)
_STATE = re.compile(r"\bstate\s+(\S+)")
_MASTER = re.compile(r"\bmaster\s+(\S+)")
_VF = re.compile(r"^[ \t]+vf\s+\d+\s", re.MULTILINE)
_INET = re.compile(r"^[ \t]+inet6?\s+(\S+)", re.MULTILINE)


class Ethtool(Struct, frozen=True, kw_only=True):
    """`ethtool DEV`. `speed` is verbatim ("40000Mb/s", "Unknown!"); `link` is None where it is not told."""

    name: str = ""
    speed: str = ""
    speed_mbps: int | None = None
    duplex: str = ""
    autoneg: str = ""
    port: str = ""
    link: bool | None = None
    settings: dict[str, str] = {}


class IpLink(Struct, frozen=True, kw_only=True):
    """One interface of `ip link` or `ip addr`, text or JSON."""

    name: str
    mtu: int | None = None
    state: str = ""
    flags: tuple[str, ...] = ()
    master: str = ""
    vfs: int = 0
    addresses: tuple[str, ...] = ()


class RdmaLink(Struct, frozen=True, kw_only=True):
    """One port of `rdma link`."""

    name: str
    port: int = 1
    state: str = ""
    phys_state: str = ""
    netdev: str = ""


def ethtool(text: str) -> Ethtool:
    """Settings of one device; error lines in between are passed over."""
    head = _SETTINGS.search(text)
    if not head:
        raise ValueError('no "Settings for": not the output of ethtool')
    settings = pairs(text[head.end() :])
    speed = settings.get("Speed", "")
    digits = speed.removesuffix("Mb/s")
    return Ethtool(
        name=head[1],
        speed=speed,
        speed_mbps=int(digits) if digits.isdigit() else None,
        duplex=settings.get("Duplex", ""),
        autoneg=settings.get("Auto-negotiation", ""),
        port=settings.get("Port", ""),
        link={"yes": True, "no": False}.get(settings.get("Link detected", "").split(" ")[0]),
        settings=settings,
    )


def ethtool_driver(text: str) -> dict[str, str]:
    """`ethtool -i`: driver, version, firmware-version, bus-info ... as printed, empty where empty."""
    values = pairs(text)
    if "driver" not in values:
        raise ValueError("no driver line: not the output of ethtool -i")
    return values


def ethtool_statistics(text: str) -> dict[str, int]:
    """`ethtool -S`: counter -> value; empty for a device without statistics."""
    if "statistics:" not in text and "no stats available" not in text:
        raise ValueError('no "NIC statistics": not the output of ethtool -S')
    found = (line.rpartition(":") for line in text.splitlines())
    return {name.strip(): int(value) for name, _, value in found if value.strip().removeprefix("-").isdecimal()}


def rdma_link(text: str) -> tuple[RdmaLink, ...]:
    """`rdma link`, text or -j."""
    if text.lstrip().startswith(("[", "{")):
        return tuple(
            RdmaLink(
                name=row["ifname"],
                port=row.get("port", 1),
                state=row.get("state", ""),
                phys_state=row.get("physical_state", ""),
                netdev=row.get("netdev", ""),
            )
            for row in _rows(text)
        )
    links = tuple(
        RdmaLink(name=n, port=int(p), state=s, phys_state=ph, netdev=dev or "")
        for n, p, s, ph, dev in _LINK.findall(text)
    )
    if not links and text.strip():
        raise ValueError("no link line: not the output of rdma link")
    return links


def rdma_statistic(text: str) -> dict[str, dict[str, int]]:
    """`rdma statistic`, text or -j: device/port -> counter -> value; the names of the counters are the vendor's."""
    if not text.lstrip().startswith(("[", "{")):
        return _rdma_statistic_text(text)
    return {
        f"{row['ifname']}/{row.get('port', 1)}": {
            k: v for k, v in row.items() if isinstance(v, int) and k not in ("port", "ifindex")
        }
        for row in _rows(text)
    }


def _rdma_statistic_text(text: str) -> dict[str, dict[str, int]]:
    found = {name: words.split() for name, words in _COUNTERS.findall(text)}
    if not found:
        raise ValueError("no link line: not the output of rdma statistic")
    return {
        name: {key: int(value) for key, value in zip(w[::2], w[1::2], strict=False) if value.isdigit()}
        for name, w in found.items()
    }


def ip_json(text: str) -> tuple[IpLink, ...]:
    """`ip -j addr` or `ip -j link`, also inside an object of another tool."""
    return tuple(
        IpLink(
            name=row["ifname"],
            mtu=row.get("mtu"),
            state=row.get("operstate", ""),
            flags=tuple(row.get("flags", ())),
            master=row.get("master", row.get("main", "")),
            vfs=len(row.get("vfinfo_list", ())),
            addresses=tuple(f"{a.get('local', '')}/{a.get('prefixlen', '')}" for a in row.get("addr_info", ())),
        )
        for row in _rows(text)
    )


def ip_text(text: str) -> tuple[IpLink, ...]:
    """`ip link` or `ip addr` as text, also -br."""
    found = list(_IP.finditer(text))
    if not found and (brief := ip_brief(text)):
        return brief
    if not found:
        raise ValueError("no interface line: not the output of ip link or ip addr")
    ends = [m.start() for m in found[1:]] + [len(text)]
    return tuple(_ip_link(m, text[m.end() : end]) for m, end in zip(found, ends, strict=True))


def ip_brief(text: str) -> tuple[IpLink, ...]:
    """`ip -br link` or `ip -br addr`: name, state, then the MAC and flags or the addresses."""
    return tuple(
        IpLink(
            name=m[1],
            state=m[3],
            flags=tuple(m[5].split(",")) if m[5] else (),
            addresses=tuple(w for w in (m[4] or "").split() if "/" in w),
        )
        for m in _BRIEF.finditer(text)
        if m[3] in _STATES
    )


def _ip_link(m: re.Match[str], body: str) -> IpLink:
    state, master = _STATE.search(m[6]), _MASTER.search(m[6])
    return IpLink(
        name=m[2],
        mtu=int(m[5]),
        state=state[1] if state else "",
        flags=tuple(m[4].split(",")),
        master=master[1] if master else "",
        vfs=len(_VF.findall(body)),
        addresses=tuple(_INET.findall(body)),
    )


def _rows(text: str) -> list[dict[str, Any]]:
    """The list of interfaces in the JSON of iproute2; empty objects stand for filtered devices."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as e:
        raise ValueError(f"not JSON: {e}") from e
    lists = [value, *(value.values() if isinstance(value, dict) else ())]
    for rows in lists:
        if isinstance(rows, list) and any(isinstance(r, dict) and "ifname" in r for r in rows):
            return [r for r in rows if isinstance(r, dict) and "ifname" in r]
    if value == []:
        return []
    raise ValueError("no list of interfaces in it")


def ip(text: str) -> tuple[IpLink, ...]:
    """`ip` output in either form."""
    return ip_json(text) if text.lstrip().startswith(("[", "{")) else ip_text(text)


FORMATS: dict[str, Callable[[str], Any]] = {
    "ethtool": ethtool,
    "ethtool -i": ethtool_driver,
    "ethtool -S": ethtool_statistics,
    "rdma link": rdma_link,
    "rdma link -j": rdma_link,
    "rdma statistic": rdma_statistic,
    "rdma statistic -j": rdma_statistic,
    "ip -j addr": ip,
    "ip -br link": ip,
    "ip -br addr": ip,
    "ip link show": ip,
    "ip addr": ip,
}
