"""The services that NVLink fabrics need: Fabric Manager on NVSwitch boards, IMEX in NVLink domains."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.place import not_the_host
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.fabric_manager import FabricManager
from assay.facts.gpu_pci import GpuPciDevices
from assay.facts.imex import Imex
from assay.facts.nvidia import NvidiaDriver, NvidiaSmi
from assay.facts.nvidia_nvlink import NvLinks
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.interconnect import Interconnect, nvlink_product

_BOARD = 8
_ENDED = frozenset({"failed", "inactive", "deactivating"})


def _manager_wanted(nvlink: NvLinks, pci: GpuPciDevices | Missing, profile: Interconnect) -> bool:
    """True on boards with NVSwitch. From Blackwell on the switches are not on the host's PCI bus: eight GPUs tell."""
    products = [nvlink_product(profile, gpu.name) for gpu in nvlink.gpus]
    if not products or not all(p is not None and p.manager for p in products):
        return False
    if isinstance(pci, GpuPciDevices) and pci.nvswitches:
        return True
    hidden = all(p is not None and p.gbs >= 50 for p in products)
    return hidden and len(products) >= _BOARD


def _in_domain(nvlink: NvLinks, profile: Interconnect) -> bool:
    """True on a tray of a rack-wide NVLink domain."""
    return any(p is not None and p.domain for p in (nvlink_product(profile, gpu.name) for gpu in nvlink.gpus))


def _registered(smi: NvidiaSmi | Missing) -> bool:
    """True when every GPU says that it joined a fabric: then somebody manages it."""
    fabrics = [gpu.fabric for gpu in smi.gpus] if isinstance(smi, NvidiaSmi) else []
    return bool(fabrics) and all(f and f.state == "Completed" and f.status == "Success" for f in fabrics)


@check(
    "nvlink.fabric-manager.running",
    category="reliability",
    severity="critical",
    criteria=("life-fabric-driver-ready",),
    why="Without Fabric Manager the NVSwitches route nothing: CUDA does not initialise, GPUs do not reach each other.",
    fix="`systemctl enable --now nvidia-fabricmanager`, in exactly the version of the driver.",
)
def manager_running(  # noqa: PLR0913, PLR0917 - each fact is one way to know who manages the fabric
    manager: FabricManager | Missing, nvlink: NvLinks, pci: GpuPciDevices | Missing, smi: NvidiaSmi | Missing,
    machine: Virtualisation | Missing, profile: Interconnect,
) -> Verdict:  # fmt: skip
    """Wanted only on boards with NVSwitch; there it must run, unless all GPUs have joined a fabric run elsewhere."""
    running = isinstance(manager, FabricManager) and (manager.process or _active(manager))
    if _in_domain(nvlink, profile):
        return warn("Fabric Manager runs on a tray of an NVLink domain") if running else skip("managed by the rack")
    if not _manager_wanted(nvlink, pci, profile):
        return skip("no NVSwitch here that the host manages")
    elsewhere = _registered(smi) and not (isinstance(pci, GpuPciDevices) and pci.nvswitches)
    if running or elsewhere:
        return ok("Fabric Manager is running" if running else "every GPU has joined a fabric managed outside this host")
    if isinstance(machine, Virtualisation) and machine.container:
        return skip("a container does not see the services of its host", "denied")
    return _not_running(manager)


def _active(manager: FabricManager) -> bool:
    return manager.unit is not None and manager.unit.active == "active"


def _not_running(manager: FabricManager | Missing) -> Verdict:
    if isinstance(manager, Missing):
        return fail("NVSwitch board without Fabric Manager") if manager.kind == "absent" else missing(manager)
    if manager.unit is None:
        return unknown("systemd does not answer: the state of Fabric Manager is not known", "too-little")
    return fail(f"Fabric Manager is {manager.unit.active} ({manager.unit.sub})", seen=manager.unit.active)


@check(
    "nvlink.fabric-manager.version",
    category="reliability",
    severity="high",
    criteria=("life-fabric-driver-ready",),
    why="Fabric Manager refuses to start in any other version than the driver's, often only at the next reboot.",
    fix="Install the nvidia-fabricmanager package of the driver's version and pin both together.",
)
def manager_version(
    manager: FabricManager, driver: NvidiaDriver, nvlink: NvLinks, pci: GpuPciDevices | Missing, profile: Interconnect
) -> Verdict:
    """Compares the versions of Fabric Manager and the loaded driver, where a board with NVSwitch wants it."""
    if not _manager_wanted(nvlink, pci, profile):
        return skip("no NVSwitch here that the host manages")
    if not manager.version or not driver.version:
        return unknown("a version is not told", "too-little", seen=[manager.version, driver.version])
    if manager.version != driver.version:
        return fail(f"Fabric Manager {manager.version}, driver {driver.version}", seen=manager.version)
    return ok(f"Fabric Manager and driver are {driver.version}", seen=driver.version)


