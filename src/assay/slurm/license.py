"""Licences: `scontrol show licenses`. The JSON reader fills the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.record import Fields, filled, records
from assay.slurm.words import whole, yes


class SlurmLicense(Fact, frozen=True):
    """One licence. Used and free need not add up to total (reserved ones, a remote deficit)."""

    name: str = ""
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    remote: bool | None = None
    other: dict[str, str] = field(default_factory=dict)


class SlurmLicenses(Fact, frozen=True):
    """All licences of one answer."""

    licenses: tuple[SlurmLicense, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None


_FIELDS: Fields = {
    "LicenseName": ("name", str),
    "Total": ("total", whole),
    "Used": ("used", whole),
    "Free": ("free", whole),
    "Reserved": ("reserved", whole),
    "Remote": ("remote", yes),
}
_NONE = "No licenses configured in Slurm."


def show_license(text: str) -> SlurmLicenses:
    """`scontrol show licenses`; its sentence for none gives none. Raises ValueError for another text."""
    read = records(text, "LicenseName", {})
    unread = tuple(line for line in read.unread if line.strip() != _NONE)
    if not read.records and not unread and _NONE not in text:
        raise ValueError("no licence in it")
    return SlurmLicenses(licenses=tuple(SlurmLicense(**filled(r, _FIELDS)) for r in read.records), unread=unread)


FORMATS: dict[str, Callable[[str], Any]] = {"scontrol show licenses": show_license, "scontrol show lic": show_license}
