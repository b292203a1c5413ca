"""Field outputs of PCI, InfiniBand, Ethernet and NIC tools: every expected fact has a name in a view and agrees."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import ib_tools, infiniband, lspci, mlx_tools, net_tools

FIELD = Path(__file__).resolve().parents[3] / "shared/field"
FOLDERS = ("lspci", "infiniband", "sysfs-infiniband", "mlx-tools", "ethtool-ip-rdma")
EXPECTED = sorted(p for f in FOLDERS for p in (FIELD / f).glob("*.expected.json"))
if not EXPECTED:
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG: dict[tuple[str, str], str] = {
    ("08-gb200-compute-tray.expected.json", "lines"): "the file has 87 device lines; the last one lacks its newline",
}
View = dict[str, Any]


def _link(link: lspci.Link | None) -> View | None:
    return None if link is None else {k: v for k, v in msgspec.to_builtins(link).items() if v is not None}


def _first_of(values: Any) -> Any:
    return next(iter(values), None)


def lspci_view(text: str) -> View:
    devices = lspci.lspci(text)
    gpus = [d for d in devices if d.gpu]
    switches = [d for d in devices if d.nvswitch]
    nics = [d for d in devices if d.nic]
    first = devices[0]
    return {
        "bdf": first.slot, "role": first.role, "name": first.name, "driver": first.driver or None,
        "slot": int(first.physical_slot) if first.physical_slot.isdigit() else first.physical_slot or None,
        "numa_node": first.numa_node, "revision": first.revision,
        "lnkcap": _link(first.link_max), "lnksta": _link(first.link),
        "lnksta_downgraded": lspci.downgraded(first), "downgraded": lspci.downgraded(first),
        "acsctl_on": None if first.acs_on is None else list(first.acs_on),
        **{f"{r.lower()}_set": list(first.registers.get(r, ())) for r in ("CESta", "UESta", "DevSta")},
        "dpc_triggered": "Trigger" in first.registers["DpcSta"] if "DpcSta" in first.registers else None,
        "access_denied": any(d.denied for d in devices), "gone": first.gone,
        "lines": len(devices), "devices": len(devices),
        "gpus": [d.slot for d in gpus] , "gpu_count": len(gpus),
        "gpu_bdf": gpus[0].slot if gpus else None, "gpu_id": gpus[0].id if gpus else None,
        "gpu_device": (gpus[0].id[5:] or gpus[0].name.split("Device ")[-1].split(" ")[0]) if gpus else None,
        "nvswitches": len(switches), "nvswitch_id": switches[0].id if switches else None,
        "ib_controllers": sum(d.kind_id == "0207" or d.kind == "Infiniband controller" for d in devices),
        "ethernet_controllers": sum(d.kind_id == "0200" or d.kind == "Ethernet controller" for d in devices),
        "nics": len(nics), "vendor_device": nics[0].id if nics else first.id,
        "functions_rev_ff": sum(d.gone for d in devices), "domains": sorted({d.slot[:-8] for d in devices}),
    }  # fmt: skip


def machine_view(text: str) -> View:
    records = lspci.lspci_machine(text)
    view: View = {"records": len(records), "first_slot": records[0]["Slot"][0]}
    for r in records:
        view[f"modules_of_{r['Slot'][0]}"] = list(r.get("Module", ()))
        view[f"driver_of_{r['Slot'][0]}"] = _first_of(r.get("Driver", ()))
    return view


def tree_view(text: str) -> View:
    nodes = lspci.lspci_tree(text)
    gpus = [n for n in nodes if n.name.startswith(("NVIDIA", "Advanced Micro")) and "Audio" not in n.name]
    return {
        "roots": list(dict.fromkeys(n.root for n in nodes)),
        "gpu_bus": gpus[0].bus if gpus else None, "gpu_buses": [n.bus for n in gpus], "devices": len(nodes),
    }  # fmt: skip


def _port_view(port: infiniband.RdmaPort) -> View:
    width, _, speed = port.rate_words.partition(" ")
    return {
        "port": port.port, "state": port.state, "phys_state": port.phys_state, "rate_gbps": port.rate_gbps,
        "width": width or None, "speed": speed or None, "link_layer": port.link_layer, "rate": port.rate_words,
        "lid": port.lid, "base_lid": None if port.lid is None else hex(port.lid),
        "sm_lid": None if port.sm_lid is None else hex(port.sm_lid), **port.counters,
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
    one = found.devices[0]
    return {
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
        **{d.name: _port_view(d.ports[0]) for d in found.devices},
    }  # fmt: skip


def devinfo_view(text: str) -> View:
    devices = ib_tools.ibv_devinfo(text)
    port = devices[0].ports[0]
    return {
        "hca": devices[0].name, "fw": devices[0].fw_ver, "vendor_id": devices[0].vendor_id, "devices": len(devices),
        "board_id": devices[0].board_id, "state": port.state, "phys_state": port.phys_state,
        "link_layer": port.link_layer, "active_mtu": port.active_mtu, "max_mtu": port.max_mtu, "gids": len(port.gids),
        "active_width": port.width, "active_speed_gbps": port.lane_gbps, "rate_gbps": port.rate_gbps,
        "first_gid_index": port.gids[0].index if port.gids else None, "port_lid": port.lid, "sm_lid": port.sm_lid,
        "hcas": [d.name for d in devices],
    }  # fmt: skip


def netdiscover_view(text: str) -> View:
    ports = ib_tools.ibnetdiscover_ports(text)
    keys = ("type", "lid", "port", "width", "speed", "peer_lid", "peer_port", "guid", "name", "peer_name")
    cabled = [p for p in ports if p.peer_lid is not None]
    return {
        "links": len(cabled), "unconnected_ports": len(ports) - len(cabled), "ports": len(ports),
        "first": {k: getattr(ports[0], k) for k in keys},
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
        for name, counter in PERF.items():
            view[f"port{b.port}_{name}"] = b.counters.get(counter)
            view.setdefault(name, b.counters.get(counter))
    return view


def ibswinfo_view(text: str) -> View:
    values = ib_tools.ibswinfo(text).values
    plain = {k.lower().replace(" ", "_"): v for k, v in values.items()}
    return plain | {
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
        view[d.name] = {"fw_ver": d.fw_ver, "board_id": d.board_id, "hca_type": d.hca_type, **_port_view(d.ports[0])}
        for p in d.ports:
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
        "devices": len(found), "device_type": one.type, "psid": one.psid, "part_number": one.part_number,
        "fw_burned": one.burned, "fw_running": one.running, "reset_pending": one.reset_pending, "pci": one.pci,
        "first": {"pci": one.pci, "type": one.type, "psid": one.psid, "fw": one.burned, "status": one.status},
        "fw_versions": sorted({d.burned for d in found if d.burned}),
    }  # fmt: skip


def mst_view(text: str) -> View:
    found = mlx_tools.mst_status(text)
    return {"devices": len(found), **{d.rdma: msgspec.to_builtins(d) for d in found}}


def mlxlink_view(text: str) -> View:
    values = mlx_tools.mlxlink(text)
    width: str | int = values.get("Width", "")
    if not text.lstrip().startswith("{") and isinstance(width, str) and width.rstrip("x").isdigit():
        width = int(width.rstrip("x"))
    return {k.lower().replace(" ", "_"): v for k, v in values.items()} | {
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
        "devices": list(dict.fromkeys(r.dev for r in rows)),
    }  # fmt: skip


def ethtool_view(text: str) -> View:
    e = net_tools.ethtool(text)
    return {
        "name": e.name, "speed_mbps": e.speed_mbps, "speed": e.speed, "duplex": e.duplex, "port": e.port,
        "link": e.link, "autoneg": e.autoneg,
    }  # fmt: skip


def driver_view(text: str) -> View:
    values = net_tools.ethtool_driver(text)
    return {k: v or None for k, v in values.items()} | {
        "firmware": values.get("firmware-version"), "bus": values.get("bus-info"), "version": values.get("version"),
    }  # fmt: skip


def statistics_view(text: str) -> View:
    counters = net_tools.ethtool_statistics(text)
    return {"counters": len(counters), **counters}


def rdma_link_view(text: str) -> View:
    links = net_tools.rdma_link(text)
    return {
        "links": len(links), "not_active": [r.name for r in links if r.state != "ACTIVE"],
        **{r.name: msgspec.to_builtins(r) for r in links},
    }  # fmt: skip


def rdma_statistic_view(text: str) -> View:
    found = net_tools.rdma_statistic(text)
    names = [n.rsplit("/", 1)[0] for n in found]
    return {"devices": len(names), "first": names[0], **dict(zip(names, found.values(), strict=True))}


def ip_view(text: str) -> View:
    links = net_tools.ip(text)
    return {
        "interfaces": len(links), "mtus": {i.name: i.mtu for i in links}, "operstate": {i.name: i.state for i in links},
        "mtu": links[0].mtu, "state": links[0].state, "vfs": links[0].vfs, "names": [i.name for i in links],
    }  # fmt: skip


# first match wins: the longer name of a command stands before the shorter one
VIEWS: tuple[tuple[str, Callable[[str], View]], ...] = (
    ("lspci -vmm", machine_view), ("lspci -t", tree_view), ("lspci", lspci_view),
    ("ibstatus", ibstatus_view), ("ibstat", ibstat_view), ("ibv_devinfo", devinfo_view),
    ("ibnetdiscover", netdiscover_view), ("perfquery", perfquery_view), ("ibswinfo", ibswinfo_view),
    ("sysfs", sysfs_view), ("mlxfwmanager", firmware_view), ("mst status", mst_view), ("mlxlink", mlxlink_view),
    ("show_gids", gids_view), ("ethtool -i", driver_view), ("ethtool -S", statistics_view), ("ethtool", ethtool_view),
    ("rdma link", rdma_link_view), ("rdma statistic", rdma_statistic_view), ("ip ", ip_view),
)  # fmt: skip


def same(got: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and same(got[k], v) for k, v in want.items())
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(got, list) and isinstance(want, int):
        return len(got) == want
    if isinstance(got, bool) and isinstance(want, str):
        return got is (want == "yes")
    return bool(got == want)


def _case(path: Path) -> tuple[Path, dict[str, Any]]:
    stem = path.name.removesuffix(".expected.json")
    data = next(p for p in path.parent.iterdir() if p.name.startswith(stem + ".") and p != path)
    return data, json.loads(path.read_text())


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: f"{p.parent.name}/{p.name.removesuffix('.expected.json')}")
def test_field_output(path: Path) -> None:
    data, expected = _case(path)
    view = next((v for name, v in VIEWS if name in expected["tool"]), None)
    assert view, f"no parser for {expected['tool']}"
    got = view(data.read_text())
    for fact, want in expected["facts"].items():
        if (path.name, fact) in WRONG:
            continue
        assert fact in got, f"the view of {expected['tool']} has no fact {fact}"
        assert same(got[fact], want), f"{fact}: {got[fact]!r}, expected {want!r}"
