"""NVIDIA HPC SDK: the releases on disk."""

from __future__ import annotations

import re

from assay.facts.source import source
from assay.model import Fact, Missing, Probe, RawFact, Stat

_RELEASE = re.compile(r"/Linux_\w+/(\d{2}\.\d{1,2})$")


class HpcSdk(Fact, frozen=True):
    """Releases side by side, such as 26.9; the directories named by a year are links to them."""

    releases: tuple[str, ...] = ()


@source(
    Probe("toolchain.hpc_sdk", (Stat("releases", ("/opt/nvidia/hpc_sdk/Linux_*/*", "/opt/nvhpc/Linux_*/*"), limit=64),))
)
def hpc_sdk(raw: RawFact) -> HpcSdk | Missing:
    """The directories where the SDK's packages and its installer put a release."""
    found = dict.fromkeys(m[1] for path in raw.files("releases") if (m := _RELEASE.search(path)))
    return HpcSdk(releases=tuple(found)) if found else Missing("absent", "no release of the HPC SDK")
