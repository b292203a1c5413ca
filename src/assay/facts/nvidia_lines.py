"""The short outputs of nvidia-smi: `-L` (list of GPUs and MIG devices), `dmon`, `pmon` and `--version`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.nvidia import MigDevice, SmiFailure
from assay.facts.nvidia_errors import smi_failure

_GPU = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^)\s]+)\)\s*$")
_VERSION = re.compile(r"^[ \t]*([A-Z][A-Z -]*[A-Z]) version[ \t]*:[ \t]*(\d[\w.]*)", re.MULTILINE | re.IGNORECASE)
_MIG = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^)\s]+)\)\s*$")


class ListedGpu(Struct, frozen=True, kw_only=True):
    """One line of `nvidia-smi -L` and its MIG devices."""

    index: int = -1
    name: str = ""
    uuid: str = ""
    mig_devices: tuple[MigDevice, ...] = ()


class SmiList(Struct, frozen=True, kw_only=True):
    """`nvidia-smi -L`; `failure` = what it complained about beside or instead of the list."""

    gpus: tuple[ListedGpu, ...] = ()
    failure: SmiFailure | None = None


class SmiMonitor(Struct, frozen=True, kw_only=True):
    """`nvidia-smi dmon` or `pmon`: units by column, and rows by column; None where the tool prints "-"."""

    columns: tuple[str, ...] = ()
    units: dict[str, str] = {}
    rows: tuple[dict[str, float | str | None], ...] = ()


class SmiVersions(Struct, frozen=True, kw_only=True):
    """`nvidia-smi --version`: newer releases call the driver "KMD" and CUDA "CUDA UMD"."""

    smi: str | None = None
    nvml: str | None = None
    driver: str | None = None
    cuda: str | None = None


def parse_versions(text: str) -> SmiVersions:
    """The versions; a line that says only that its name is deprecated has none."""
    found = {name.upper(): version for name, version in _VERSION.findall(text)}
    if "NVIDIA-SMI" not in found:
        raise ValueError("not the output of nvidia-smi --version")
    return SmiVersions(
        smi=found["NVIDIA-SMI"],
        nvml=found.get("NVML"),
        driver=found.get("KMD") or found.get("DRIVER"),
        cuda=found.get("CUDA UMD") or found.get("CUDA"),
    )


def parse_list(text: str) -> SmiList:
    """GPUs and MIG devices; ValueError for a text that holds neither these nor a known complaint."""
    gpus: list[ListedGpu] = []
    mig: list[list[MigDevice]] = []
    others: list[str] = []
    for line in text.splitlines():
        if found := _GPU.match(line):
            gpus.append(ListedGpu(index=int(found[1]), name=found[2], uuid=found[3]))
            mig.append([])
        elif (found := _MIG.match(line)) and mig:
            mig[-1].append(MigDevice(profile=found[1], index=int(found[2]), uuid=found[3]))
        elif line.strip():
            others.append(line)
    failure = smi_failure("\n".join(others))
    if not gpus and failure is None:
        raise ValueError("not the output of nvidia-smi -L")
    listed = tuple(
        ListedGpu(index=g.index, name=g.name, uuid=g.uuid, mig_devices=tuple(m)) for g, m in zip(gpus, mig, strict=True)
    )
    return SmiList(gpus=listed, failure=failure)


def parse_monitor(text: str) -> SmiMonitor:
    """Samples below a header of two lines that repeats in long runs; the command of pmon may hold blanks."""
    columns: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    rows: list[dict[str, float | str | None]] = []
    for line in text.splitlines():
        words = line.lstrip("# ").split()
        if line.startswith("#"):
            if "gpu" in words:
                columns = tuple(words)
            elif "Idx" in words:
                units = tuple(words)
        elif columns and words:
            cells = line.split(None, len(columns) - 1)
            if len(cells) == len(columns):
                rows.append({column: _sample(cell.strip()) for column, cell in zip(columns, cells, strict=True)})
    if not columns:
        raise ValueError("no header line of nvidia-smi dmon or pmon")
    return SmiMonitor(columns=columns, units=dict(zip(columns, units, strict=False)), rows=tuple(rows))


def _sample(cell: str) -> float | str | None:
    if cell == "-":
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvidia-smi -L": parse_list,
    "nvidia-smi --version": parse_versions,
    "nvidia-smi dmon": parse_monitor,
    "nvidia-smi pmon": parse_monitor,
}
