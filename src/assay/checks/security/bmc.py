"""Whether a tenant reaches the node's management controller from the node. The network path needs another test."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.bmc import Bmc
from assay.facts.sudo import Sudo
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict

_CRITERIA = ("sec-bmc-ipmi-isolated", "exp-sa-bmc")
_WHY = (
    "Whoever commands the BMC resets the node, reads its console, changes its firmware and may step into the "
    "management network: it survives a reinstallation, so the next tenant inherits it."
)


@check(
    "bmc.in-band",
    category="security",
    severity="high",
    criteria=_CRITERIA,
    why=_WHY,
    fix="Switch the host interface (KCS) off in the BMC's settings, or keep tenants from root and close the device: "
    "chmod 0600 /dev/ipmi0; echo 'blacklist ipmi_devintf' > /etc/modprobe.d/ipmi.conf.",
)
def in_band(bmc: Bmc, sudo: Sudo | Missing, place: Virtualisation | Missing) -> Verdict:
    """Judges by the IPMI device nodes and who may open them; nothing is sent to the BMC.

    Without a device it passes only in a guest or container; on bare metal the path may still exist unseen.
    """
    machine = place.machine if isinstance(place, Virtualisation) else None
    contained = isinstance(place, Virtualisation) and place.container
    if not bmc.devices:
        return _no_device(bmc, machine, contained=contained)
    names = some(d.path for d in bmc.devices)
    if open_to_all := [d.path for d in bmc.devices if d.open_to_all]:
        return fail(f"any user can open {some(open_to_all)}", seen=bmc.devices)
    if bmc.reader_uid == 0:
        return _root_reader(names, bmc, machine)
    if reachable := [d.path for d in bmc.devices if d.access]:
        return fail(f"this user can open {some(reachable)}", seen=bmc.devices)
    if isinstance(sudo, Sudo) and sudo.in_admin_group:
        return warn(f"{names} is for root, and this user may become root (group {sudo.in_admin_group[0]})")
    return ok(f"{names} is closed to this user; the network path was not looked at", seen=bmc.devices)


def _no_device(bmc: Bmc, machine: str | None, *, contained: bool) -> Verdict:
    if contained:
        return ok("container without an IPMI device; the network path was not looked at")
    if machine == "vm":
        return ok("virtual machine without an IPMI device; the network path was not looked at")
    hint = "the firmware declares an IPMI interface" if bmc.declared else "no IPMI device"
    loaded = f", {some(bmc.modules)} loaded" if bmc.modules else ""
    return unknown(f"in-band path not seen: {hint}{loaded}; root could load ipmi_devintf", "too-little")


def _root_reader(names: str, bmc: Bmc, machine: str | None) -> Verdict:
    if machine == "bare-metal":
        return fail(f"tenant root can reach the BMC through {names}", seen=bmc.devices)
    return warn(f"root can open {names}; whether it leads to the host's BMC is not known", seen=bmc.devices)


@check(
    "bmc.host-interface",
    category="security",
    severity="high",
    criteria=_CRITERIA,
    why="A USB network card of the BMC gives the host Redfish over TCP: any user can connect to it, root or not.",
    fix="Switch the Redfish host interface (USB LAN, OS-to-BMC pass-through) off in the BMC's settings, or take the "
    "card down: ip link set NAME down.",
    refs=("DMTF DSP0270, Redfish Host Interface Specification",),
)
def host_interface(bmc: Bmc, place: Virtualisation | Missing) -> Verdict:
    """Warns when a network card runs on a USB network driver or carries the BMC's name; asks nothing of it."""
    if bmc.nics:
        return warn(f"way to the BMC: {some(f'{n.name} ({n.driver})' for n in bmc.nics)}", seen=bmc.nics)
    if isinstance(place, Virtualisation) and place.container:
        return skip("read in a container, which may not show the host's network cards")
    if bmc.nics is None:
        return unknown("the drivers of network cards were not readable", "too-little")
    if bmc.redfish:
        return unknown("the firmware declares a Redfish host interface; no card for it is up", "too-little")
    return ok("no network card leads to the BMC; the network path was not looked at")
