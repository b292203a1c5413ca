"""Numbers for AMD GPUs, NVLink, Fabric Manager and IMEX."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from msgspec import Struct

from assay.model import Bar
from assay.profiles import Profile


class Number(Struct, frozen=True, forbid_unknown_fields=True):
    """A bar with where it comes from."""

    value: float
    source: str
    date: str

    def bar(self, text: str) -> Bar:
        """The bar as a verdict shows it."""
        return Bar(text, f"{self.source} ({self.date})")


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


class Interconnect(Profile, frozen=True):
    """Bars of the AMD and NVLink rules. The first entry whose `match` is in the product name counts."""

    file: ClassVar[str] = "interconnect.toml"

    nvlink_source: str
    nvlink_date: str
    nvlink: tuple[NvLinkProduct, ...]
    nvlink_crc_errors: Number
    amd_source: str
    amd_date: str
    amd_boards: tuple[AmdBoard, ...]
    amd_correctable: Number
    amd_bad_pages_share: Number
    amd_thermal_margin_c: Number
    amd_hot_c: Number
    amd_idle_share: Number
    amd_pcie_replays: Number

    def nvlink_bar(self, text: str) -> Bar:
        """A bar out of the NVLink table."""
        return Bar(text, f"{self.nvlink_source} ({self.nvlink_date})")

    def amd_board_bar(self, text: str) -> Bar:
        """A bar out of the table of AMD boards."""
        return Bar(text, f"{self.amd_source} ({self.amd_date})")


@cache
def nvlink_product(profile: Interconnect, name: str) -> NvLinkProduct | None:
    """The NVLink entry of a product name, None for one that the table does not know."""
    return next((entry for entry in profile.nvlink if entry.match in name), None)
