"""Providers whose automation works, or who have none."""

from __future__ import annotations

from assay.lab.scenario import File, Scenario, program, settings

LIFECYCLE, HEALTH = "/usr/local/sbin/node-lifecycle", "/etc/slurm/node-health"
_SERVICE = "PartitionName=service Nodes={all} AllowGroups=root Hidden=YES MaxTime=30 State=UP"
_RC = File(f"#!/bin/bash\nsetsid {LIFECYCLE} >>/var/log/node-lifecycle.log 2>&1 </dev/null &\n", 0o755)


def watched(interval_s: int = 3) -> dict[str, str | None]:
    """Slurm runs the health check on every node, whatever it does."""
    return {
        "HealthCheckProgram": HEALTH,
        "HealthCheckInterval": str(interval_s),
        "HealthCheckNodeState": "ANY",
    }


def _automation(
    health: dict[str, str] | None = None, lifecycle: dict[str, str] | None = None
) -> dict[str, dict[str, File]]:
    """The files of a health check on the nodes and of what cares for drained nodes on ctl, with their settings."""
    return {
        "*": {HEALTH: program("node-health"), "/etc/slurm/node-health.conf": settings(**(health or {}))},
        "gpu*": {"/usr/local/sbin/node-validate": program("node-validate")},
        "ctl": {
            LIFECYCLE: program("node-lifecycle"),
            "/etc/node-lifecycle.conf": settings(**(lifecycle or {})),
            "/etc/rc.local": _RC,
        },
    }


def cared_for(
    name: str,
    summary: str,
    health: dict[str, str] | None = None,
    lifecycle: dict[str, str] | None = None,
) -> Scenario:
    """A provider with the whole automation, sound but for the settings given."""
    return Scenario(
        name,
        summary,
        slurm=watched(),
        partitions=(_SERVICE,),
        files=_automation(health, lifecycle),
    )


ALL = (
    Scenario(
        "healthy",
        "A sound health check drains a bad node, with a reason, within seconds.",
        slurm={
            "HealthCheckProgram": "/etc/slurm/health-check",
            "HealthCheckInterval": "10",
            "HealthCheckNodeState": "ANY",
        },
        files={"*": {"/etc/slurm/health-check": program("health-check")}},
    ),
    cared_for(
        "healthy-provider",
        "Drain with a reason, hot spare, repair, validation in a reservation, return: all by itself.",
    ),
    Scenario("no-health-checks", "Nothing on the nodes looks for faults.", ("inject", "audit")),
)
