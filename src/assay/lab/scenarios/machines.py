"""..."""

from __future__ import annotations

from assay.lab.scenario import Scenario

ALL: tuple[Scenario, ...] = ()
