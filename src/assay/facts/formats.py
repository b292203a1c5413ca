"""Every output format that can be read, by the command that prints it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

Format = Callable[[str], Any]


def formats(*packages: str) -> dict[str, Format]:
    """The `FORMATS` of all modules of these packages, by command; those of assay.facts when none is named."""
    found: dict[str, Format] = {}
    for name in packages or ("assay.facts",):
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
            found.update(getattr(importlib.import_module(f"{name}.{module.name}"), "FORMATS", {}))
    return dict(sorted(found.items()))
