"""Numbers for NVIDIA GPUs: boards, idle power, error counts, temperatures."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from msgspec import Struct

from assay.model import Bar
from assay.profiles import Profile
from assay.profiles.number import Number, Sourced


class GpuBoard(Struct, frozen=True, forbid_unknown_fields=True):
    """How many GPUs of a product a machine holds: whole machines (`bare`) and guests that get a part of one."""

    match: str
    bare: tuple[int, ...]
    guest: tuple[int, ...]


class IdleCeiling(Struct, frozen=True, forbid_unknown_fields=True):
    """Power that an idle GPU of a product stays under; None = the source gives none for it."""

    match: str
    watts: float | None = None


class GpuBoards(Sourced, frozen=True, kw_only=True):
    """Boards by product; the first entry whose `match` is in the product name counts."""

    table: tuple[GpuBoard, ...]


class IdleCeilings(Sourced, frozen=True, kw_only=True):
    """Idle power by product; the first entry whose `match` is in the product name counts."""

    table: tuple[IdleCeiling, ...]


class NvidiaBars(Profile, frozen=True):
    """Bars of the NVIDIA rules."""

    file: ClassVar[str] = "nvidia.toml"

    boards: GpuBoards
    idle: IdleCeilings
    shared_slot: tuple[str, ...]
    idle_memory_mib: Number
    stalled_util_pct: Number
    stalled_power_share: Number
    dram_correctable: Number
    sram_correctable: Number
    remapped_warn: Number
    remapped_fail: Number
    retired_warn: Number
    retired_fail: Number
    thermal_margin_c: Number
    hot_fail_c: Number
    busy_util_pct: Number
    pcie_replays: Number

    def ecc_bar(self) -> Bar:
        """The bars for corrected errors."""
        dram, sram = self.dram_correctable, self.sram_correctable
        return dram.cited(f"<= {dram.value:.0f} DRAM, {sram.value:.0f} SRAM")


@lru_cache(maxsize=256)
def board_of(profile: NvidiaBars, name: str) -> GpuBoard | None:
    """The board that carries a product, None for single cards and unknown products."""
    found = next((board for board in profile.boards.table if board.match in name), None)
    return found if found and found.bare else None


@lru_cache(maxsize=256)
def idle_watts(profile: NvidiaBars, name: str) -> float | None:
    """The idle ceiling of a product, None where the source gives none."""
    return next((entry.watts for entry in profile.idle.table if entry.match in name), None)
