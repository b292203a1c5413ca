"""Bars of the PCI, fabric and NCCL rules."""

from __future__ import annotations

from typing import ClassVar

from assay.profiles import Profile
from assay.profiles.number import Number, Release, Sourced, Words


class Settings(Sourced, frozen=True, kw_only=True):
    """Setting -> the values of note."""

    values: dict[str, tuple[str, ...]]


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
