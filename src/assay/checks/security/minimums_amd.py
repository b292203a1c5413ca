"""AMD's driver and ROCm against the table of published fixed versions, by product."""

from __future__ import annotations

import re

from msgspec import structs

from assay.checks.registry import When, check
from assay.checks.security.grading import grade, worst
from assay.checks.security.minimums import CRITERIA
from assay.checks.verdict import missing, skip, unknown
from assay.checks.versions import upstream
from assay.facts.amd_devices import AmdDevices
from assay.facts.amd_smi import AmdGpus
from assay.facts.packages import Packages
from assay.facts.rocminfo import Rocm
from assay.model import Missing, Verdict
from assay.profiles.minimum_versions import MinimumVersions

_PRODUCT = re.compile(r"\bMI\d{2,3}[AX]?\b")
# amdgpu-dkms 1:6.14.14.30100000-...: the fourth number is the driver's release, 30.10.00.00
_RELEASE = re.compile(r"\d+\.\d+\.\d+\.(\d{2})(\d{2})\d{4}\b")
_DRIVER_RELEASE = re.compile(r"[3-9]\d\.\d{1,2}(\.\d+)*$")


def products(gpus: AmdGpus | Missing) -> frozenset[str]:
    """Product names as the table writes them: "AMD Instinct MI300X OAM" -> MI300X."""
    if isinstance(gpus, Missing):
        return frozenset()
    return frozenset(found[0] for gpu in gpus.gpus if (found := _PRODUCT.search(gpu.product.upper())))


def driver_release(packages: Packages | Missing, gpus: AmdGpus | Missing) -> str | None:
    """The driver's release (31.40): in the package's version, else as amd-smi prints it; modules number otherwise."""
    text = "" if isinstance(packages, Missing) else packages.installed.get("amdgpu-dkms", "")
    if found := _RELEASE.search(upstream(text)):
        return f"{int(found[1])}.{int(found[2])}"
    said = "" if isinstance(gpus, Missing) else gpus.driver_version
    return said if _DRIVER_RELEASE.match(said) else None


def _by_product(table: MinimumVersions, name: str, text: str, seen: frozenset[str], at: When) -> Verdict:
    component = table.components.get(name)
    if component is None or not component.products:
        return unknown(f"the table of {table.generated} has no {name}", "no-reference")
    if odd := sorted(seen - set(component.products)):
        return unknown(f"{component.title}: the table does not name {', '.join(odd)}", "no-reference")
    names = sorted(seen) or sorted(component.products)
    floors = (component.products[product] for product in names)
    return worst(grade(structs.replace(component, minimum=floor), text, table, at) for floor in floors)


@check(
    "minimums.amd-driver",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="The kernel driver is shared by everyone on a host; its published faults give root or another's memory.",
    fix="Drain the node, install the fixed amdgpu-dkms, reboot, and check with: amd-smi version",
)
def amd_driver(
    devices: AmdDevices, gpus: AmdGpus | Missing, packages: Packages | Missing, table: MinimumVersions, at: When
) -> Verdict:
    """Holds the driver's release against the floor of each product; the kernel's own amdgpu has no release number."""
    seen = products(gpus)
    if not devices.loaded or (not devices.cards and not seen):
        return skip("no AMD GPU")
    if not seen:
        return unknown("AMD GPU driver: no product name of a GPU to look it up by", "too-little")
    release = driver_release(packages, gpus)
    if release is None:
        what = f"module {devices.module_version}" if devices.module_version else "the kernel's own amdgpu"
        return unknown(f"AMD GPU driver: {what} does not show the driver's release", "no-reference")
    return _by_product(table, "amdDriver", release, seen, at)


@check(
    "minimums.rocm",
    category="security",
    severity="medium",
    criteria=CRITERIA,
    why="ROCm's libraries and tools run in every job; their published faults are open to a crafted input.",
    fix="Install the fixed ROCm release and make it the default (/opt/rocm).",
)
def rocm(release: Rocm, gpus: AmdGpus | Missing, table: MinimumVersions, at: When) -> Verdict:
    """Holds the release under /opt/rocm against the floor of the products seen, or of all where none is seen."""
    if not release.version:
        gap = Missing("absent", "no ROCm release under /opt/rocm")
        return missing(gap)
    return _by_product(table, "rocm", release.version, products(gpus), at)