@check(
    "nvlink.fabric-manager.log",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="Fabric Manager writes link and switch faults to its log before any job notices them.",
    fix="Read /var/log/fabricmanager.log; non-fatal and fatal SXid lines name the switch and port.",
)
def manager_log(
    manager: FabricManager, nvlink: NvLinks, pci: GpuPciDevices | Missing, profile: Interconnect
) -> Verdict:
    """Warns on lines of level ERROR and above in the last part of the log, where a board with NVSwitch wants it."""
    if not _manager_wanted(nvlink, pci, profile):
        return skip("no NVSwitch here that the host manages")
    if manager.log is None:
        return skip("fabricmanager.log cannot be read", "denied")
    if manager.log.errors:
        return warn(f"{len(manager.log.errors)} errors, last: {manager.log.errors[-1]}", seen=manager.log.errors)
    return ok(f"no error in the last {manager.log.lines} records", seen=manager.log.lines)


@check(
    "imex.running",
    category="reliability",
    severity="high",
    criteria=("orch-computedomain",),
    why="Without IMEX the GPUs of different trays share no memory, and NCCL silently leaves NVLink for the network.",
    fix="`systemctl status nvidia-imex`; its nodes_config.cfg must list every tray. On Kubernetes use ComputeDomains.",
)
def imex_running(
    imex: Imex | Missing, nvlink: NvLinks, machine: Virtualisation | Missing, profile: Interconnect
) -> Verdict:
    """Only in NVLink domains (GB200, GB300): fails when the daemon is there and not READY, warns when there is none."""
    if not _in_domain(nvlink, profile):
        return skip("not a tray of an NVLink domain")
    if isinstance(imex, Missing):
        nothing = warn("no IMEX on this tray") if imex.kind == "absent" else missing(imex)
        return not_the_host(machine, "services") or nothing
    if imex.daemon:
        return ok("IMEX is READY") if imex.daemon == "READY" else fail(f"IMEX is {imex.daemon}", seen=imex.daemon)
    if imex.unit is not None and imex.unit.active == "failed":
        return fail("the nvidia-imex service has failed", seen=imex.unit.sub)
    if imex.configured is False or (imex.unit is not None and imex.unit.active in _ENDED):
        return warn("IMEX does not run: right only when each job starts its own")
    return unknown(f"IMEX does not tell its state: {imex.error or 'no answer'}", "too-little")


@check(
    "imex.domain",
    category="reliability",
    severity="high",
    criteria=("orch-computedomain",),
    why="One tray that is not connected, or of another version, keeps jobs from spanning the NVLink domain.",
    fix="`nvidia-imex-ctl -N` names the tray; give all trays one version and nodes_config.cfg, then restart it.",
)
def imex_domain(imex: Imex, nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """Only in NVLink domains: the domain must be UP, every node READY and of one version, every pair connected."""
    if not _in_domain(nvlink, profile):
        return skip("not a tray of an NVLink domain")
    if not imex.domain:
        return skip("IMEX tells no domain", "absent")
    faults = _domain_faults(imex)
    if faults:
        return fail(f"IMEX domain {imex.domain}: {'; '.join(faults)}", seen=faults)
    return ok(f"IMEX domain UP with {len(imex.nodes)} nodes", seen=len(imex.nodes))


def _domain_faults(imex: Imex) -> list[str]:
    versions = sorted({node.version for node in imex.nodes if node.version})
    away = [f"#{node.index} {node.state}" for node in imex.nodes if node.state != "READY"]
    codes = sorted({code for row in imex.matrix.values() for code in row} - {"C", "..."})
    return [
        *([f"versions {', '.join(versions)}"] if len(versions) > 1 else []),
        *([f"{len(away)} of {len(imex.nodes)} nodes not READY: {some(away)}"] if away else []),
        *([f"connections in state {', '.join(codes)}"] if codes else []),
        *(["not UP"] if imex.domain != "UP" else []),
    ]


@check(
    "imex.channels",
    category="reliability",
    severity="medium",
    criteria=("orch-computedomain",),
    why="Programs share memory across trays through an IMEX channel: without one NCCL cannot use the NVLink domain.",
    fix="Load the driver with NVreg_CreateImexChannel0=1, or let the scheduler create a channel per job.",
)
def imex_channels(imex: Imex, nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """Only in NVLink domains: warns when IMEX is READY and there is no device under /dev/nvidia-caps-imex-channels."""
    if not _in_domain(nvlink, profile):
        return skip("not a tray of an NVLink domain")
    if imex.channels is None:
        return unknown("the channels could not be listed", "too-little")
    if imex.channels:
        return ok(f"{imex.channels} IMEX channels")
    if imex.daemon != "READY":
        return skip("no IMEX channel, and no IMEX that would serve one: each job may start its own")
    return warn("IMEX is READY, but there is no channel outside jobs")


@check(
    "imex.version.uniform",
    category="reliability",
    severity="medium",
    criteria=("orch-computedomain",),
    why="Trays with different IMEX versions refuse to connect (!V! in nvidia-imex-ctl -N).",
    fix="Install one driver and IMEX version on all trays of the rack.",
)
def imex_uniform(trays: Fleet[Imex]) -> Verdict:
    """Warns when the nodes that are in an IMEX domain do not all have the same version installed."""
    versions = {node: imex.version for node, imex in trays.items() if imex.version and imex.domain}
    return alike("IMEX version", {"": versions}, nobody="no node in an IMEX domain tells its version")
