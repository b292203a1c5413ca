"""What it means that the one step a source cannot do without was not read."""

from __future__ import annotations

from assay.facts.source import why_missing
from assay.model import Missing, RawFact


def gap(raw: RawFact, key: str, absent: str) -> Missing | None:
    """None when the step `key` was read; `absent` says in the reader's words what "not found" means there."""
    missing = why_missing((raw.read(key),))
    return Missing("absent", absent) if missing and missing.kind == "absent" else missing
