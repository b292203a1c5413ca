"""Where the evidence was read: in a container most of it is about an image, not about the host."""

from __future__ import annotations

from assay.checks.verdict import skip
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict


def not_the_host(place: Virtualisation | Missing, what: str) -> Verdict | None:
    """The verdict of a check about the host where the reader ran in a container, else None."""
    if isinstance(place, Missing) or not place.container:
        return None
    return skip(f"read in a container ({place.container_kind}), which does not show the host's {what}")
