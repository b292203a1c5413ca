"""Trackable resources: `cpu=16,mem=4000M,node=2,billing=16,gres/gpu=8,gres/gpu:h100=8`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from assay.slurm.words import amount, mib, said

Tres = Mapping[str, int | float]
_MEMORY = frozenset({"mem", "vmem"})


@functools.lru_cache(maxsize=4096)
def _tres(text: str) -> Tres:
    found: dict[str, int | float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        number = mib(value) if name in _MEMORY else amount(value)
        if number is not None:
            found[name] = number
    return MappingProxyType(found)


def tres(text: str | None) -> dict[str, int | float] | None:
    """Name -> amount (mem in MiB); {} for an empty list, None when nothing is said. Amounts of time are left out."""
    if text is None:
        return None
    return dict(_tres(text)) if said(text) else {}


def gpus(found: Mapping[str, int | float] | None) -> int | None:
    """GPUs in a list. The untyped entry counts all; typed ones count only without it. None = GPUs are not tracked."""
    if found is None:
        return None
    if "gres/gpu" in found:
        return int(found["gres/gpu"])
    typed = [n for key, n in found.items() if key.startswith("gres/gpu:")]
    return int(sum(typed)) if typed else None
