"""Field outputs of InfiniBand, Ethernet and NIC tools: every expected fact has a name in a view and agrees."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import ib_tools, infiniband, mlx_tools, net_tools
from field_facts import FIELD, pair, same, snake

FOLDERS = ("infiniband", "sysfs-infiniband", "mlx-tools", "ethtool-ip-rdma")
EXPECTED = sorted(p for f in FOLDERS for p in (FIELD / f).glob("*.expected.json"))
if not EXPECTED:
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

View = dict[str, Any]


def _port_view(port: infiniband.RdmaPort) -> View:
    width, _, speed = port.rate_words.partition(" ")
    return {
        "port": port.port, "state": port.state, "phys_state": port.phys_state, "rate_gbps": port.rate_gbps,
        "width": width or None, "speed": speed or None, "link_layer": port.link_layer, "rate": port.rate_words,
        "lid": port.lid, "base_lid": None if port.lid is None else hex(port.lid),
        "sm_lid": None if port.sm_lid is None else hex(port.sm_lid), **port.counters, "counters": port.counters,
        "unreadable_counters": port.unreadable_counters, "active": port.active, "gids": len(port.gids),
        "default_gid": port.gids[0].gid if port.gids else None, "physical_state": port.phys_state,
    }  # fmt: skip


def _chosen(view: View, keys: tuple[str, ...]) -> View:
    return {k: view[k] for k in keys}


def ibstat_view(text: str) -> View:
    found = ib_tools.ibstat(text)
    keys = ("port", "state", "phys_state", "rate_gbps", "link_layer")
    cas = [
        {"ca": d.name, "type": d.hca_type, "fw": d.fw_ver, "ports": [_chosen(_port_view(p), keys) for p in d.ports]}
        | (_port_view(d.ports[0]) | {"base_lid": d.ports[0].lid} if d.ports else {})
        for d in found.devices
    ]
    down = [d.name for d in found.devices if not all(p.active for p in d.ports)]
    compute = {d.name for d in found.rails}
    one = found.devices[0] if found.devices else infiniband.RdmaDevice(name="")
    ports = [(d.name, p) for d in found.devices for p in d.ports]
    return {
        **{str(c["ca"]): c for c in cas}, "error": found.error or None, "ibpanic": bool(found.error),
        "panic": found.error or None,
        "complete": not found.error, "ports": len(ports), "devices": len(cas), "names": [c["ca"] for c in cas],
        "all_active": all(p.active for _, p in ports) and bool(ports), "active": [n for n, p in ports if p.active],
        "polling": [n for n, p in ports if p.phys_state == "Polling"],
        "disabled": [n for n, p in ports if p.phys_state == "Disabled"], "not_active": down,
        "compute_rails": [d.name for d in found.rails], "fw_versions": sorted({d.fw_ver for d in found.devices}),
        "cas": cas, "ca_count": len(cas), "down": down, "compute_rails_down": [n for n in down if n in compute],
        "lid": one.ports[0].lid if one.ports else None, "ca": one.name, "fw": one.fw_ver, "type": one.hca_type,
        **({k: v for k, v in _port_view(one.ports[0]).items() if k != "lid"} if one.ports else {}),
    }  # fmt: skip


def ibstatus_view(text: str) -> View:
    found = ib_tools.ibstatus(text)
    ports = [p for d in found.devices for p in d.ports]
    return {
        "devices": len(found.devices), "all_active": all(p.active for p in ports),
        "nic_legend": ib_tools.nic_legend(text),
        "not_active": [d.name for d in found.devices if not all(p.active for p in d.ports)],
        "down": [d.name for d in found.devices if not all(p.active for p in d.ports)], "ports": len(ports),
        "names": [d.name for d in found.devices],
        **{d.name: _port_view(d.ports[0]) for d in found.devices},
    }  # fmt: skip


def devinfo_view(text: str) -> View:
    devices = ib_tools.ibv_devinfo(text)
    if not devices:
        return {"devices": 0, "hcas": [], "found": False}
    port = devices[0].ports[0] if devices[0].ports else ib_tools.VerbsPort()
    every = {d.name: _verbs_view(d) for d in devices}
    return every | {
        "not_active": [d.name for d in devices if any(p.state != "PORT_ACTIVE" for p in d.ports)],
        "down": [d.name for d in devices if any(p.state == "PORT_DOWN" for p in d.ports)],
        "gid_types": [g.type for g in port.gids], "gid_indexes": [g.index for g in port.gids],
        "ports": len(devices[0].ports), "lid": port.lid, "node_guid": devices[0].node_guid, "fw_ver": devices[0].fw_ver,
        "hca": devices[0].name, "fw": devices[0].fw_ver, "vendor_id": devices[0].vendor_id, "devices": len(devices),
        "board_id": devices[0].board_id, "state": port.state, "phys_state": port.phys_state,
        "link_layer": port.link_layer, "active_mtu": port.active_mtu, "max_mtu": port.max_mtu, "gids": len(port.gids),
        "active_width": port.width, "active_speed_gbps": port.lane_gbps, "rate_gbps": port.rate_gbps,
        "first_gid_index": port.gids[0].index if port.gids else None, "port_lid": port.lid, "sm_lid": port.sm_lid,
        "hcas": [d.name for d in devices],
    }  # fmt: skip


def _verbs_view(device: ib_tools.VerbsDevice) -> View:
    first = device.ports[0] if device.ports else ib_tools.VerbsPort()
    return {
        "fw": device.fw_ver, "fw_ver": device.fw_ver, "board_id": device.board_id, "vendor_id": device.vendor_id,
        "state": first.state, "link_layer": first.link_layer, "port_lid": first.lid, "lid": first.lid,
        "active_mtu": first.active_mtu, "max_mtu": first.max_mtu, "phys_state": first.phys_state,
        "rate_gbps": first.rate_gbps, "gids": len(first.gids),
    }  # fmt: skip


def netdev_view(text: str) -> View:
    rows = ib_tools.ibdev2netdev(text)
    return {
        **{r.device: {**msgspec.to_builtins(r), "state": r.state or ("Up" if r.up else "Down")} for r in rows},
        "devices": len(rows), "rows": len(rows), "lines": len(rows), "ports": len(rows),
        "up": [r.device for r in rows if r.up], "down": [r.device for r in rows if r.up is False],
        "netdevs": [r.netdev for r in rows], "map": {r.device: r.netdev for r in rows},
        "names": [r.device for r in rows], "all_up": all(r.up for r in rows),
    }  # fmt: skip


def devices_view(text: str) -> View:
    found = ib_tools.ibv_devices(text)
    return {"devices": [d.name for d in found], "count": len(found), "guids": {d.name: d.node_guid for d in found}}


def netdiscover_view(text: str) -> View:
    nodes = ib_tools.ibnetdiscover(text)
    if isinstance(nodes[0], ib_tools.FabricNode):
        kinds = [n.type for n in nodes]
        return {
            "nodes": len(nodes), "switches": kinds.count("SW"), "cas": kinds.count("CA"), "name": nodes[0].name,
            "names": [n.name for n in nodes], "first": msgspec.to_builtins(nodes[0]), "guids": [n.guid for n in nodes],
            "lids": [n.lid for n in nodes if isinstance(n, ib_tools.FabricNode)],
        }  # fmt: skip
    ports = ib_tools.ibnetdiscover_ports(text)
    keys = ("type", "lid", "port", "width", "speed", "peer_lid", "peer_port", "guid", "name", "peer_name")
    cabled = [p for p in ports if p.peer_lid is not None]
    return {
        "links": len(cabled), "unconnected_ports": len(ports) - len(cabled), "ports": len(ports),
        "first": {k: getattr(ports[0], k) for k in keys}, "rows": len(ports), "lines": len(ports),
        "cas": len({p.guid for p in ports if p.type == "CA"}),
        "switches": len({p.guid for p in ports if p.type == "SW"}),
        "name": ports[0].name or None, "names": list(dict.fromkeys(p.name for p in ports if p.name)),
        **{k: getattr(ports[0], k) for k in keys if k != "name"},
    }  # fmt: skip


PERF = {
    "xmit_data_words": "PortXmitData", "rcv_data_words": "PortRcvData", "xmit_discards": "PortXmitDiscards",
    "link_downed": "LinkDownedCounter", "link_recovery": "LinkErrorRecoveryCounter",
    "switch_relay_errors": "PortRcvSwitchRelayErrors", "xmit_wait": "PortXmitWait",
    "symbol_errors": "SymbolErrorCounter", "rcv_errors": "PortRcvErrors", "vl15_dropped": "VL15Dropped",
    "local_integrity_errors": "LocalLinkIntegrityErrors",
}  # fmt: skip


def perfquery_view(text: str) -> View:
    blocks = ib_tools.perfquery(text)
    view: View = {"ports": len(blocks), "lid": blocks[0].lid, "port": blocks[0].port}
    for b in blocks:
        own = {snake(c): v for c, v in b.counters.items()}
        own |= {name.removeprefix("port_"): v for name, v in own.items()} | b.counters
        for name, value in (own | {name: b.counters.get(counter) for name, counter in PERF.items()}).items():
            view[f"port{b.port}_{name}"] = value
            view.setdefault(name, value)
    return view


def ibswinfo_view(text: str) -> View:
    values = ib_tools.ibswinfo(text).values
    plain = {snake(k): v for k, v in values.items()}
    psu = {
        k.removesuffix(f"_{unit}"): v for unit in ("w", "c", "rpm") for k, v in plain.items() if k.endswith(f"_{unit}")
    }
    return plain | psu | {
        "psus": sum(k.startswith("PSU") and k.endswith(" status") for k in values),
        "fans": sum(k.startswith("fan#") for k in values),
        "psu0": values.get("PSU0 status"), "psu1": values.get("PSU1 status"), "fan_status": values.get("fan status"),
        "temperature": values.get("temperature (C)"), "firmware": values.get("firmware version"),
    }  # fmt: skip


def sysfs_view(text: str) -> View:
    found = infiniband.sysfs_listing(text)
    view: View = {
        "devices": [d.name for d in found.devices],
        "has_na_counter": any(p.unreadable_counters for d in found.devices for p in d.ports),
    }
    for d in found.devices:
        first = d.ports[0] if d.ports else infiniband.RdmaPort()
        view[d.name] = {
            "fw_ver": d.fw_ver, "board_id": d.board_id, "hca_type": d.hca_type, "fw": d.fw_ver, "ports": len(d.ports),
            **_port_view(first),
        }  # fmt: skip
        for p in d.ports:
            view |= {f"{d.name}_port{p.port}": _port_view(p), f"{d.name.split('_')[0]}_port{p.port}": _port_view(p)}
            for base in (d.name, f"{d.name}_port{p.port}", f"{d.name.split('_')[0]}_port{p.port}"):
                fields = {k: v for k, v in _port_view(p).items() if k != "rate"}
                view |= {f"{base}_{k}": v for k, v in fields.items() if f"{base}_{k}" not in view}
            rate = f"{p.rate_gbps:g} Gb/sec ({p.rate_words})" if p.rate_gbps is not None else ""
            short = d.name.split("_")[0]
            view.setdefault(f"{short}_port{p.port}_rate", rate)
            view.setdefault(f"{short}_rate", rate)
            view.setdefault(f"{short}_port{p.port}_state", p.state)
    return view


def firmware_view(text: str) -> View:
    found = mlx_tools.mlxfwmanager(text)
    one = found[0]
    return {
        "first_pci": one.pci, "type": one.type, "status": one.status, "fw": one.burned, "fw_available": one.available,
        "update_available": one.available is not None and one.available != one.burned,
        "versions": one.versions, "description": one.description, "pcis": [d.pci for d in found],
        "psids": sorted({d.psid for d in found}), "types": sorted({d.type for d in found}),
        "devices": len(found), "device_type": one.type, "psid": one.psid, "part_number": one.part_number,
        "fw_burned": one.burned, "fw_running": one.running, "reset_pending": one.reset_pending, "pci": one.pci,
        "first": {"pci": one.pci, "type": one.type, "psid": one.psid, "fw": one.burned, "status": one.status},
        "fw_versions": sorted({d.burned for d in found if d.burned}),
    }  # fmt: skip


def mst_view(text: str) -> View:
    found = mlx_tools.mst_status(text)
    return {
        "devices": len(found), "pcis": [d.pci for d in found], "mst_devices": [d.mst for d in found],
        **{d.rdma or d.mst: msgspec.to_builtins(d) for d in found},
        "mst_pci_loaded": "MST PCI module loaded" in text, "conf_loaded": "configuration module loaded" in text,
    }  # fmt: skip


def mlxlink_view(text: str) -> View:
    values = mlx_tools.mlxlink(text)
    width: str | int = values.get("Width", "")
    if not text.lstrip().startswith("{") and isinstance(width, str) and width.rstrip("x").isdigit():
        width = int(width.rstrip("x"))
    plain = {snake(k): v for k, v in values.items()}
    short = {k.replace("_physical", ""): v for k, v in plain.items()}  # effective_ber, raw_ber
    units = {re.sub(r"_(min|c|mv|ma|dbm|m)$", "", k): v for k, v in plain.items()}
    return short | units | plain | {
        "state": values.get("State"), "phys_state": values.get("Physical state"), "speed": values.get("Speed"),
        "width": width, "fec": values.get("FEC"),
    }  # fmt: skip


def gids_view(text: str) -> View:
    rows = mlx_tools.show_gids(text)
    v2 = [r for r in rows if r.version.startswith("v2")]
    return {
        "rows": len(rows), "ipv4_present": any(r.ipv4 for r in rows),
        "roce_v2_ipv4": [msgspec.to_builtins(r) for r in v2 if r.ipv4],
        "roce_v2_global": [msgspec.to_builtins(r) for r in v2 if not r.ipv4 and not r.link_local],
        "devices": list(dict.fromkeys(r.dev for r in rows)), "n_gids_found": len(rows), "gids": len(rows),
        "roce_v1": sum(r.version == "v1" for r in rows), "roce_v2": len(v2),
        "link_local": sum(r.link_local for r in rows),
        "netdevs": sorted({r.netdev for r in rows if r.netdev}), "indexes": [r.index for r in rows],
    }  # fmt: skip


def ethtool_view(text: str) -> View:
    e = net_tools.ethtool(text)
    return {snake(k): v for k, v in e.settings.items()} | {
        "lanes": e.settings.get("Lanes"), "speed_gbps": None if e.speed_mbps is None else e.speed_mbps / 1000,
        "link_detected": e.link, "interface": e.name,
        "name": e.name, "speed_mbps": e.speed_mbps, "speed": e.speed, "duplex": e.duplex, "port": e.port,
        "link": e.link, "autoneg": e.autoneg,
    }  # fmt: skip


def driver_view(text: str) -> View:
    values = net_tools.ethtool_driver(text)
    plain = {k: v or None for k, v in values.items()}
    return plain | {snake(k): v for k, v in plain.items()} | {
        "firmware": values.get("firmware-version"), "bus": values.get("bus-info"), "version": values.get("version"),
    }  # fmt: skip


def statistics_view(text: str) -> View:
    counters = net_tools.ethtool_statistics(text)
    nonzero = {k: v for k, v in counters.items() if v}
    return {"counters": len(counters), "count": len(counters), "nonzero": len(nonzero), **counters}


def rdma_link_view(text: str) -> View:
    links = net_tools.rdma_link(text)
    return {
        "links": len(links), "not_active": [r.name for r in links if r.state != "ACTIVE"],
        "all_active": all(r.state == "ACTIVE" for r in links), "active": [r.name for r in links if r.state == "ACTIVE"],
        "names": [r.name for r in links], "netdevs": [r.netdev for r in links],
        **{r.name: msgspec.to_builtins(r) for r in links},
    }  # fmt: skip


def rdma_statistic_view(text: str) -> View:
    found = net_tools.rdma_statistic(text)
    names = [n.rsplit("/", 1)[0] for n in found]
    return {
        "devices": len(names),
        "links": len(names),
        "first": names[0] if names else None,
        "names": names,
        **dict(zip(names, found.values(), strict=True)),
    }


def ip_view(text: str) -> View:
    links = net_tools.ip(text)
    return {
        "interfaces": len(links), "mtus": {i.name: i.mtu for i in links}, "operstate": {i.name: i.state for i in links},
        "mtu": links[0].mtu, "state": links[0].state, "vfs": links[0].vfs, "names": [i.name for i in links],
        **{i.name: msgspec.to_builtins(i) for i in links}, "links": len(links), "name": links[0].name,
        "down": [i.name for i in links if i.state == "DOWN"], "up": [i.name for i in links if i.state == "UP"],
        "masters": {i.name: i.master for i in links if i.master}, "flags": list(links[0].flags),
        "addresses": {i.name: list(i.addresses) for i in links},
        "no_carrier": [i.name for i in links if "NO-CARRIER" in i.flags],
    }  # fmt: skip


# first match wins: the longer name of a command stands before the shorter one
VIEWS: tuple[tuple[str, Callable[[str], View]], ...] = (
    ("ibstatus", ibstatus_view), ("ibstat", ibstat_view), ("ibv_devinfo", devinfo_view),
    ("ibdev2netdev", netdev_view), ("ibv_devices", devices_view),
    ("ibnetdiscover", netdiscover_view), ("perfquery", perfquery_view), ("ibswinfo", ibswinfo_view),
    ("sysfs", sysfs_view), ("mlxfwmanager", firmware_view), ("mst status", mst_view), ("mlxlink", mlxlink_view),
    ("show_gids", gids_view), ("ethtool -i", driver_view), ("ethtool -S", statistics_view), ("ethtool", ethtool_view),
    ("rdma link", rdma_link_view), ("rdma statistic", rdma_statistic_view), ("ip ", ip_view),
)  # fmt: skip


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: f"{p.parent.name}/{p.name.removesuffix('.expected.json')}")
def test_field_output(path: Path) -> None:
    text, expected = pair(path)
    view = next((v for name, v in VIEWS if name in expected["tool"]), None)
    assert view, f"no parser for {expected['tool']}"
    got = view(text)
    for fact, want in expected["facts"].items():
        assert fact in got, f"the view of {expected['tool']} has no fact {fact}"
        assert same(got[fact], want), f"{fact}: {got[fact]!r}, expected {want!r}"
