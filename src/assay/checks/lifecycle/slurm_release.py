"""Releases of Slurm: how old, and whether all daemons agree."""

from __future__ import annotations

import re

from assay.checks.alike import by_value, told
from assay.checks.registry import When, check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes
from assay.slurm.times import epoch

_RELEASE = re.compile(r"(\d\d)\.(\d\d)(?:\.(\d+))?")
_MONTH = 30.44 * 86400


@check(
    "slurm.release",
    category="lifecycle",
    severity="medium",
    criteria=("sec-component-minimums",),
    why="Slurm's daemons run as root; releases that are no longer maintained get no fixes for flaws found since.",
    fix="Upgrade slurmdbd, then slurmctld, then slurmd; at most three major releases in one step.",
)
def release(config: SlurmConfig, when: When, bar: Slurm) -> Verdict:
    """Slurm's version is the year and month of its release: warns when that is longer ago than releases are kept."""
    version = config.value("SLURM_VERSION") or ""
    found = _RELEASE.match(version)
    if not found or not 1 <= int(found[2]) <= 12:
        return unknown(f"the release {version or '(none)'} names no year and month")
    months = (when.at - epoch(f"20{found[1]}-{found[2]}-01T00:00:00")) / _MONTH
    limit = bar.release_months.bar(" months", "<= ")
    words = f"Slurm {version} is {max(months, 0):.0f} months old"
    if months > bar.release_months.value:
        return warn(f"{words}; fixes can only come from a distribution", seen=version, bar=limit)
    return ok(words, seen=version, bar=limit)


@check(
    "slurm.version.uniform",
    category="lifecycle",
    severity="medium",
    why="slurmd newer than slurmctld is refused, and nodes of mixed releases behave differently under the same job.",
    fix="Upgrade the nodes named to the release of the others; restart slurmd.",
)
def uniform(nodes: SlurmNodes, config: SlurmConfig) -> Verdict:
    """Compares slurmd's release on all nodes with each other and with slurmctld's."""
    versions = {n.name: n.version for n in nodes.nodes if n.version}
    if not versions:
        return skip("no node tells the release of its slurmd", "absent")
    groups = by_value(versions)
    if len(groups) > 1:
        return warn(f"different slurmd: {told(groups)}", seen=groups)
    only = next(iter(groups))
    controller = config.value("SLURM_VERSION")
    if controller and controller != only:
        return warn(f"slurmd {only} on all nodes, slurmctld {controller}", seen=only, expected=controller)
    return ok(f"slurmd {only} on {len(versions)} nodes", seen=only)
