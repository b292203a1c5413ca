"""Which method a judgement stands on."""

from __future__ import annotations

from typing import ClassVar

from assay.profiles import Profile


class Method(Profile, frozen=True):
    """Version and date of the method; `without` names checks (globs) it leaves out."""

    file: ClassVar[str] = "method.toml"

    version: str
    date: str
    without: tuple[str, ...] = ()
