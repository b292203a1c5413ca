"""All scenarios by name."""

from __future__ import annotations

from assay.errors import UsageError
from assay.lab.scenario import Scenario
from assay.lab.scenarios import machines, monitoring, provider, scheduler
from assay.lab.spec import SHAPES, Spec

SCENARIOS: dict[str, Scenario] = {
    one.name: one for one in (*provider.ALL, *monitoring.ALL, *machines.ALL, *scheduler.ALL)
}


def scenario(name: str) -> Scenario:
    """The scenario of this name, or UsageError."""
    if name not in SCENARIOS:
        raise UsageError(f"unknown scenario {name!r}", hint=f"one of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def fits(spec: Spec, needed: Scenario) -> None:
    """UsageError for a lab that cannot show a scenario."""
    shape, nodes = needed.shape or spec.shape, needed.nodes or spec.nodes
    if spec.shape != shape or spec.nodes < nodes:
        raise UsageError(
            f"{needed.name} needs {nodes} nodes of shape {shape}",
            hint=f"assay lab up --scenario {needed.name} chooses them",
        )


def fitting(name: str, shape: str | None, nodes: int | None) -> tuple[str, int]:
    """Shape and number of nodes of a lab for a scenario, where its user leaves them open."""
    needed = scenario(name)
    return shape or needed.shape or next(iter(SHAPES)), nodes or needed.nodes or Spec().nodes
