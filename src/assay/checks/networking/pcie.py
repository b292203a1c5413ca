"""PCIe between GPUs, NICs and the root: peer-to-peer redirection, width, speed, errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.pci import PciDevice, PciTree, links_to_root, switch_path
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.network import Network


def _guest(machine: Virtualisation | Missing) -> bool:
    return isinstance(machine, Virtualisation) and machine.machine == "vm"


def _wide_nics(tree: PciTree, lanes: float) -> list[str]:
    return [a for a, d in tree.nics.items() if (d.max_width or 0) >= lanes]


def gpu_nic_bridges(tree: PciTree, lanes: float) -> tuple[str, ...]:
    """Bridges between every GPU and the NIC nearest to it below a common switch."""
    nearest: dict[str, tuple[int, str]] = {}
    for nic in _wide_nics(tree, lanes):
        for depth, bridge in enumerate(tree.devices[nic].parents):
            nearest[bridge] = min(nearest.get(bridge, (depth, nic)), (depth, nic))
    bridges: dict[str, None] = {}
    for gpu, device in tree.gpus.items():
        common = next((b for b in device.parents if b in nearest), None)
        if common:
            bridges.update(dict.fromkeys(switch_path(tree, gpu, nearest[common][1])))
    return tuple(bridges)


@check(
    "net.pcie.acs",
    category="networking",
    severity="high",
    criteria=("net-pcie-acs",),
    why="With ACS redirection on, traffic from a NIC to a GPU under the same switch makes the detour over the CPU: "
    "GPUDirect loses a large part of its bandwidth, or fails.",
    fix="Turn ACS off in the firmware set-up, or at boot for the named bridges: setpci -s BRIDGE ECAP_ACS+6.w=0000",
)
def acs(tree: PciTree, machine: Virtualisation | Missing, bars: Network) -> Verdict:
    """Looks at ACSCtl of the bridges between each GPU and the NIC nearest to it under a common switch, at no other.

    Fails when one of them redirects requests or completions; warns when it also lets translated requests pass.
    """
    if not tree.gpus:
        return skip("no GPU")
    bridges = gpu_nic_bridges(tree, bars.nic_lanes.value)
    if _guest(machine):
        return skip("virtual machine: the bridges a guest sees are not those the traffic crosses")
    if not bridges:
        return skip("no GPU shares a PCIe switch with a NIC: their traffic meets in the CPU or in the NIC itself")
    if tree.acs != "read":
        return unknown(tree.acs_reason, "failed") if tree.acs == "failed" else skip(tree.acs_reason, tree.acs)
    if all(d.acs is None for d in tree.devices.values() if d.bridge):
        return unknown("no bridge shows an ACSCtl register", "too-little")
    bits = {b: tree.devices[b].acs or () for b in bridges if b in tree.devices}
    return _acs_verdict(bits, bars)


def _acs_verdict(bits: dict[str, tuple[str, ...]], bars: Network) -> Verdict:
    redirecting = bars.acs_redirecting.names
    on = [b for b, acs in bits.items() if any(r in acs for r in redirecting)]
    if not on:
        return ok(f"no redirection on the {len(bits)} bridges between GPUs and NICs", seen=len(bits))
    translated = [b for b in on if "DirectTrans" in bits[b]]
    if len(translated) == len(on):
        return warn(f"ACS redirects all but translated (ATS) requests on {some(on)}", seen=on, expected=[])
    return fail(f"ACS redirects GPU-NIC traffic on {some(on)}", seen=on, expected=[])


def _ends(tree: PciTree, lanes: float) -> Iterator[tuple[str, str, PciDevice, PciDevice]]:
    """Links of GPUs and of NICs with at least `lanes`, to the root: (sort, lower address, lower end, upper end)."""
    seen: set[str] = set()
    for sort, devices in (("GPU", tree.gpus.items()), ("NIC", tree.nics.items())):
        for address, device in devices:
            if sort == "NIC" and (device.max_width or 0) < lanes:
                continue
            for lower, low, high in links_to_root(tree, address):
                if lower not in seen:
                    seen.add(lower)
                    yield (sort if lower == address else "switch above"), lower, low, high


@check(
    "net.pcie.width",
    category="networking",
    severity="high",
    criteria=("exp-hc-pcie",),
    why="A link that trained with fewer lanes halves the bandwidth of the GPU or NIC behind it, for every job.",
    fix="Reseat the card or riser, clean the connector, cold-boot; if the width stays low, replace the part.",
)
def width(tree: PciTree, machine: Virtualisation | Missing, bars: Network) -> Verdict:
    """Fails when a link between a GPU or wide NIC and the root has fewer lanes than both its ends can.

    In a virtual machine only GPUs and NICs of one model are compared with each other.
    """
    if _guest(machine):
        return _siblings(tree)
    narrow, judged = [], 0
    for sort, address, low, high in _ends(tree, bars.nic_lanes.value):
        if low.width is None or low.max_width is None or high.max_width is None:
            continue
        judged += 1
        if low.width < (most := min(low.max_width, high.max_width)):
            narrow.append(f"{sort} {address} x{low.width} of x{most}")
    if narrow:
        return fail(f"narrow PCIe links: {some(narrow)}", seen=narrow)
    if not judged:
        return skip("no PCIe link of a GPU or wide NIC whose two ends are both visible")
    return ok(f"{judged} links of GPUs and NICs have their full width", seen=judged)


def _siblings(tree: PciTree) -> Verdict:
    best: dict[tuple[str, str], int] = {}
    devices = [(a, d) for a, d in chain(tree.gpus.items(), tree.nics.items()) if d.width]
    for _, d in devices:
        best[d.vendor, d.device] = max(best.get((d.vendor, d.device), 0), d.width or 0)
    narrow = [f"{a} x{d.width}" for a, d in devices if (d.width or 0) < best[d.vendor, d.device]]
    if narrow:
        return warn(f"narrower than others of the same model: {some(narrow)}", seen=narrow)
    return ok("all GPUs and NICs of one model have the same width") if devices else skip("no PCIe link is visible")


@check(
    "net.pcie.speed",
    category="networking",
    severity="high",
    criteria=("exp-hc-pcie",),
    why="A NIC whose link trained at a lower generation cannot reach its line rate.",
    fix="Reseat the card, check the slot's generation in the firmware set-up, update card and board firmware.",
)
def speed(tree: PciTree, machine: Virtualisation | Missing, bars: Network) -> Verdict:
    """Fails when the link of a wide NIC is slower than both its ends can. GPUs are left out: they idle slowly."""
    if _guest(machine):
        return skip("virtual machine: the upper end of the link is not the real one")
    slow, judged = [], 0
    for sort, address, low, high in _ends(tree, bars.nic_lanes.value):
        if sort != "NIC" or low.speed_gts is None or low.max_speed_gts is None or high.max_speed_gts is None:
            continue
        judged += 1
        most = min(low.max_speed_gts, high.max_speed_gts)
        if low.speed_gts < most:
            slow.append(f"{address} {low.speed_gts:g} of {most:g} GT/s")
    if slow:
        return fail(f"slow PCIe links of NICs: {some(slow)}", seen=slow)
    return ok(f"{judged} NIC links at full speed", seen=judged) if judged else skip("no wide NIC with a visible link")


@check(
    "net.pcie.errors",
    category="reliability",
    severity="high",
    criteria=("exp-hc-pcie",),
    why="PCIe errors precede GPUs that fall off the bus and NICs that stall.",
    fix="Look at dmesg for AER lines, reseat the card; drain the node and open a case when the count goes on rising.",
)
def errors(tree: PciTree, bars: Network) -> Verdict:
    """Fails on a fatal AER error since boot, warns on a non-fatal one or on a sustained rate of corrected ones."""
    counted = {a: d.aer for a, d in tree.devices.items() if d.aer}
    if not counted:
        return skip("the kernel keeps no AER counters of GPUs, NICs and ports", "absent")
    if fatal := [a for a, n in counted.items() if n.get("fatal")]:
        return fail(f"fatal PCIe errors on {some(fatal)}", seen=fatal)
    if nonfatal := [a for a, n in counted.items() if n.get("nonfatal")]:
        return warn(f"non-fatal PCIe errors on {some(nonfatal)}", seen=nonfatal)
    if tree.uptime_s is None:
        return unknown("without the uptime a count of corrected errors is no rate", "too-little")
    limit = bars.correctable_per_minute.value * max(tree.uptime_s / 60, 1)
    if noisy := [a for a, n in counted.items() if n.get("correctable", 0) > limit]:
        return warn(f"corrected PCIe errors at a high rate on {some(noisy)}", bar=bars.correctable_per_minute.bar())
    return ok(f"no PCIe errors of note on {len(counted)} devices")
