"""What an answer in JSON says about itself: release, API version, errors."""

from __future__ import annotations

from msgspec import Struct


class SlurmError(Struct, frozen=True):
    """One entry of errors[], which may be filled under HTTP 200. With `number` 0 or -1 it is an error all the same."""

    description: str = ""
    number: int | None = None
    error: str = ""
    source: str = ""


class Envelope(Struct, frozen=True):
    """Release, API version (`0.0.44`, from the data_parser or the plugin) and errors of an answer."""

    release: str | None = None
    api: str | None = None
    cluster: str | None = None
    errors: tuple[SlurmError, ...] = ()
    warnings: tuple[SlurmError, ...] = ()
