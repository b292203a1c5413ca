"""Network interfaces in sysfs and /proc/net/dev."""

from __future__ import annotations

from assay.lab.hardware.infiniband import card
from assay.lab.hardware.layout import Device, of
from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts

_UP, _DOWN = "0x1003", "0x1002"
_HEAD = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
    "compressed\n"
)


def names(shape: Shape, found: tuple[Device, ...]) -> dict[str, str]:
    """PCI address -> interface, in systemd's way of naming."""
    rail = "ibp" if shape.rail and shape.rail.link_layer == "InfiniBand" else "enp"
    named: dict[str, str] = {}
    for device in found:
        domain, bus, slot = device.address.split(":")
        place = f"{f'P{int(domain, 16)}' if int(domain, 16) else ''}p{int(bus, 16)}s{int(slot[:2], 16)}"
        if device.kind == "rail":
            named[device.address] = f"{rail[:-1]}{place}{'' if rail == 'ibp' else 'np0'}"
        elif device.kind == "front":
            named[device.address] = "enp5s0" if shape.guest else f"en{place}f{slot[-1]}np{slot[-1]}"
    return named


def sysfs(shape: Shape, state: State, found: tuple[Device, ...]) -> Parts:
    """/sys/class/net: loopback, cards, and a bond over two front-end ports."""
    parts = Parts()
    named = names(shape, found)
    cards = {d.address: d for d in found if d.address in named}
    fronts = [named[d.address] for d in of("front", found)]
    bond = len(fronts) > 1
    for address, name in named.items():
        _card(parts, shape, state, cards[address], name, bonded=bond and name in fronts)
    _virtual(parts, "lo", mtu=65536, kind=772, state="unknown", flags="0x9")
    if bond:
        _virtual(parts, "bond0", mtu=shape.front.mtu, kind=1, state="up", flags="0x1403")
        home = "/sys/devices/virtual/net/bond0"
        speed = {"speed": shape.front.mbits * len(fronts), "duplex": "full"}
        parts.put(home, {"bonding/mode": "802.3ad 4", "bonding/slaves": " ".join(fronts), **speed})
    everything = ["lo", *named.values(), *(["bond0"] if bond else [])]
    rows = "".join(f"{n:>6}: 91827364 4128812 0 0 0 0 0 12 81726354 3918273 0 0 0 0 0 0\n" for n in everything)
    parts.files["/proc/net/dev"] = _HEAD + rows
    return parts


def _card(  # noqa: PLR0913 - every part of what is described
    parts: Parts, shape: Shape, state: State, device: Device, name: str, *, bonded: bool
) -> None:
    nic = card(shape, device)
    down = device.kind == "rail" and device.index in state.rails_down
    path = f"{device.path}/virtio{device.index + 1}" if shape.guest else device.path
    home = f"/sys/{path}/net/{name}"
    parts.links[f"/sys/class/net/{name}"] = f"../../{path}/net/{name}"
    parts.links[f"{home}/device"] = f"../../../{path.rpartition('/')[2]}"
    if shape.guest:
        parts.links[f"/sys/{path}/driver"] = "../" * (path.count("/") + 1) + "bus/virtio/drivers/virtio_net"
    infiniband = nic.link_layer == "InfiniBand"
    values: dict[str, object] = {
        "operstate": "down" if down else "up", "carrier_up_count": 1, "carrier_down_count": 1 + down, "mtu": nic.mtu,
        "carrier_changes": 2 + down, "type": 32 if infiniband else 1, "carrier": int(not down),
        "flags": "0x1803" if bonded else _UP, "speed": -1 if down else nic.mbits, "duplex": "full",
    }  # fmt: skip
    if bonded:
        values |= {"bonding_slave/mii_status": "up", "bonding_slave/link_failure_count": 0}
        parts.links[f"{home}/master"] = "../" * (path.count("/") + 2) + "devices/virtual/net/bond0"
    parts.put(home, values)


def _virtual(  # noqa: PLR0913 - every part of what is described
    parts: Parts, name: str, *, mtu: int, kind: int, state: str, flags: str
) -> None:
    parts.links[f"/sys/class/net/{name}"] = f"../../devices/virtual/net/{name}"
    values = {"operstate": state, "carrier": 1, "mtu": mtu, "type": kind, "flags": flags, "carrier_changes": 0}
    parts.put(f"/sys/devices/virtual/net/{name}", values)
