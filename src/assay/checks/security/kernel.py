"""The running kernel: named vulnerabilities, a newer one waiting for a reboot, taints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from assay.checks.registry import When, check
from assay.checks.security.grading import in_grace
from assay.checks.security.minimums import CRITERIA
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.checks.versions import Key, debian, dotted, rpm
from assay.facts.kernel import Kernel
from assay.facts.packages import Packages
from assay.model import Bar, Missing, Verdict
from assay.profiles.minimum_versions import DistroFix, MinimumVersions

_UBUNTU_BUILD = re.compile(r"#(\d+)(~\d\d\.\d\d\.\d+)?(\+\d+)?-Ubuntu\b")
_UBUNTU_RELEASE = re.compile(r"(\d+\.\d+\.\d+)-(\d+)-([a-z][a-z0-9-]*)$")
_DEBIAN_BUILD = re.compile(r"#1 .*Debian (\d\S+)")
_FLAVOUR = re.compile(r"-([a-z][\w-]*)$|(\.el\d+|\.fc\d+|\.amzn\d+|\.cm\d+|\.azl\d+)")
_NUMBERS = re.compile(r"(\d+(?:\.\d+)*)(?:-(\d+(?:\.\d+)*))?")
_RPM_BASED = re.compile(r"\.(?:el|fc|amzn|cm|azl)\d")
_PAGE = re.compile(r"[-.+](?:64k|largemem)\b")


def ubuntu_package(kernel: Kernel, packages: Packages | Missing) -> tuple[str, str] | None:
    """Source package and version of the RUNNING kernel on Ubuntu: ("linux-hwe-6.8", "6.8.0-101.101~22.04.1").

    The kernel says its upload itself ("#101~22.04.1-Ubuntu"), so a package upgraded since the boot does not count.
    """
    build, release = _UBUNTU_BUILD.search(kernel.build), _UBUNTU_RELEASE.match(kernel.release)
    if not build or not release:
        return None
    base, abi, flavour = release.groups()
    version = f"{base}-{abi}.{build[1]}{build[2] or ''}{build[3] or ''}"
    known = "" if isinstance(packages, Missing) else packages.sources.get(f"linux-modules-{kernel.release}", "")
    return known or _source_name(base, flavour, backport=bool(build[2])), version


def _source_name(base: str, flavour: str, *, backport: bool) -> str:
    """The source package by Ubuntu's naming: generic kernels of a later series are "hwe", others carry the series."""
    kind = flavour.removesuffix("-64k")
    series = base.rsplit(".", 1)[0]
    if kind == "generic":
        return f"linux-hwe-{series}" if backport else "linux"
    return f"linux-{kind}-{series}" if backport else f"linux-{kind}"


def entries(table: MinimumVersions, package: str, version: str) -> list[DistroFix]:
    """What Ubuntu says of this very kernel series: same source package, and a release that carries this series."""
    base = version.split("-", 1)[0]
    names = (package, f"{package}-{base.rsplit('.', 1)[0]}")
    named = [f for f in table.ubuntu if f.package in names]
    releases = {f.release for f in named if f.fixed.startswith(f"{base}-")}
    return [f for f in named if f.release in releases]


def _running(
    kernel: Kernel, packages: Packages | Missing, table: MinimumVersions
) -> tuple[str, Key, str, list[DistroFix]] | Verdict:
    found = ubuntu_package(kernel, packages)
    if found is None:
        return unknown(f"kernel {kernel.release}: the table knows Ubuntu's kernels only", "no-reference")
    package, version = found
    known, key = entries(table, package, version), debian(version)
    if key is None or not known or any(f.fixed and debian(f.fixed) is None for f in known):
        return unknown(f"{package} {version}: the table does not name this kernel series", "no-reference")
    return package, key, version, known


def _lacking(key: Key, fixes: Iterable[DistroFix]) -> list[DistroFix]:
    return [f for f in fixes if f.fixed and (bar := debian(f.fixed)) is not None and key < bar]


def _cves(fixes: Iterable[DistroFix]) -> str:
    return ", ".join(dict.fromkeys(f"{f.name} {cve}" for f in fixes for cve in f.cves))


@check(
    "kernel.named-cves",
    category="security",
    severity="critical",
    criteria=("sec-kernel-lpe-fixes",),
    why="With these published faults any user of a node, also from inside a container, becomes root on it.",
    fix="apt-get update && apt-get dist-upgrade, then reboot each node and check with: uname -r; cat /proc/version",
)
def named_cves(kernel: Kernel, packages: Packages | Missing, table: MinimumVersions, at: When) -> Verdict:
    """Holds the kernel that runs (not the newest installed) against Ubuntu's fix of each named vulnerability.

    Only the same source package and series is compared; other distributions and series are unknown.
    """
    running = _running(kernel, packages, table)
    if isinstance(running, Verdict):
        return running
    package, key, version, known = running
    named = [f for f in known if f.cves]
    lacking = _lacking(key, named)
    open_ones = [f for f in named if not f.fixed]
    notices = ", ".join(dict.fromkeys(f.advisory for f in lacking or named if f.advisory))
    late = [f for f in lacking if not in_grace(f, table.policy, at)]
    if lacking:
        newest = max(lacking, key=lambda f: debian(f.fixed) or ())
        bar = Bar(f">= {newest.fixed}", f"{notices} (table of {table.generated})")
        said = f"{package} {version} lacks the fix of {_cves(late or lacking)}; all fixed in {newest.fixed}"
        return fail(said, seen=version, bar=bar) if late else warn(f"{said}, published days ago", seen=version, bar=bar)
    if not [f for f in named if f.fixed]:
        return unknown(f"{package} {version}: the table names no fix for it", "no-reference")
    bar = Bar("each named fix", f"{notices} (table of {table.generated})")
    rest = f"; no fix out yet for {_cves(open_ones)}" if open_ones else ""
    return ok(
        f"{package} {version} holds the fixes of {_cves(f for f in named if f.fixed)}{rest}", seen=version, bar=bar
    )


