"""The operating system a tenant finds."""

from __future__ import annotations

from assay.checks.registry import Fleet, check
from assay.checks.verdict import ok, warn
from assay.facts.os import OsRelease
from assay.model import Verdict


@check(
    "os.release.uniform",
    category="orchestration",
    severity="medium",
    criteria=("orch-sane-defaults",),
    why="Nodes with different distributions give a job different libraries depending on where it lands.",
    fix="Reinstall the odd nodes from the image of the majority.",
)
def uniform(releases: Fleet[OsRelease]) -> Verdict:
    """Passes when every node that answered runs the same distribution and version; warns otherwise."""
    seen = sorted({r.pretty or f"{r.id} {r.version}" for r in releases.values()})
    if len(seen) == 1:
        return ok(f"{seen[0]} everywhere", seen=seen)
    return warn(f"{len(seen)} operating systems: {', '.join(seen)}", seen=seen)
