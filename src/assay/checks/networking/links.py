"""Ethernet interfaces: dead links, flaps, bonds, broken frames."""

from __future__ import annotations

from collections.abc import Iterator

from assay.checks.networking.rdma_health import flap_verdict
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.netdev import NetDevice, NetDevices
from assay.model import Verdict
from assay.profiles.network import Network

_ETHERNET, _INFINIBAND = 1, 32
_MILLION = 1_000_000


def _real(nets: NetDevices) -> Iterator[tuple[str, NetDevice]]:
    """Interfaces of real cards: on a bus, with a driver, no virtual functions."""
    for name, d in nets.devices.items():
        if d.physical and d.driver and d.pci and not d.virtual and d.type in (_ETHERNET, _INFINIBAND):
            yield name, d


@check(
    "net.links.dead",
    category="networking",
    severity="medium",
    criteria=("exp-hc-link-flaps",),
    why="A link that was up and is down now, while the interface is still enabled, is a fault that nothing watches.",
    fix="Check cable and switch port; if the port is not meant to be used, disable the interface.",
)
def dead(nets: NetDevices) -> Verdict:
    """Warns when an enabled interface of a card has lost a carrier that it had since boot."""
    real = list(_real(nets))
    if not real:
        return skip("no interface of a card in this name space")
    lost = [n for n, d in real if d.admin_up and d.carrier is False and (d.carrier_ups or 0) > 0]
    if lost:
        return warn(f"enabled interfaces that lost their link: {some(lost)}", seen=lost)
    return ok(f"no lost link on {len(real)} interfaces")


@check(
    "net.links.flaps",
    category="reliability",
    severity="medium",
    criteria=("exp-hc-link-flaps",),
    why="A flapping front-end or storage link stalls file systems and logins.",
    fix="Look at dmesg and the switch log for the port, replace cable or transceiver.",
)
def flaps(nets: NetDevices, bars: Network) -> Verdict:
    """Judges carrier losses of enabled cards: a few since boot pass, more warn, five a day on average fail."""
    downs = {n: d.carrier_downs for n, d in _real(nets) if d.admin_up and d.carrier_downs is not None}
    if not downs:
        return skip("no enabled interface of a card that counts carrier losses")
    return flap_verdict(downs, nets.uptime_s, bars)


@check(
    "net.bond.members",
    category="reliability",
    severity="high",
    criteria=("exp-hc-link-flaps",),
    why="A bond with one member left has half its bandwidth and no redundancy, and looks up all the same.",
    fix="Check cable and switch port of the member that is down; cat /proc/net/bonding/BOND shows its state.",
)
def bond(nets: NetDevices) -> Verdict:
    """Fails when a member of a bond is not up; a member that tells neither its state nor its carrier is unknown."""
    bonds = {n: d for n, d in nets.devices.items() if d.bond_mode}
    members = {s: nets.devices[s] for d in bonds.values() for s in d.bond_slaves if s in nets.devices}
    if not members:
        return skip("no bond")
    down = [n for n, d in members.items() if (d.bond_link or "up") != "up" or d.carrier is False]
    if down:
        return fail(f"bond members not up: {some(down)}", seen=down)
    if mute := [n for n, d in members.items() if not d.bond_link and d.carrier is None]:
        return unknown(f"bond members that do not tell their state: {some(mute)}", "too-little", seen=mute)
    return ok(f"{len(members)} members of {len(bonds)} bonds are up", seen=len(members))


@check(
    "net.links.frames",
    category="reliability",
    severity="medium",
    why="Frames with wrong checksums come from a bad cable or transceiver; RDMA over it collapses long before TCP.",
    fix="Clean or replace cable and transceiver; ethtool -S shows which counter rises.",
)
def frames(nets: NetDevices, bars: Network) -> Verdict:
    """Warns when more than the tolerated share of received packets were broken frames."""
    real = [(n, d) for n, d in _real(nets) if d.rx_packets and d.rx_frame_errors is not None]
    if not real:
        return skip("no interface of a card has received packets")
    tolerated = bars.frame_errors_per_million
    bad = [
        n for n, d in real if (d.rx_frame_errors or 0) * _MILLION > tolerated.value * max(d.rx_packets or 0, _MILLION)
    ]
    if bad:
        return warn(f"broken frames received on {some(bad)}", seen=bad, bar=tolerated.bar())
    return ok(f"no broken frames of note on {len(real)} interfaces", bar=tolerated.bar())
