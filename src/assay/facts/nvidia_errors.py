"""What nvidia-smi and NVML say when they cannot answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from assay.facts.nvidia import SmiFailure, SmiState
from assay.facts.pci_address import sysfs_name

_BUS = r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
_BUS_ID = re.compile(_BUS)
_LIBRARY = re.compile(r"NVML library version:\s*(\d+(?:\.\d+)+)")
_INIT = re.compile(r"Failed to initialize NVML:\s*([^\n]+)")
_SPACES = re.compile(r"\s+")

# Words of the message -> cause; the first that matches counts.
_CAUSES = (
    ("library version mismatch", "driver_library_mismatch"),
    ("inforom is corrupted", "inforom_corrupted"),
    ("insufficient permissions", "insufficient_permissions"),
    ("driver not loaded", "driver_not_loaded"),
    ("driver is not loaded", "driver_not_loaded"),
    ("couldn't communicate with the nvidia driver", "driver_not_loaded"),
    ("couldn't find libnvidia-ml", "library_missing"),
    ("not found in system path", "library_missing"),
    ("gpu access blocked by the operating system", "access_blocked"),
    ("gpu is lost", "gpu_lost"),
    ("gpu requires reset", "reset_required"),
    ("fallen off the bus", "gpu_lost"),
    ("gpu not found", "gpu_not_found"),
    ("not supported", "not_supported"),
    ("timeout", "timeout"),
    ("unknown error", "unknown_error"),
    ("no devices were found", "no_devices"),
    ("no nvidia gpu", "no_devices"),
    ("command not found", "command_not_found"),
    ("no such file", "command_not_found"),
    ("segmentation fault", "crashed"),
)
_DENSE_CAUSES = tuple((words.replace(" ", ""), name) for words, name in _CAUSES)


def smi_failure(text: str) -> SmiFailure | None:
    """The complaint in what nvidia-smi printed, None when the text holds none. Line wraps of a terminal are undone."""
    message = _SPACES.sub(" ", text).strip()
    dense = message.replace(" ", "")  # a terminal wraps inside words too
    low = dense.lower()
    cause = next((name for words, name in _DENSE_CAUSES if words in low), None)
    state = _state(low, cause)
    if state is None:
        return None
    bus = _BUS_ID.search(message) or _BUS_ID.search(dense)
    library = _LIBRARY.search(message)
    return SmiFailure(
        state=state,
        cause=cause,
        pci=sysfs_name(bus[1]) if bus else None,
        library_version=library[1] if library else None,
        scope_hint="container" if state == "nvml_init_failed" and cause == "unknown_error" else None,
        message=message[:500],
    )


def _state(low: str, cause: str | None) -> SmiState | None:
    if "failedtoinitializenvml" in low:
        return "no_driver" if cause == "driver_not_loaded" else "nvml_init_failed"
    if "unabletodeterminethedevicehandle" in low:
        return "gpu_lost" if cause == "gpu_lost" else "gpu_unreadable"
    if "hasfailedbecause" in low:
        return "no_driver" if cause == "driver_not_loaded" else "nvml_init_failed"
    states: dict[str | None, SmiState] = {
        "gpu_lost": "gpu_lost",
        "inforom_corrupted": "inforom_corrupted",
        "reset_required": "gpu_unreadable",
        "no_devices": "no_devices",
        "driver_not_loaded": "no_driver",
        "library_missing": "nvml_init_failed",
        "driver_library_mismatch": "nvml_init_failed",
        "command_not_found": "not_run",
        "crashed": "failed",
    }
    return states.get(cause)


def parse_error(text: str) -> SmiFailure:
    """The complaint of nvidia-smi; ValueError when the text holds none."""
    failure = smi_failure(text)
    if failure is None:
        raise ValueError("no error of nvidia-smi that is known")
    return failure


FORMATS: dict[str, Callable[[str], Any]] = {"nvidia-smi error": parse_error}
