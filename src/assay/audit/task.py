"""What a run is to be filled with."""

from __future__ import annotations

from msgspec import Struct

from assay.launch.survey import Survey
from assay.model import Probe, Target


class Task(Struct, frozen=True):
    """Nodes, probes, and how long busy nodes are waited for. `survey` = what the scheduler has just said, if it has."""

    target: Target
    nodes: tuple[str, ...]
    probes: tuple[Probe, ...]
    survey: Survey | None = None
    wait_s: float = 0.0

    def at(self, place: str) -> tuple[Probe, ...]:
        """The probes of nodes, or those of the scheduler."""
        return tuple(probe for probe in self.probes if probe.place == place)
