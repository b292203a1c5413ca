"""Bars for monitoring and health checks."""

from __future__ import annotations

from typing import ClassVar

from assay.profiles import Profile
from assay.profiles.number import Number, Sourced


class Units(Sourced, frozen=True, kw_only=True):
    """Unit names without suffix: those a node cannot do without, and prefixes of those that come and go."""

    vital: frozenset[str]
    passing: tuple[str, ...]
    needs_nvswitch: frozenset[str]


class ClockSources(Sourced, frozen=True, kw_only=True):
    """Kernel clock sources that are cheap to read, and those that are not."""

    good: frozenset[str]
    slow: frozenset[str]


class Monitoring(Profile, frozen=True):
    """All bars of the monitoring and health-check rules."""

    file: ClassVar[str] = "monitoring.toml"

    stale_days: Number
    weekly_days: Number
    light_days: Number
    diag_level: Number
    log_days: Number
    offset_ms: Number
    offset_fail_ms: Number
    units: Units
    clock_sources: ClockSources
