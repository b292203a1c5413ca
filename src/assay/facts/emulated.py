"""Whether a host is made up: a lab's hosts say so themselves."""

from __future__ import annotations

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact

MARK = "/etc/assay-emulated"


class Emulated(Fact, frozen=True):
    """The hardware of this host is emulated; `by` = by what."""

    by: str = ""


@source(Probe("host.emulated", (Files("mark", (MARK,), cap=256),)))
def emulated(raw: RawFact) -> Emulated | Missing:
    """The mark of an emulated host."""
    return Emulated(by=raw.out("mark").strip())
