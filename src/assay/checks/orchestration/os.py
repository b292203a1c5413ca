"""The operating system a tenant finds."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.registry import Fleet, check
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
    systems = {node: r.pretty or f"{r.id} {r.version}".strip() for node, r in releases.items()}
    return alike("operating system", {"": {node: name for node, name in systems.items() if name}})
