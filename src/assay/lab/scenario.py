"""What a lab's provider does well or badly, as changes to a plain cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.errors import UsageError

_HEALTH_CHECK = (Path(__file__).parent / "scripts" / "health-check").read_text(encoding="utf-8")


class File(Struct, frozen=True):
    """A file that a scenario puts into a host, before it starts."""

    text: str
    mode: int = 0o644


class Scenario(Struct, frozen=True):
    """Hosts are named by globs over "gpu01", "login", ... and "spare".

    `slurm` = keys of slurm.conf (None takes one away); `nodes` = host glob -> keys of its NodeName line;
    `topology` = Slurm is told which nodes share a leaf switch; `files` = host glob -> path -> file, where /etc/slurm is
    one directory shared by all and goes under "*"; `states` = host glob -> fields of the state of its hardware;
    `after` = (host, argv) run once all are idle.
    """

    name: str
    summary: str
    slurm: Mapping[str, str | None] = {}
    nodes: Mapping[str, Mapping[str, str]] = {}
    topology: bool = True
    files: Mapping[str, Mapping[str, File]] = {}
    states: Mapping[str, Mapping[str, Any]] = {}
    after: tuple[tuple[str, tuple[str, ...]], ...] = ()


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "healthy",
            "A sound health check drains a bad node, with a reason, within seconds.",
            slurm={
                "HealthCheckProgram": "/etc/slurm/health-check",
                "HealthCheckInterval": "10",
                "HealthCheckNodeState": "ANY",
            },
            files={"*": {"/etc/slurm/health-check": File(_HEALTH_CHECK, 0o755)}},
        ),
        Scenario("no-health-checks", "Nothing on the nodes looks for faults."),
    )
}


def scenario(name: str) -> Scenario:
    """The scenario of this name, or UsageError."""
    if name not in SCENARIOS:
        raise UsageError(f"unknown scenario {name!r}", hint=f"one of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
