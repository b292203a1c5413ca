"""Ways from the host to its management controller (BMC). Nothing is asked of the BMC."""

from __future__ import annotations

from msgspec import Struct

from assay.facts.source import source
from assay.facts.stat import PathState, path_states
from assay.model import Fact, Files, Links, Missing, Probe, RawFact, Stat

_ENTRIES = "/sys/firmware/dmi/entries/"
# Drivers of the USB network cards with which a BMC offers Redfish to its host.
_USB_NETWORK = frozenset({"cdc_ether", "rndis_host", "cdc_ncm", "cdc_eem", "cdc_subset"})


class HostNic(Struct, frozen=True):
    """A network interface of the host that leads to the BMC, as far as its name and driver tell."""

    name: str = ""
    driver: str = ""


class Bmc(Fact, frozen=True):
    """`devices` = IPMI nodes; `declared` = SMBIOS names an IPMI interface, `redfish` = it names a Redfish one.

    `nics` are USB network cards or cards named after the BMC; None = interfaces were not readable.
    """

    devices: tuple[PathState, ...] = ()
    modules: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    declared: bool | None = None
    redfish: bool | None = None
    nics: tuple[HostNic, ...] | None = None
    reader_uid: int = -1


@source(
    Probe(
        "bmc.presence",
        (
            Stat("devices", ("/dev/ipmi[0-9]*", "/dev/ipmi/*", "/dev/ipmidev/*")),
            Stat("classes", ("/sys/class/ipmi/*",)),
            Files("modules", ("/proc/modules",)),
            Stat("smbios", (_ENTRIES + "1-*", _ENTRIES + "38-*", _ENTRIES + "42-*")),
            Links("drivers", ("/sys/class/net/*/device/driver",)),
        ),
    )
)
def bmc_presence(raw: RawFact) -> Bmc | Missing:
    """Device nodes, loaded modules, SMBIOS types 38 and 42, and USB network cards."""
    modules = (line.split(" ", 1)[0] for line in raw.out("modules").splitlines())
    drivers = raw.files("drivers")
    return Bmc(
        devices=path_states(raw.files("devices")),
        modules=tuple(sorted(name for name in modules if name.startswith("ipmi_"))),
        interfaces=tuple(sorted(path.rsplit("/", 1)[-1] for path in raw.files("classes"))),
        declared=_smbios(raw, "38-"),
        redfish=_smbios(raw, "42-"),
        nics=_nics(drivers) if drivers else None,
        reader_uid=raw.uid,
    )


def _smbios(raw: RawFact, prefix: str) -> bool | None:
    """Whether SMBIOS has entries of this type; None when its entries are not shown at all."""
    names = [path.removeprefix(_ENTRIES) for path in raw.files("smbios")]
    return any(name.startswith(prefix) for name in names) if names else None


def _nics(drivers: dict[str, str]) -> tuple[HostNic, ...]:
    found = (HostNic(name=path.split("/")[4], driver=target.rsplit("/", 1)[-1]) for path, target in drivers.items())
    return tuple(
        sorted(
            (n for n in found if n.driver in _USB_NETWORK or "bmc" in n.name or "idrac" in n.name),
            key=lambda nic: nic.name,
        )
    )