@check(
    "minimums.kernel",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="The kernel is the wall between users of a node; each security update of the distribution closes many faults.",
    fix="apt-get update && apt-get dist-upgrade, then reboot each node and check with: uname -r; cat /proc/version",
)
def security_update(kernel: Kernel, packages: Packages | Missing, table: MinimumVersions, at: When) -> Verdict:
    """Holds the running Ubuntu kernel against the newest security update of its series that the table names."""
    if ubuntu_package(kernel, packages) is None:
        return skip(f"kernel {kernel.release} is none of Ubuntu's")
    running = _running(kernel, packages, table)
    if isinstance(running, Verdict):
        return running
    package, key, version, known = running
    newest = next((f for f in known if f.role == "aggregate"), None)
    if newest is None:
        return unknown(f"{package} {version}: the table names no newest update of it", "no-reference")
    bar = Bar(f">= {newest.fixed}", f"{newest.advisory} (table of {table.generated})")
    if not _lacking(key, [newest]):
        return ok(f"{package} {version}", seen=version, bar=bar)
    said = f"{package} {version} is behind {newest.advisory}, which fixed {newest.cve_count} CVEs in {newest.fixed}"
    return (warn if in_grace(newest, table.policy, at) else fail)(said, seen=version, bar=bar)


@check(
    "kernel.newest-runs",
    category="security",
    severity="high",
    criteria=("sec-guest-kernel-current",),
    why="An update that waits for a reboot protects nobody: the old kernel runs on with its published faults.",
    fix="Drain the node and reboot it; automate the reboot (kured, a Slurm reboot of idle nodes).",
)
def newest_runs(kernel: Kernel, packages: Packages | Missing) -> Verdict:
    """Fails when a newer kernel of the same flavour is on disk or the running one's package was replaced.

    Fails too when a kernel package asks for a reboot; other packages that ask for one warn. Skipped where no kernel
    is on disk (containers, network boot).
    """
    if pending := _pending(kernel, packages):
        return fail(pending, seen=kernel.release)
    if kernel.reboot_required:
        return warn(f"a reboot is required for {some(kernel.reboot_packages) or 'an update'}")
    if not kernel.images_visible:
        return skip("no kernel image on disk: a container or a network boot", "absent")
    if kernel.release not in kernel.installed:
        return warn(f"the running {kernel.release} is not among the installed kernels", seen=list(kernel.installed))
    return ok(f"{kernel.release} is the newest of its flavour", seen=kernel.release)


def _pending(kernel: Kernel, packages: Packages | Missing) -> str:
    if waiting := _waiting(kernel):
        return f"{waiting} is installed and waits for a reboot; {kernel.release} runs"
    if replaced := _replaced(kernel, packages):
        return f"the package of {kernel.release} was upgraded to {replaced} after the boot"
    asking = next((p for p in kernel.reboot_packages if p.startswith(("linux-image", "linux-modules", "kernel"))), "")
    return f"a reboot is required for {asking}" if asking else ""


def _flavour(release: str) -> str:
    found = _FLAVOUR.search(release)
    page = _PAGE.search(release)
    return (found[0] if found else "") + (page[0] if page else "") + ("+debug" if "debug" in release else "")


def _waiting(kernel: Kernel) -> str | None:
    order = rpm if _RPM_BASED.search(kernel.release) else dotted_kernel
    running, flavour = order(kernel.release), _flavour(kernel.release)
    if running is None:
        return None
    keys = {r: key for r in kernel.installed if _flavour(r) == flavour and (key := order(r)) is not None}
    newest = max(keys, key=lambda r: keys[r], default=None)
    return newest if newest and keys[newest] > running else None


def dotted_kernel(release: str) -> Key | None:
    """6.8.0-101-generic by its numbers: upstream version, then the package's ABI; the flavour is compared apart."""
    numbers = _NUMBERS.match(release)
    upstream, abi = (dotted(numbers[1]), dotted(numbers[2] or "0")) if numbers else (None, None)
    return (upstream, abi) if upstream is not None and abi is not None else None


def _replaced(kernel: Kernel, packages: Packages | Missing) -> str | None:
    """The version that replaced the running kernel's package under the same name."""
    if isinstance(packages, Missing) or packages.manager != "dpkg":
        return None
    now = packages.installed.get(f"linux-image-{kernel.release}")
    found = ubuntu_package(kernel, packages)
    debianised = _DEBIAN_BUILD.match(kernel.build)
    runs = found[1] if found else debianised[1] if debianised else None
    a, b = debian(runs or ""), debian(now or "")
    return now if a is not None and b is not None and a < b else None
