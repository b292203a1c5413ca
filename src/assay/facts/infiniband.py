"""RDMA devices (InfiniBand, RoCE, EFA, Omni-Path) as the kernel shows them in sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from assay.facts.source import source
from assay.model import Fact, Files, Links, Missing, Probe, RawFact, Stat

_RATE = re.compile(r"([\d.]+)\s*Gb/sec(?:\s*\(([^)]*)\))?")
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


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


class RdmaDevices(Fact, frozen=True):
    """Every RDMA device, in natural order of names. `uptime_s` tells over which time its counters grew."""

    devices: tuple[RdmaDevice, ...] = ()
    uptime_s: float | None = None
