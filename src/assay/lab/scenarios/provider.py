"""Providers whose automation works, or who have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from assay.lab.scenario import File, Scenario, Verb, program, settings

Files = Mapping[str, Mapping[str, File]]

LIFECYCLE, HEALTH = "/usr/local/sbin/node-lifecycle", "/etc/slurm/node-health"
_SERVICE = "PartitionName=service Nodes={all} AllowGroups=root Hidden=YES MaxTime=30 State=UP"
_RC = File(f"#!/bin/bash\nsetsid {LIFECYCLE} >>/var/log/node-lifecycle.log 2>&1 </dev/null &\n", 0o755)
_WRITTEN, _RUN = ("kernel", "gpus", "fabric", "storage"), "records=$(news)\n"
_CHECKS, _NODE = 'checks="kernel gpus fabric storage"\n', "node=$(hostname -s)\n"


def watched(interval_s: int = 3) -> dict[str, str | None]:
    """Slurm runs the health check on every node, whatever it does."""
    return {
        "HealthCheckProgram": HEALTH,
        "HealthCheckInterval": str(interval_s),
        "HealthCheckNodeState": "ANY",
    }


def health(
    checks: str = "kernel gpus fabric storage",
    node: str = "$(hostname -s)",
    act: Literal["drain", "insist", "log"] = "drain",
) -> File:
    """The operator's health check: what it looks at, what it takes for the node's name, what it does."""
    more = "".join(program(f"check-{name}").text for name in checks.split() if name not in _WRITTEN)
    text = program("node-health").text.replace(_RUN, f"{more}{_RUN}")
    head = text.replace(_CHECKS, f'checks="{checks}"\n').replace(_NODE, f"node={node}\n")
    return File(head + program(f"act-{act}").text, 0o755)


def cared_for(name: str, summary: str, found_by: tuple[Verb, ...], check: File, **lifecycle: str) -> Scenario:
    """A provider with a health check and, on ctl, a program that cares for drained nodes, with its settings."""
    files: Files = {
        "*": {HEALTH: check},
        "gpu*": {"/usr/local/sbin/node-validate": program("node-validate")},
        "ctl": {
            LIFECYCLE: program("node-lifecycle"),
            "/etc/node-lifecycle.conf": settings(**lifecycle),
            "/etc/rc.local": _RC,
        },
    }
    return Scenario(name, summary, found_by, slurm=watched(), partitions=(_SERVICE,), files=files)


HEALTHY = Scenario(
    "healthy",
    "A sound health check drains a bad node, with a reason, within seconds.",
    slurm={
        "HealthCheckProgram": "/etc/slurm/health-check",
        "HealthCheckInterval": "10",
        "HealthCheckNodeState": "ANY",
    },
    files={"*": {"/etc/slurm/health-check": program("health-check")}},
)


def but(name: str, summary: str, found_by: tuple[Verb, ...], **changes: Any) -> Scenario:
    """The healthy scenario with something else; keys of slurm.conf and files are added to its own."""
    changes["slurm"] = {**HEALTHY.slurm, **changes.get("slurm", {})}
    files = changes.pop("files", {})
    merged = {glob: {**HEALTHY.files.get(glob, {}), **files.get(glob, {})} for glob in {**HEALTHY.files, **files}}
    return replace(HEALTHY, name=name, summary=summary, found_by=found_by, files=merged, **changes)


ALL = (
    HEALTHY,
    cared_for(
        "healthy-provider",
        "Drain with a reason, hot spare, repair, validation in a reservation, return: all by itself.",
        (),
        health(),
    ),
    Scenario("no-health-checks", "Nothing on the nodes looks for faults.", ("audit", "inject")),
)
