"""Field outputs of lspci: every expected fact has a name in a view and agrees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import lspci
from field_facts import FIELD, pair, same

EXPECTED = sorted((FIELD / "lspci").glob("*.expected.json"))
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
        "gone_devices": [d.slot for d in devices if d.gone], "kind": first.kind, "class": first.kind,
        "id": first.id or None, "device_id": first.id[5:] or None, "bdfs": [d.slot for d in devices],
        "max_payload": first.max_payload_b, "max_payload_b": first.max_payload_b,
        "max_read_request": first.max_read_request_b, "max_read_request_b": first.max_read_request_b,
        "max_read_req": first.max_read_request_b, "iommu_group": first.iommu_group,
        "gpu_names": [d.name for d in gpus], "gpu_ids": sorted({d.id for d in gpus}),
        "nvswitch_bdfs": [d.slot for d in switches], "nic_bdfs": [d.slot for d in nics],
        "infiniband_controllers": sum(d.kind_id == "0207" or d.kind == "Infiniband controller" for d in devices),
        "link_max": _link(first.link_max), "link": _link(first.link), "lnk_cap": _link(first.link_max),
        "lnk_sta": _link(first.link),
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
    view: View = {
        "records": len(records), "devices": len(records), "first_slot": records[0]["Slot"][0],
        "slots": [r["Slot"][0] for r in records], "drivers": sorted({d for r in records for d in r.get("Driver", ())}),
        "without_driver": [r["Slot"][0] for r in records if "Driver" not in r],
    }  # fmt: skip
    for r in records:
        view[f"modules_of_{r['Slot'][0]}"] = list(r.get("Module", ()))
        view[f"driver_of_{r['Slot'][0]}"] = _first_of(r.get("Driver", ()))
        for key, values in r.items():
            view.setdefault(f"{key.lower()}_of_{r['Slot'][0]}", _first_of(values))
            view.setdefault(f"first_{key.lower()}", _first_of(values))
    return view


def tree_view(text: str) -> View:
    nodes = lspci.lspci_tree(text)
    gpus = [n for n in nodes if n.name.startswith(("NVIDIA", "Advanced Micro")) and "Audio" not in n.name]
    return {
        "roots": list(dict.fromkeys(n.root for n in nodes)),
        "gpu_bus": gpus[0].bus if gpus else None, "gpu_buses": [n.bus for n in gpus], "devices": len(nodes),
    }  # fmt: skip


# first match wins: the longer name of a command stands before the shorter one
VIEWS: tuple[tuple[str, Callable[[str], View]], ...] = (
    ("lspci -vmm", machine_view), ("lspci -t", tree_view), ("lspci", lspci_view),
)  # fmt: skip


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_field_output(path: Path) -> None:
    text, expected = pair(path)
    got = next(v for name, v in VIEWS if name in expected["tool"])(text)
    for fact, want in expected["facts"].items():
        if (path.name, fact) in WRONG:
            continue
        assert fact in got, f"the view of {expected['tool']} has no fact {fact}"
        assert same(got[fact], want), f"{fact}: {got[fact]!r}, expected {want!r}"
