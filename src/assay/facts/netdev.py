"""Network interfaces as sysfs shows them, and the kernel's error counters of each."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from assay.facts.infiniband import natural
from assay.facts.pci_address import last_address
from assay.facts.source import source
from assay.facts.text import whole
from assay.model import Fact, Files, Links, Missing, Probe, RawFact

_NET = "/sys/class/net/*/"
_FILES = (
    "operstate", "carrier", "carrier_up_count", "carrier_down_count", "carrier_changes", "speed", "mtu", "type",
    "duplex", "flags", "bonding/mode", "bonding/slaves", "bonding_slave/mii_status", "bonding_slave/link_failure_count",
)  # fmt: skip
_UP = 1


class NetDevice(Struct, frozen=True, kw_only=True):
    """One interface. `physical` = it stands for a device on a bus; `admin_up` = somebody wants it up.

    `speed_mbps` is None where the driver does not know; `type` is ARPHRD (1 Ethernet, 32 InfiniBand).
    `carrier_ups`/`carrier_downs` count since boot or driver load. `virtual` = an SR-IOV function of this host.
    """

    operstate: str = ""
    admin_up: bool | None = None
    carrier: bool | None = None
    carrier_ups: int | None = None
    carrier_downs: int | None = None
    speed_mbps: int | None = None
    duplex: str = ""
    mtu: int | None = None
    type: int | None = None
    physical: bool = False
    virtual: bool = False
    driver: str = ""
    pci: str = ""
    master: str = ""
    bond_mode: str = ""
    bond_slaves: tuple[str, ...] = ()
    bond_link: str = ""
    bond_failures: int | None = None
    rx_packets: int | None = None
    rx_errors: int | None = None
    rx_frame_errors: int | None = None
    tx_errors: int | None = None


class NetDevices(Fact, frozen=True):
    """Name -> interface, in this network name space."""

    devices: dict[str, NetDevice] = field(default_factory=dict)
    uptime_s: float | None = None


@source(
    Probe(
        "net.devices",
        (
            Files("files", tuple(_NET + f for f in _FILES), cap=1024, limit=8192),
            Links(
                "links",
                (_NET + "device", _NET + "device/driver", _NET + "device/physfn", _NET + "master"),
                limit=8192,
            ),
            Files("counters", ("/proc/net/dev",), cap=1 << 18),
            Files("uptime", ("/proc/uptime",)),
        ),
    )
)
def net_devices(raw: RawFact) -> NetDevices | Missing:
    """State, carrier changes, speed, MTU, bond membership and error counters of every interface."""
    trees: dict[str, dict[str, str]] = {}
    for key in ("files", "links"):
        for path, value in raw.files(key).items():
            parts = path.split("/", 5)
            trees.setdefault(parts[4], {})[parts[5]] = value.strip()
    if not trees:
        return Missing("absent", "no interface in /sys/class/net")
    counters = proc_net_dev(raw.out("counters"))
    uptime = raw.out("uptime").split()
    return NetDevices(
        devices={n: _device(trees[n], counters.get(n, {})) for n in sorted(trees, key=natural)},
        uptime_s=float(uptime[0]) if uptime else None,
    )


def _device(tree: Mapping[str, str], counters: Mapping[str, int]) -> NetDevice:
    flags = tree.get("flags", "")
    changes = whole(tree.get("carrier_changes"))
    speed = whole(tree.get("speed"))
    return NetDevice(
        operstate=tree.get("operstate", ""),
        admin_up=bool(int(flags, 16) & _UP) if flags.startswith("0x") else None,
        carrier={"1": True, "0": False}.get(tree.get("carrier", "")),
        carrier_ups=whole(tree.get("carrier_up_count", str((changes + 1) // 2) if changes is not None else "")),
        carrier_downs=whole(tree.get("carrier_down_count", str(changes // 2) if changes is not None else "")),
        speed_mbps=speed if speed and speed < 0xFFFF_FFFF else None,
        duplex=tree.get("duplex", ""),
        mtu=whole(tree.get("mtu")),
        type=whole(tree.get("type")),
        physical="device" in tree,
        virtual="device/physfn" in tree,
        driver=tree.get("device/driver", "").rsplit("/", 1)[-1],
        pci=last_address(tree.get("device", "")),
        master=tree.get("master", "").rsplit("/", 1)[-1],
        bond_mode=tree.get("bonding/mode", "").split(" ")[0],
        bond_slaves=tuple(tree.get("bonding/slaves", "").split()),
        bond_link=tree.get("bonding_slave/mii_status", ""),
        bond_failures=whole(tree.get("bonding_slave/link_failure_count")),
        rx_packets=counters.get("rx_packets"),
        rx_errors=counters.get("rx_errors"),
        rx_frame_errors=counters.get("rx_frame_errors"),
        tx_errors=counters.get("tx_errors"),
    )


def proc_net_dev(text: str) -> dict[str, dict[str, int]]:
    """/proc/net/dev: interface -> counters; lines of another shape are passed over."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) == 16 and all(map(str.isdecimal, words)):
            found[name.strip()] = {
                "rx_packets": int(words[1]),
                "rx_errors": int(words[2]),
                "rx_frame_errors": int(words[5]),
                "tx_errors": int(words[10]),
            }
    return found
