"""Host memory: size, swap, huge pages, and the error counts of its controllers."""

from __future__ import annotations

import re

from msgspec import Struct

from assay.facts.source import source, why_missing
from assay.facts.text import whole
from assay.model import Fact, Files, Missing, Probe, RawFact

_LINE = re.compile(r"^([\w()]+):\s+(\d+)(?: kB)?$", re.MULTILINE)
_CHOSEN = re.compile(r"\[(\w[\w+-]*)\]")
_PAGES = re.compile(r"/hugepages-(\d+)kB/(\w+)$")
_UNIT = re.compile(r"/mc(\d+)/(?:(dimm\d+|rank\d+|csrow\d+)/)?(\w+)$")
_EDAC = "/sys/devices/system/edac/mc/mc*"
_HUGE = "/sys/kernel/mm/transparent_hugepage"


class HugePages(Struct, frozen=True, kw_only=True):
    """The static pool of one page size."""

    size_kib: int
    total: int = 0
    free: int = 0


class Memory(Fact, frozen=True):
    """Memory and swap in MiB. `corrupted_mib` = pages taken out of use after uncorrectable errors."""

    total_mib: int | None = None
    available_mib: int | None = None
    swap_total_mib: int | None = None
    swap_used_mib: int | None = None
    corrupted_mib: float | None = None
    huge_pages: tuple[HugePages, ...] = ()
    thp: str | None = None
    thp_defrag: str | None = None

    @property
    def huge_mib(self) -> int:
        """MiB held back in static huge pages."""
        return sum(p.total * p.size_kib for p in self.huge_pages) // 1024


class MemoryController(Struct, frozen=True, kw_only=True):
    """Errors one memory controller counted since its driver was loaded."""

    id: int
    name: str = ""
    size_mib: int | None = None
    corrected: int | None = None
    uncorrected: int | None = None


class Dimm(Struct, frozen=True, kw_only=True):
    """One module (or rank) with the errors counted on it."""

    controller: int
    label: str
    corrected: int | None = None
    uncorrected: int | None = None


class Edac(Fact, frozen=True):
    """ECC of the host memory. `since_s` = how long the counters have been running."""

    controllers: tuple[MemoryController, ...] = ()
    dimms: tuple[Dimm, ...] = ()
    since_s: int | None = None


@source(
    Probe(
        "memory.info",
        (
            Files("meminfo", ("/proc/meminfo",)),
            Files(
                "pool", tuple(f"/sys/kernel/mm/hugepages/hugepages-*/{f}" for f in ("nr_hugepages", "free_hugepages"))
            ),
            Files("thp", (f"{_HUGE}/enabled", f"{_HUGE}/defrag")),
        ),
    )
)
def memory_info(raw: RawFact) -> Memory | Missing:
    """/proc/meminfo with the huge page settings of sysfs."""
    kib = {name: int(value) for name, value in _LINE.findall(raw.out("meminfo"))}
    if "MemTotal" not in kib:
        return Missing("unparsable", "/proc/meminfo has no MemTotal")
    swap, free = kib.get("SwapTotal"), kib.get("SwapFree")
    thp = raw.files("thp")
    return Memory(
        total_mib=kib["MemTotal"] // 1024,
        available_mib=_mib(kib.get("MemAvailable")),
        swap_total_mib=_mib(swap),
        swap_used_mib=None if swap is None or free is None else (swap - free) // 1024,
        corrupted_mib=kib["HardwareCorrupted"] / 1024 if "HardwareCorrupted" in kib else None,
        huge_pages=_huge_pages(raw.files("pool")),
        thp=_chosen(thp.get(f"{_HUGE}/enabled", "")),
        thp_defrag=_chosen(thp.get(f"{_HUGE}/defrag", "")),
    )


@source(
    Probe(
        "memory.edac",
        (
            Files("controllers", tuple(f"{_EDAC}/{f}" for f in ("ce_count", "ue_count", "mc_name", "size_mb"))),
            Files("since", (f"{_EDAC}/seconds_since_reset",)),
            Files(
                "modules",
                tuple(
                    f"{_EDAC}/{unit}/{f}"
                    for unit in ("dimm*", "rank*")
                    for f in ("dimm_label", "dimm_ce_count", "dimm_ue_count")
                ),
            ),
        ),
    ),
    sees_missing=True,
)
def memory_edac(raw: RawFact) -> Edac | Missing:
    """The counters of the kernel's EDAC drivers; a VM has none."""
    if missing := why_missing(
        [raw.read("controllers")], "no EDAC memory controller (a virtual machine, or its driver is not loaded)"
    ):
        return missing
    units = _edac_units(raw.files("controllers") | raw.files("modules"))
    controllers = tuple(_controller(mc, values) for (mc, unit), values in units.items() if not unit)
    since = [int(s) for s in raw.files("since").values() if s.strip().isdigit()]
    return Edac(
        controllers=controllers,
        dimms=tuple(_dimm(mc, unit, values) for (mc, unit), values in units.items() if unit),
        since_s=max(since, default=None),
    )


def _edac_units(files: dict[str, str]) -> dict[tuple[int, str], dict[str, str]]:
    units: dict[tuple[int, str], dict[str, str]] = {}
    for path, text in files.items():
        if found := _UNIT.search(path):
            units.setdefault((int(found[1]), found[2] or ""), {})[found[3]] = text.strip()
    return units


def _controller(number: int, values: dict[str, str]) -> MemoryController:
    return MemoryController(
        id=number,
        name=values.get("mc_name", ""),
        size_mib=whole(values.get("size_mb")),
        corrected=whole(values.get("ce_count")),
        uncorrected=whole(values.get("ue_count")),
    )


def _dimm(controller: int, unit: str, values: dict[str, str]) -> Dimm:
    return Dimm(
        controller=controller,
        label=values.get("dimm_label") or f"mc{controller}/{unit}",
        corrected=whole(values.get("dimm_ce_count")),
        uncorrected=whole(values.get("dimm_ue_count")),
    )


def _mib(kib: int | None) -> int | None:
    return None if kib is None else kib // 1024


def _chosen(text: str) -> str | None:
    found = _CHOSEN.search(text)
    return found[1] if found else None


def _huge_pages(files: dict[str, str]) -> tuple[HugePages, ...]:
    pools: dict[int, dict[str, int]] = {}
    for path, text in files.items():
        found = _PAGES.search(path)
        if found and text.strip().isdigit():
            pools.setdefault(int(found[1]), {})[found[2]] = int(text)
    return tuple(
        HugePages(size_kib=size, total=p.get("nr_hugepages", 0), free=p.get("free_hugepages", 0))
        for size, p in sorted(pools.items())
    )
