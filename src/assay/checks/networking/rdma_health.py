"""Link errors, flaps, partition keys, and what RoCE needs."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.networking.rdma import compute_of, fabric_of
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevice, RdmaDevices, RdmaPort
from assay.facts.netdev import NetDevice, NetDevices
from assay.model import Missing, Verdict
from assay.profiles.network import Network

_ERRORS = ("symbol_error", "port_rcv_errors")
_DAY = 86400.0
_HOUR = 3600.0


def _counted(rdma: RdmaDevices) -> list[tuple[RdmaDevice, RdmaPort]]:
    return [(d, p) for d in rdma.rails for p in d.ports if p.counters]


def _no_counters(rdma: RdmaDevices) -> Verdict:
    compute = rdma.rails
    if not compute:
        return skip("no active RDMA port")
    if compute[0].driver == "efa":
        return skip("EFA has no link counters")
    return unknown(f"no link counter of {compute[0].name} is readable", "too-little")


@check(
    "net.rdma.errors",
    category="reliability",
    severity="high",
    criteria=("exp-hc-ib-health",),
    why="Symbol and receive errors cost retransmissions; a cable that shows them is about to flap.",
    fix="Clean or replace the cable or transceiver of the named port; clear the counters and watch for an hour.",
)
def errors(rdma: RdmaDevices, bars: Network) -> Verdict:
    """Warns when symbol or receive errors of a compute port exceed the budget per hour, averaged since boot."""
    counted = _counted(rdma)
    if not counted:
        return _no_counters(rdma)
    if rdma.uptime_s is None:
        return unknown("without the uptime a count is no rate", "too-little")
    limit = bars.symbol_errors_per_hour.value * max(rdma.uptime_s / _HOUR, 1)
    bad = [f"{d.name} {e}" for d, p in counted for e in _ERRORS if p.counters.get(e, 0) > limit]
    if bad:
        return warn(f"link errors above the budget: {some(bad)}", seen=bad, bar=bars.symbol_errors_per_hour.bar())
    return ok(f"link errors of {len(counted)} compute ports within the budget", bar=bars.symbol_errors_per_hour.bar())


def flap_verdict(downs: dict[str, int], uptime_s: float | None, bars: Network) -> Verdict:
    """The verdict on link losses since boot: port -> number."""
    days = max((uptime_s or 0) / _DAY, 1)
    often = [n for n, d in downs.items() if d / days >= bars.flaps_per_day.value]
    some_times = [n for n, d in downs.items() if d > bars.flaps_tolerated.value]
    if often:
        return fail(f"flapping links: {some(often)}", seen=downs, bar=bars.flaps_per_day.bar())
    if some_times:
        return warn(f"links that went down since boot: {some(some_times)}", seen=downs, bar=bars.flaps_tolerated.bar())
    return ok(f"no flapping among {len(downs)} links", bar=bars.flaps_tolerated.bar())


@check(
    "net.rdma.flaps",
    category="reliability",
    severity="high",
    criteria=("exp-hc-link-flaps", "rel-no-link-flaps"),
    why="A compute link that goes down, if only for a second, aborts every job that uses it.",
    fix="Look at dmesg and the switch log for the port, replace cable or transceiver, keep the node out until quiet.",
)
def flaps(rdma: RdmaDevices, bars: Network) -> Verdict:
    """Judges link_downed of the compute ports: a few since boot pass, more warn, five a day on average fail."""
    downs = {d.name: p.counters["link_downed"] for d, p in _counted(rdma) if "link_downed" in p.counters}
    return flap_verdict(downs, rdma.uptime_s, bars) if downs else _no_counters(rdma)


def _pkeys(rdma: RdmaDevices) -> dict[tuple[str, ...], list[str]]:
    """Sets of partition keys of the InfiniBand rails -> devices."""
    found: dict[tuple[str, ...], list[str]] = {}
    for d in rdma.rails:
        for p in d.ports:
            if p.link_layer == "InfiniBand" and p.active and d.driver not in ("hfi1", "efa"):
                found.setdefault(tuple(sorted(p.pkeys)), []).append(d.name)
    return found


@check(
    "net.ib.pkeys",
    category="networking",
    severity="high",
    criteria=("exp-hc-ib-health",),
    why="A rail in another partition cannot reach its peers: jobs hang at the first collective.",
    fix="Put all rails of the node into the same partition in the subnet manager.",
)
def pkeys(rdma: RdmaDevices) -> Verdict:
    """Fails when the InfiniBand rails of a node do not have the same set of partition keys."""
    sets = _pkeys(rdma)
    if not sets:
        return skip("no active InfiniBand port")
    if () in sets:
        return unknown(f"no partition key is readable on {some(sets[()])}", "too-little")
    if len(sets) > 1:
        rare = min(sets.items(), key=lambda item: len(item[1]))
        return fail(f"partition keys differ between rails: {some(rare[1])} have {' '.join(rare[0])}", seen=len(sets))
    return ok(f"all InfiniBand rails have {' '.join(next(iter(sets)))}", seen=list(next(iter(sets))))


@check(
    "net.ib.pkeys.uniform",
    category="networking",
    severity="high",
    criteria=("exp-hc-ib-health",),
    why="Nodes in different partitions cannot talk to each other.",
    fix="Put all nodes of the cluster into the same partition in the subnet manager.",
)
def pkeys_uniform(fleet: Fleet[RdmaDevices], gpus: Fleet[GpuPresence]) -> Verdict:
    """Warns when GPU nodes have different sets of partition keys."""
    keys: dict[str, str] = {}
    for node, rdma in fleet.items():
        if node in gpus and gpus[node].any and (sets := _pkeys(rdma)):
            keys[node] = " ".join(next(iter(sets))) or "none"
    return alike("partition keys", {"": keys}, nobody="no GPU node has an active InfiniBand port")


@check(
    "net.ib.partition",
    category="security",
    severity="medium",
    criteria=("sec-ib-pkeys", "net-ib-tenant-isolation"),
    why="A full member of the default partition can talk to every node of the subnet, other tenants' included.",
    fix="Ask the provider for a partition of your own; the default key should be limited (0x7fff) on tenant ports.",
)
def partition(rdma: RdmaDevices) -> Verdict:
    """Warns when the only key of the InfiniBand rails is 0xffff; fine on a fabric that nobody else uses."""
    keys = {k for pair in _pkeys(rdma) for k in pair}
    if not keys:
        return skip("no active InfiniBand port with readable partition keys")
    own = sorted(k for k in keys if k.lower() not in ("0xffff", "0x7fff"))
    if "0xffff" in keys and not own:
        return warn("full member of the default partition and of no other", seen=sorted(keys))
    if "0xffff" in keys:
        return warn(f"in {' '.join(own)}, but also a full member of the default partition", seen=sorted(keys))
    return ok(f"partition {' '.join(own)}" if own else "limited member of the default partition", seen=sorted(keys))


def _roce(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> tuple[RdmaDevice, ...]:
    compute = compute_of(rdma, gpus)
    return compute if compute and fabric_of(compute) == "RoCE" else ()


@check(
    "net.roce.gid",
    category="networking",
    severity="high",
    criteria=("net-nccl-conf-gid", "life-fabric-driver-ready"),
    why="Without a routable RoCE v2 GID the rail only reaches its own segment, or nothing.",
    fix="Give every rail interface an IPv4 (or global IPv6) address; show_gids or rdma link must then list a v2 entry.",
)
def gid(rdma: RdmaDevices, gpus: GpuPresence | Missing) -> Verdict:
    """Fails when some RoCE rails lack a routable RoCE v2 GID that others have; warns when all lack it."""
    compute = _roce(rdma, gpus)
    if not compute:
        return skip("no active RoCE port")
    gids = {d.name: [g for p in d.ports for g in p.gids] for d in compute if any(p.active for p in d.ports)}
    if all(not g.type for entries in gids.values() for g in entries):
        return unknown("the kernel does not tell the types of the GIDs", "too-little")
    without = [n for n, es in gids.items() if not any(e.type == "RoCE v2" and not e.link_local for e in es)]
    if without and len(without) == len(gids):
        return warn("no rail has a routable RoCE v2 GID in this name space", seen=without)
    if without:
        return fail(f"no routable RoCE v2 GID on {some(without)}", seen=without)
    return ok(f"routable RoCE v2 GIDs on {len(gids)} rails")


@check(
    "net.roce.mtu",
    category="networking",
    severity="medium",
    criteria=("life-fabric-driver-ready",),
    why="A rail with a small MTU sends more packets for the same data; rails with different MTUs may not connect.",
    fix="ip link set dev RAIL mtu 9000 (or 4200) on all rails, persistently, and the same on the switches.",
)
def mtu(rdma: RdmaDevices, nets: NetDevices, gpus: GpuPresence | Missing, bars: Network) -> Verdict:
    """Fails when the RoCE rails have different MTUs; warns when they are below what an RDMA MTU of 4096 needs."""
    mtus = {n: d.mtu for n, d in _rail_interfaces(_roce(rdma, gpus), nets).items() if d.mtu}
    if not mtus:
        return skip("no RoCE rail with an interface in this name space")
    values = sorted(set(mtus.values()))
    if len(values) > 1:
        return fail(f"rails with different MTUs: {', '.join(map(str, values))}", seen=mtus)
    if values[0] < bars.roce_mtu.value:
        return warn(f"MTU {values[0]} on the RoCE rails", seen=values[0], bar=bars.roce_mtu.bar())
    return ok(f"MTU {values[0]} on {len(mtus)} RoCE rails", seen=values[0], bar=bars.roce_mtu.bar())


def _rail_interfaces(roce: tuple[RdmaDevice, ...], nets: NetDevices) -> dict[str, NetDevice]:
    names = [n for d in roce if any(p.active for p in d.ports) for n in d.netdevs]
    return {n: nets.devices[n] for n in names if n in nets.devices and nets.devices[n].carrier is not False}


@check(
    "net.roce.mtu.uniform",
    category="networking",
    severity="medium",
    criteria=("life-fabric-driver-ready",),
    why="Two nodes with different MTUs negotiate the smaller one, or lose packets silently.",
    fix="Set the MTU of the majority on the odd nodes, persistently.",
)
def mtu_uniform(rdma: Fleet[RdmaDevices], nets: Fleet[NetDevices], gpus: Fleet[GpuPresence]) -> Verdict:
    """Fails when the MTU of the RoCE rails differs between GPU nodes."""
    mtus: dict[str, str] = {}
    for node, devices in rdma.items():
        if node in nets and node in gpus:
            rails = _rail_interfaces(_roce(devices, gpus[node]), nets[node]).values()
            if found := {d.mtu for d in rails if d.mtu}:
                mtus[node] = ", ".join(map(str, sorted(found)))
    return alike("MTU", {"": mtus}, fail, nobody="no node has a RoCE rail with an interface")
