"""Driver, toolkits, DCGM and adapter firmware against the table of published fixed versions."""

from __future__ import annotations

from msgspec import structs

from assay.checks.registry import When, check
from assay.checks.security.grading import EPOCH, day, grade, worst
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.checks.versions import dotted
from assay.facts.containers import GpuToolkit
from assay.facts.dcgm import DcgmVersion
from assay.facts.hpc_sdk import HpcSdk
from assay.facts.infiniband import RdmaDevice, RdmaDevices
from assay.facts.nvidia import NvidiaDriver, NvidiaSmi
from assay.facts.packages import Packages
from assay.facts.toolchain import CudaToolkits
from assay.model import Bar, Missing, Verdict
from assay.profiles.minimum_versions import MinimumVersions

CRITERIA = ("sec-component-minimums",)
YEAR_2000 = EPOCH + 10957


def judged(table: MinimumVersions, name: str, text: str | None, at: When, *, distro: bool = False) -> Verdict:
    """The verdict on a component's version; unknown without a version or without an entry in the table."""
    component = table.components.get(name)
    if component is None:
        return unknown(f"the table of {table.generated} has no {name}", "no-reference")
    if not text:
        return unknown(f"{component.title}: its version is not shown", "unparsable")
    return grade(component, text, table, at, distro=distro)


def graver(*gaps: Missing) -> Missing:
    """The gap that says more: something went wrong rather than nothing there."""
    return max(gaps, key=lambda gap: gap.status.value == "unknown")


@check(
    "minimums.table.fresh",
    category="security",
    severity="low",
    why="A table from before the newest bulletins passes components that are known to be affected today.",
    fix="assay minimums import FILE   # a table drawn up after the evidence was taken",
)
def table_fresh(table: MinimumVersions, at: When) -> Verdict:
    """Warns when the table of minimum versions was older than its own limit on the day the evidence was taken."""
    if day(at) < YEAR_2000:
        return unknown("the evidence carries no date", "too-little")
    age = day(at) - table.generated.toordinal()
    bar = Bar(f"<= {table.policy.max_age_days} days", table.source)
    if age > table.policy.max_age_days:
        return warn(f"the table of minimum versions of {table.generated} was {age} days old", seen=age, bar=bar)
    return ok(f"table of minimum versions of {table.generated}", seen=max(age, 0), bar=bar)


@check(
    "minimums.nvidia-driver",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="The kernel driver is shared by everyone on a host; its published faults give root or another's memory.",
    fix="Drain the node, install the fixed driver of the branch, reboot, check: cat /proc/driver/nvidia/version",
)
def nvidia_driver(
    module: NvidiaDriver | Missing, smi: NvidiaSmi | Missing, table: MinimumVersions, at: When
) -> Verdict:
    """Holds the loaded driver against the floor of its branch; a branch the table does not name is unknown."""
    loaded = None if isinstance(module, Missing) else module.version
    said = None if isinstance(smi, Missing) else smi.driver_version
    if isinstance(module, Missing) and isinstance(smi, Missing):
        return missing(graver(module, smi))
    return judged(table, "nvidiaDriver", loaded or said, at)


@check(
    "minimums.cuda-toolkit",
    category="security",
    severity="low",
    criteria=CRITERIA,
    why="nvcc and its tools parse files that users download; published faults run code from a crafted file.",
    fix="Install the current toolkit beside the old one and point /usr/local/cuda and the default module at it.",
)
def cuda_toolkit(cuda: CudaToolkits, table: MinimumVersions, at: When) -> Verdict:
    """Holds the toolkit that a user gets by default (PATH, else /usr/local/cuda, else the newest) against the floor.

    Older toolkits kept beside it for choice are not judged.
    """
    if not cuda.toolkits and not cuda.sdk:
        return skip("no CUDA toolkit", "absent")
    return judged(table, "cudaToolkit", _default_cuda(cuda), at)


def _default_cuda(cuda: CudaToolkits) -> str | None:
    chosen = cuda.at(cuda.first) or cuda.at("/usr/local/cuda/bin/nvcc")
    if chosen:
        return chosen.version or chosen.release
    listed = [t.version or t.release or "" for t in cuda.toolkits] or list(cuda.sdk.values())
    return max((v for v in listed if dotted(v)), key=lambda v: dotted(v) or (), default=None)


def _toolkit_version(toolkit: GpuToolkit | Missing, packages: Packages | Missing, table: MinimumVersions) -> str | None:
    if not isinstance(toolkit, Missing) and toolkit.nvidia:
        return toolkit.nvidia
    component = table.components.get("nvidiaContainerToolkit")
    if component is None or isinstance(packages, Missing):
        return None
    found = packages.first(component.packages)
    return found[1] if found else None


def _no_toolkit(toolkit: GpuToolkit | Missing, packages: Packages | Missing) -> Verdict:
    gaps = [gap for gap in (toolkit, packages) if isinstance(gap, Missing)]
    if gaps and (gap := graver(*gaps)).status.value == "unknown":
        return missing(gap)
    return skip("no NVIDIA container toolkit", "absent")


