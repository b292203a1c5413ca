"""Numbers for AMD GPUs, NVLink, Fabric Manager and IMEX."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from msgspec import Struct

from assay.profiles import Profile
from assay.profiles.number import Number, Sourced


class NvLinkProduct(Struct, frozen=True, forbid_unknown_fields=True):
    """NVLink of one product. `links` 0 = optional bridges. `manager` = boards with NVSwitch want Fabric Manager."""

    match: str
    links: int
    gbs: float = 0.0
    manager: bool = False
    domain: bool = False


class AmdBoard(Struct, frozen=True, forbid_unknown_fields=True):
    """A baseboard of AMD accelerators, found by the product name."""

    match: str
    gpus: int


class NvLinkTable(Sourced, frozen=True, kw_only=True):
    """NVLink by product; the first entry whose `match` is in the product name counts."""

    table: tuple[NvLinkProduct, ...]


class AmdBoards(Sourced, frozen=True, kw_only=True):
    """The baseboards that are known."""

    table: tuple[AmdBoard, ...]


class Interconnect(Profile, frozen=True):
    """Bars of the AMD and NVLink rules."""

    file: ClassVar[str] = "interconnect.toml"

    nvlink: NvLinkTable
    nvlink_crc_errors: Number
    amd_boards: AmdBoards
    amd_correctable: Number
    amd_bad_pages_share: Number
    amd_thermal_margin_c: Number
    amd_hot_c: Number
    amd_idle_share: Number
    amd_busy_util_pct: Number
    amd_pcie_replays: Number


@cache
def nvlink_product(profile: Interconnect, name: str) -> NvLinkProduct | None:
    """The NVLink entry of a product name, None for one that the table does not know."""
    return next((entry for entry in profile.nvlink.table if entry.match in name), None)
