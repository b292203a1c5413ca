"""Docker and runc against the table of published fixed versions."""

from __future__ import annotations

from msgspec import structs

from assay.checks.registry import When, check
from assay.checks.security.grading import worst
from assay.checks.security.minimums import CRITERIA, graver, judged
from assay.checks.verdict import missing, skip
from assay.checks.versions import upstream, version
from assay.facts.containers import OciRuntime, OciRuntimes
from assay.facts.docker import DockerEngine, DockerHost
from assay.facts.packages import Packages
from assay.model import Missing, Verdict
from assay.profiles.minimum_versions import Component, MinimumVersions

_PACKAGED = ("/usr/bin/", "/usr/sbin/")


def built_by_distro(component: Component | None, packages: Packages | Missing) -> bool:
    """True when a distribution's package of the component is installed and the vendor's own is not."""
    if component is None or isinstance(packages, Missing):
        return False
    return packages.first(component.packages) is None and packages.first(component.distro_packages) is not None


def _says_distro(build: str | None) -> bool:
    known = version(build) if build else None
    return bool(known and known.distro)


@check(
    "minimums.docker",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="The engine runs as root for everyone who may start a container; its published faults reach the host.",
    fix="apt-get install --only-upgrade docker-ce docker-ce-cli containerd.io   # or the distribution's own update",
)
def docker(
    engine: DockerEngine | Missing,
    host: DockerHost | Missing,
    packages: Packages | Missing,
    table: MinimumVersions,
    at: When,
) -> Verdict:
    """Holds the running engine, else the installed package, against the floor.

    A distribution's build below the floor is skipped: its number does not show what was back-ported.
    """
    component = table.components.get("docker")
    distro = built_by_distro(component, packages) or (not isinstance(host, Missing) and _says_distro(host.build))
    if not isinstance(engine, Missing):
        return judged(table, "docker", engine.server_version, at, distro=distro)
    listed = (
        component
        and not isinstance(packages, Missing)
        and packages.first((*component.packages, *component.distro_packages))
    )
    if listed:
        return judged(table, "docker", upstream(listed[1]), at, distro=distro)
    gap = graver(engine)
    return skip("no docker engine", "absent") if gap.kind in {"absent", "not-applicable"} else missing(gap)


@check(
    "minimums.runc",
    category="security",
    severity="critical",
    criteria=CRITERIA,
    why="runc starts every container as root: its published faults let a container write to the host.",
    fix="Upgrade the package that owns each runc named here: containerd.io, runc, moby-runc, or the node image.",
)
def runc(runtimes: OciRuntimes, packages: Packages | Missing, table: MinimumVersions, at: When) -> Verdict:
    """Holds every runc on the host against the affected ranges of its advisories; the worst counts.

    Ranges, not branch floors: 1.0.3, 1.1.14 and 1.2.8 sit on a floor and are affected all the same. A distribution's
    build inside a range is skipped: its number does not show what was back-ported.
    """
    if not runtimes.found:
        return skip("no runc", "absent")
    distro = built_by_distro(table.components.get("runc"), packages)
    return worst(_runc(one, table, at, distro=distro) for one in runtimes.found)


def _runc(one: OciRuntime, table: MinimumVersions, at: When, *, distro: bool) -> Verdict:
    verdict = judged(table, "runc", one.version, at, distro=distro and one.path.startswith(_PACKAGED))
    return structs.replace(verdict, message=f"{verdict.message} ({one.path})")