@check(
    "minimums.nvidia-container-toolkit",
    category="security",
    severity="critical",
    criteria=CRITERIA,
    why="The toolkit runs as root on the host for every GPU container: its faults let a container out.",
    fix="apt-get install --only-upgrade nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container1",
)
def container_toolkit(
    toolkit: GpuToolkit | Missing, packages: Packages | Missing, table: MinimumVersions, at: When
) -> Verdict:
    """Holds nvidia-ctk, else the installed package, against the floor and the known escapes."""
    text = _toolkit_version(toolkit, packages, table)
    return judged(table, "nvidiaContainerToolkit", text, at) if text else _no_toolkit(toolkit, packages)


@check(
    "minimums.toolkit-escapes",
    category="security",
    severity="critical",
    criteria=("sec-toolkit-escape-cves",),
    why="Three published faults of 2024 and 2025 let a crafted image take over the host through this toolkit.",
    fix="apt-get install --only-upgrade nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container1",
)
def toolkit_escapes(
    toolkit: GpuToolkit | Missing, packages: Packages | Missing, table: MinimumVersions, at: When
) -> Verdict:
    """Passes when the toolkit is at or above the fixes of CVE-2024-0132, CVE-2025-23359 and CVE-2025-23266."""
    text = _toolkit_version(toolkit, packages, table)
    component = table.components.get("nvidiaContainerToolkit")
    if text is None:
        return _no_toolkit(toolkit, packages)
    if component is None or not component.affected:
        return unknown(f"the table of {table.generated} does not name the escapes", "no-reference")
    return grade(structs.replace(component, minimum=None), text, table, at)


@check(
    "minimums.dcgm",
    category="security",
    severity="medium",
    criteria=CRITERIA,
    why="The host engine runs as root and listens: its published faults are open to every user of the node.",
    fix="apt-get install --only-upgrade datacenter-gpu-manager-4-core && systemctl restart nvidia-dcgm",
)
def dcgm(version: DcgmVersion, table: MinimumVersions, at: When) -> Verdict:
    """Holds the host engine that answers, else the installed client, against the floor."""
    return judged(table, "dcgm", version.engine or version.client, at)


@check(
    "minimums.dcgm-exporter",
    category="security",
    severity="medium",
    criteria=CRITERIA,
    why="The exporter answers anyone on the network and carries the host engine's faults with it.",
    fix="Upgrade the exporter (package or container image) to the fixed release and restart it.",
)
def dcgm_exporter(packages: Packages, table: MinimumVersions, at: When) -> Verdict:
    """Holds the installed package against the floor; an exporter that runs as a container is not seen here."""
    component = table.components.get("dcgmExporter")
    found = packages.first(component.packages) if component else None
    if component and not found:
        return skip("no package of the DCGM exporter", "absent")
    return judged(table, "dcgmExporter", found[1].split(":")[-1] if found else None, at)


@check(
    "minimums.nvhpc",
    category="security",
    severity="low",
    criteria=(*CRITERIA, "orch-hpc-sdk"),
    why="Only the current release of the HPC SDK and the one before get fixes.",
    fix="Install the current release of the HPC SDK and make it the default module.",
)
def nvhpc(sdk: HpcSdk, table: MinimumVersions) -> Verdict:
    """Holds the newest HPC SDK on disk against the vendor's window of supported releases."""
    window = table.windows.get("nvhpc")
    keys = {key: release for release in sdk.releases if (key := dotted(release))}
    low, high = (dotted(window.minimum), dotted(window.current)) if window else (None, None)
    if window is None or low is None or high is None or not keys:
        return unknown("HPC SDK: nothing to hold it against", "no-reference")
    newest = max(keys)
    bar = Bar(f"{window.minimum} to {window.current}", f"{table.source} (table of {table.generated})")
    if newest > high:
        return unknown(f"HPC SDK {keys[newest]} is newer than the table of {table.generated}", "no-reference")
    if newest < low:
        return fail(f"HPC SDK {keys[newest]} is out of support; oldest supported is {window.minimum}", bar=bar)
    return ok(f"HPC SDK {keys[newest]}", seen=keys[newest], bar=bar)


@check(
    "minimums.connectx-firmware",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="Adapter firmware keeps tenants apart on the fabric; a guest can reach its published faults.",
    fix="Update to the fixed release of the same train (mlxfwmanager), then reset the adapter or reboot.",
)
def connectx_firmware(rdma: RdmaDevices, table: MinimumVersions, at: When) -> Verdict:
    """Holds the firmware (device.train.patch) of every NVIDIA adapter against the floor of its train; the worst counts.

    A train without an entry, or newer than all of them, is unknown.
    """
    versions: dict[str, list[str]] = {}
    for device in rdma.devices:
        if _is_connectx(device):
            versions.setdefault(device.fw_ver, []).append(device.name)
    if not versions:
        return skip("no adapter with the mlx5 driver")
    return worst(_firmware(table, fw, names, at) for fw, names in versions.items())


def _is_connectx(device: RdmaDevice) -> bool:
    return device.driver.startswith("mlx5") or (not device.driver and device.hca_type.startswith("MT"))


def _firmware(table: MinimumVersions, text: str, names: list[str], at: When) -> Verdict:
    whole = text if text.count(".") == 2 else None
    if text and not whole:
        verdict = unknown(f"ConnectX firmware {text}: not device.train.patch", seen=text)
    else:
        verdict = judged(table, "connectxFirmware", whole, at)
    return structs.replace(verdict, message=f"{verdict.message} ({some(names, 3)})")
