"""Bars and words of the Slurm rules."""

from __future__ import annotations

from typing import ClassVar

from assay.profiles import Profile
from assay.profiles.number import Number, Words


class Slurm(Profile, frozen=True):
    """Numbers of slurm.toml; units are in the names."""

    file: ClassVar[str] = "slurm.toml"

    cpus_per_gpu: Number
    memory_per_gpu_gib: Number
    default_memory_share: Number
    free_over_real: Number
    health_interval_s: Number
    unkillable_factor: Number
    slurmd_timeout_s: Number
    cred_expire_s: Number
    drain_days: Number
    repeated_drains: Number
    unusable_percent: Number
    spare_percent: Number
    maintenance_days: Number
    reservation_days: Number
    flat_nodes: Number
    rack_nodes: Number
    rack_down: Number
    release_months: Number
    tray_gpus: Number
    prolog_s: Number
    busy_threads: Number
    waiting_messages: Number
    waiting_records: Number
    commands: Words
    tools: Words
    package_managers: Words
    empty_reasons: Words
    hopeless_reasons: Words
    validating: Words
    storage_reasons: Words
