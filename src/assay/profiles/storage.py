"""Bars for what two nodes see of one directory."""

from __future__ import annotations

from typing import ClassVar

from assay.profiles import Profile
from assay.profiles.number import Number


class Storage(Profile, frozen=True):
    """Numbers of storage.toml; units are in the names."""

    file: ClassVar[str] = "storage.toml"

    visible_s: Number
    import_s: Number
