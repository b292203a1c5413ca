"""RDMA cards in sysfs: identity, ports, counters, partition keys, GIDs, device files."""

from __future__ import annotations

from collections.abc import Iterable

from assay.lab.hardware.layout import Device, number, rdma_names
from assay.lab.hardware.shapes import Nic, Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts

_COUNTERS = (
    "symbol_error", "link_downed", "link_error_recovery", "local_link_integrity_errors", "port_rcv_errors",
    "port_xmit_discards", "excessive_buffer_overrun_errors",
)  # fmt: skip
_ZERO = ":".join(["0000"] * 8)


def card(shape: Shape, device: Device) -> Nic:
    """The kind of a network card of this shape."""
    if device.kind == "rail" and shape.rail:
        return shape.rail
    return shape.front


def guid(host: str, device: Device) -> str:
    """Node GUID of a card, as sysfs writes it."""
    text = number(host, "guid", device.address)
    return f"9c63:c003:00{text[:2]}:{text[2:6]}"


def sysfs(host: str, shape: Shape, state: State, found: tuple[Device, ...], interfaces: dict[str, str]) -> Parts:
    """/sys/class/infiniband and /dev/infiniband; `interfaces` = PCI address -> network interface."""
    parts = Parts()
    for i, (name, device) in enumerate(rdma_names(found).items()):
        nic, home = card(shape, device), f"/sys/{device.path}/infiniband/{name}"
        parts.links[f"/sys/class/infiniband/{name}"] = f"../../{device.path}/infiniband/{name}"
        parts.links[f"{home}/device"] = f"../../../{device.address}"
        ids = {"fw_ver": nic.firmware, "board_id": nic.board_id, "hca_type": nic.hca_type}
        parts.put(home, {**ids, "node_guid": guid(host, device)})
        down = device.kind == "rail" and device.index in state.rails_down
        _port(parts, f"{home}/ports/1", nic, guid(host, device), i, down=down)
        verbs = f"/sys/{device.path}/infiniband_verbs/uverbs{i}"
        parts.files[f"{verbs}/ibdev"] = f"{name}\n"
        parts.links[f"/sys/class/infiniband_verbs/uverbs{i}"] = f"../../{device.path}/infiniband_verbs/uverbs{i}"
        parts.node(f"/dev/infiniband/uverbs{i}", "0666", f"231:{192 + i}")
        parts.directory(f"/sys/{device.path}/net/{interfaces[device.address]}")
    return parts


def _port(  # noqa: PLR0913 - every part of what is described
    parts: Parts, home: str, nic: Nic, node_guid: str, index: int, *, down: bool
) -> None:
    infiniband = nic.link_layer == "InfiniBand"
    parts.put(
        home,
        {
            "state": "1: DOWN" if down else "4: ACTIVE",
            "phys_state": ("2: Polling" if infiniband else "3: Disabled") if down else "5: LinkUp",
            "rate": "10 Gb/sec (4X SDR)" if down and infiniband else nic.rate,
            "link_layer": nic.link_layer,
            "lid": f"0x{0xFFFF if down else 0x120 + index:x}" if infiniband else "0x0",
            "sm_lid": "0x1" if infiniband and not down else "0x0",
        },
    )
    parts.put(f"{home}/counters", {**dict.fromkeys(_COUNTERS, 0), "port_rcv_packets": 918273645})
    parts.put(f"{home}/hw_counters", {"out_of_sequence": 0, "rx_icrc_encapsulated": 0})
    keys = ["0x8012", "0x7fff"] if infiniband else ["0xffff"]
    parts.put(f"{home}/pkeys", _numbered([*keys, *["0x0000"] * (8 - len(keys))]))
    _gids(parts, home, node_guid, index, infiniband=infiniband)


def _gids(parts: Parts, home: str, node_guid: str, index: int, *, infiniband: bool) -> None:
    local = f"fe80:0000:0000:0000:{node_guid}"
    mapped = f"0000:0000:0000:0000:0000:ffff:0ac8:{0x0010 + index:04x}"
    table = (
        [(local, "IB/RoCE v1")]
        if infiniband
        else [(local, "IB/RoCE v1"), (local, "RoCE v2"), (mapped, "IB/RoCE v1"), (mapped, "RoCE v2")]
    )
    gids = [gid for gid, _ in table]
    parts.put(f"{home}/gids", _numbered([*gids, *[_ZERO] * (16 - len(gids))]))
    parts.put(f"{home}/gid_attrs/types", _numbered(kind for _, kind in table))


def _numbered(values: Iterable[str]) -> dict[str, object]:
    return {str(i): value for i, value in enumerate(values)}
