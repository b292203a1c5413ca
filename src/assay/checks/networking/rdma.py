"""The compute network of a node: its class, its ports, their number, firmware and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from assay.checks.alike import alike
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.gpu_pci import GpuPciDevices
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevice, RdmaDevices, top_rate
from assay.facts.netdev import NetDevices
from assay.model import Missing, Verdict
from assay.profiles.network import Network

_NAMES = re.compile(
    r"(mlx[45]_\d+|mlx5_bond_\d+|ib[ps]\w+|roce\w+|bnxt_re\d+|bnxt_re_bond\d+|ionic_\d+|efa_\d+|rdmap\w+|irdma\d+|"
    r"mana_\d+|erdma_\d+|hfi1_\d+|opap\w+|rail\w+|rdma\d+)$"
)
_NONE = "no compute network: no active RDMA port, or a front end only"
_STATES = frozenset({"ACTIVE", "DOWN", "INIT", "ARMED", "ACTIVE_DEFER"})


def gpus_of(presence: GpuPresence | Missing) -> int:
    """GPUs with a driver; 0 where it could not be told."""
    return 0 if isinstance(presence, Missing) else len(presence.nvidia or presence.amd)


def compute_of(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> tuple[RdmaDevice, ...]:
    """The compute network; Ethernet cards that can do RDMA are none on a node without GPUs."""
    compute = rdma.rails
    idle = isinstance(gpus, GpuPresence) and not gpus.any
    return () if compute and idle and fabric_of(compute) == "RoCE" else compute


def fabric_of(devices: tuple[RdmaDevice, ...]) -> str:
    """Class of the compute network, "" where the link layer is not known."""
    first = devices[0]
    named = {"efa": "EFA", "hfi1": "Omni-Path", "erdma": "eRDMA"}.get(first.driver)
    return named or {"InfiniBand": "InfiniBand", "Ethernet": "RoCE"}.get(first.ports[0].link_layer, "")


@check(
    "net.fabric.class",
    category="networking",
    severity="high",
    criteria=("net-ib-or-roce", "net-fabric-class"),
    why="Training over several nodes needs an RDMA network; over plain Ethernet it runs at a small fraction.",
    fix="Load the NIC's RDMA driver (mlx5_ib, bnxt_re, ionic_rdma, efa) and bring the back-end ports up.",
)
def fabric_class(
    rdma: RdmaDevices | Missing, gpus: GpuPresence | Missing, nets: NetDevices | Missing, bars: Network
) -> Verdict:
    """Names the compute network from the RDMA devices; warns when a node with eight GPUs has none."""
    if isinstance(rdma, Missing):
        count = gpus_of(gpus)
        if rdma.kind != "absent" or count < bars.gpus_with_fabric.value:
            return missing(rdma)
        if isinstance(nets, NetDevices) and any(d.driver == "gve" for d in nets.devices.values()):
            return skip("gVNIC without RDMA devices: GPU traffic goes through GPUDirect-TCPX or TCPXO")
        return warn(f"{count} GPUs and no RDMA device", seen=0, bar=bars.gpus_with_fabric.bar())
    compute = compute_of(rdma, gpus)
    if not compute:
        return skip("RDMA devices are there, but no active port of a compute network", "absent")
    name = fabric_of(compute)
    if not name:
        return unknown(f"link layer {compute[0].ports[0].link_layer!r} of {compute[0].name}")
    return ok(f"{name}: {len(compute)} x {top_rate(compute) or 0:g} Gb/s", seen=name)


@check(
    "net.rdma.ports",
    category="networking",
    severity="critical",
    criteria=("exp-hc-ib-health", "life-fabric-driver-ready"),
    why="A job that gets a node with a dead rail hangs, or every rank waits for the slowest node.",
    fix="Polling: check cable, transceiver and switch port. Disabled: enable the port. Init or Armed: look at the "
    "subnet manager. Keep the node out of scheduling until it is up.",
)
def ports(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> Verdict:
    """Fails when a port of the compute network is not active.

    The compute network is the largest set of like devices at the highest rate; unused front-end ports do not count.
    """
    compute = compute_of(rdma, gpus)
    if not compute:
        own = [d for d in rdma.devices if not d.virtual]
        if gpus_of(gpus) and own and top_rate(own) is None:
            return fail(f"none of the {len(own)} RDMA devices has an active port")
        return skip(_NONE)
    odd = [f"{d.name} {p.state!r}" for d in compute for p in d.ports if p.state.upper() not in _STATES]
    down = [f"{d.name} {p.state} ({p.phys_state})" for d in compute for p in d.ports if not p.active]
    if odd:
        return unknown(f"port states that no rule knows: {some(odd)}", seen=odd)
    if down:
        return fail(f"{len(down)} of {len(compute)} compute ports not active: {some(down)}", seen=down)
    return ok(f"{len(compute)} compute ports active", seen=len(compute))


@check(
    "net.rdma.rate",
    category="networking",
    severity="high",
    criteria=("exp-hc-ib-health",),
    why="One rail at half rate slows every collective to its pace.",
    fix="Check the cable, the transceiver and the speed set on the switch port; compare with a healthy rail.",
)
def rate(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> Verdict:
    """Fails when an active port of the compute network is slower than the fastest one of its kind on the node."""
    compute = compute_of(rdma, gpus)
    top = top_rate(compute)
    if top is None:
        return skip(_NONE)
    slow = [f"{d.name} {p.rate_gbps:g}" for d in compute for p in d.ports if p.active and (p.rate_gbps or top) < top]
    if slow:
        return fail(f"slower than their siblings at {top:g} Gb/s: {some(slow)}", seen=slow, expected=top)
    return ok(f"all compute ports at {top:g} Gb/s", seen=top)


@check(
    "net.rdma.count",
    category="networking",
    severity="high",
    criteria=("life-fabric-driver-ready",),
    why="A NIC that fell off the bus leaves a GPU without a rail; NCCL shares another one and slows down.",
    fix="Compare lspci with a healthy node, reseat or replace the card, drain the node meanwhile.",
)
def count(rdma: RdmaDevices, gpus: GpuPresence) -> Verdict:
    """Warns when the number of NICs fits no pattern of the GPUs: fewer and no divisor, or one short of 2x or 4x.

    NICs are all devices of the compute network's type at its rate, whatever board they are.
    """
    total = gpus_of(gpus)
    compute = compute_of(rdma, gpus)
    if not total or not compute:
        return skip("no GPUs, or no compute network")
    one = compute[0]
    kind = (one.driver, one.hca_type, one.ports[0].link_layer, top_rate(compute))
    alike = {d.name for d in compute} | {
        d.name
        for d in rdma.devices
        if d.ports and not d.virtual and (d.driver, d.hca_type, d.ports[0].link_layer, top_rate((d,))) == kind
    }
    nics = len(alike)
    if (nics < total and total % nics) or nics + 1 in (2 * total, 4 * total):
        return warn(f"{nics} compute NICs for {total} GPUs: one or more seem to be missing", seen=nics)
    return ok(f"{nics} compute NICs for {total} GPUs", seen=nics)


@check(
    "net.rdma.uniform",
    category="networking",
    severity="high",
    criteria=("life-fabric-driver-ready",),
    why="A node with fewer or slower rails than the others sets the pace of every job that gets it.",
    fix="Find the missing or slow NIC of the named nodes (lspci, ibstat) and repair it.",
)
def uniform(fleet: Fleet[RdmaDevices], gpus: Fleet[GpuPciDevices]) -> Verdict:
    """Compares nodes with the same number of GPUs of the same model: number and rate of their NICs must not differ."""
    kinds: dict[str, dict[str, str]] = {}
    for node, rdma in fleet.items():
        found = gpus[node].gpus if node in gpus else ()
        if found and rdma.rails:
            shape = f"{len(rdma.rails)} x {top_rate(rdma.rails) or 0:g} Gb/s"
            kinds.setdefault(f"{len(found)} x GPU {found[0].device}", {})[node] = shape
    return alike("compute network", kinds, fail, nobody="no GPU node has a compute network")


def _firmware(devices: Iterable[RdmaDevice]) -> dict[str, Counter[str]]:
    """Board -> firmware -> number of devices; devices that name neither board nor firmware are left out."""
    boards: dict[str, Counter[str]] = {}
    for d in devices:
        if d.fw_ver and not d.virtual and (board := d.board_id or d.hca_type):
            boards.setdefault(board, Counter())[d.fw_ver] += 1
    return boards


@check(
    "net.rdma.firmware",
    category="networking",
    severity="medium",
    why="Mixed NIC firmware makes rails behave differently and faults hard to pin down.",
    fix="Bring all cards of one board to the same firmware (mlxfwmanager or the vendor's tool) and reset them.",
)
def firmware(rdma: RdmaDevices) -> Verdict:
    """Warns when cards of one board on one node run different firmware."""
    boards = _firmware(rdma.devices)
    if not boards:
        return skip("no device names its firmware", "absent")
    mixed = {b: sorted(v) for b, v in boards.items() if len(v) > 1}
    if mixed:
        return warn("; ".join(f"{b}: {', '.join(v)}" for b, v in sorted(mixed.items())), seen=mixed)
    return ok("one firmware per board", seen={b: next(iter(v)) for b, v in boards.items()})


@check(
    "net.rdma.firmware.uniform",
    category="networking",
    severity="medium",
    why="Nodes with other NIC firmware are the ones that show faults nobody can reproduce.",
    fix="Bring the odd nodes to the firmware of the majority.",
)
def firmware_uniform(fleet: Fleet[RdmaDevices]) -> Verdict:
    """Warns when cards of one board run different firmware on different nodes."""
    boards: dict[str, dict[str, str]] = {}
    for node, rdma in fleet.items():
        for board, versions in _firmware(rdma.devices).items():
            boards.setdefault(board, {})[node] = ", ".join(sorted(versions))
    return alike("NIC firmware", boards, nobody="no device names its firmware")


@check(
    "net.rdma.naming",
    category="networking",
    severity="low",
    criteria=("net-hca-naming",),
    why="NCCL_IB_HCA and golden recipes choose rails by name; names nobody expects make them choose wrongly.",
    fix="Use the kernel's or rdma-core's persistent names (/etc/udev/rules.d/60-rdma-persistent-naming.rules).",
)
def naming(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> Verdict:
    """Warns when a compute device has a name that is neither the driver's nor a persistent one of rdma-core."""
    compute = compute_of(rdma, gpus)
    odd = [d.name for d in compute if not _NAMES.match(d.name)]
    if not compute:
        return skip(_NONE)
    if odd:
        return warn(f"unusual device names, NCCL_IB_HCA has to name them: {some(odd)}", seen=odd)
    return ok(f"{compute[0].name} ... {compute[-1].name}", seen=[d.name for d in compute])


@check(
    "net.rdma.uverbs",
    category="networking",
    severity="high",
    criteria=("life-fabric-driver-ready", "orch-rdma-device-mode"),
    why="Without its device file user space cannot open the NIC: NCCL falls back to sockets without an error.",
    fix="modprobe ib_uverbs, check udev; in a container pass /dev/infiniband; the mode should be 0666.",
)
def uverbs(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> Verdict:
    """Fails when a compute device has no /dev/infiniband/uverbs file or this user may not read and write it."""
    compute = compute_of(rdma, gpus)
    if not compute:
        return skip(_NONE)
    absent = [d.name for d in compute if d.uverbs is None or d.uverbs_access is None]
    shut = [d.name for d in compute if d.uverbs_access is not None and not {"r", "w"} <= set(d.uverbs_access)]
    if absent:
        return fail(f"no device file for {some(absent)}", seen=absent)
    if shut:
        return fail(f"this user may not open the device files of {some(shut)}", seen=shut)
    return ok(f"{len(compute)} device files can be opened", seen=len(compute))
