"""Bars of the PCI, fabric and NCCL rules."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from assay.model import Bar
from assay.profiles import Profile


class Number(Struct, frozen=True, forbid_unknown_fields=True):
    """One number, where it comes from and when it was taken."""

    value: float
    source: str
    date: str

    @property
    def bar(self) -> Bar:
        """As a finding shows it."""
        return Bar(f"{self.value:g}", f"{self.source} ({self.date})")


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    """A version "major.minor" from which on something works."""

    value: str
    source: str
    date: str

    @property
    def parts(self) -> tuple[int, ...]:
        """For comparing."""
        return tuple(int(p) for p in self.value.split("."))

    @property
    def bar(self) -> Bar:
        """As a finding shows it."""
        return Bar(self.value, f"{self.source} ({self.date})")


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """A closed list of words, with source and date."""

    values: tuple[str, ...]
    source: str
    date: str


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Setting -> values of note, with source and date."""

    values: dict[str, tuple[str, ...]]
    source: str
    date: str


class Network(Profile, frozen=True):
    """Numbers of network.toml; units are in the names."""

    file: ClassVar[str] = "network.toml"

    flaps_tolerated: Number
    flaps_per_day: Number
    symbol_errors_per_hour: Number
    correctable_per_minute: Number
    frame_errors_per_million: Number
    roce_mtu: Number
    nic_lanes: Number
    qps_nodes: Number
    dmabuf_kernel: Release
    automatic_gid: Release
    gpus_with_fabric: Number
    acs_redirecting: Words
    nccl_forced: Words
    nccl_disabling: Settings
