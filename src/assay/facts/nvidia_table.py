"""What `nvidia-smi` prints for people: the default table of all driver generations, and the vGPU table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from assay.facts.nvidia import GpuProcess, MigDevice, SmiFailure
from assay.facts.nvidia_errors import smi_failure
from assay.facts.pci_address import smi_name, sysfs_name

_DRIVER = re.compile(r"(?:Driver Version|KMD Version): *(\d[\d.]*)")
_SMI = re.compile(r"NVIDIA-SMI +(\d[\d.]*)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version: *(\d[\d.]*)")
_WIDEST = 500
_MODES = r"On|Off|WDDM|TCC|MCDM|N/A|ERR!"
_NAME_ROW = re.compile(rf"^ *(\d+) +(\S.*?)(?:  *({_MODES}))? *$")
_BUS_ROW = re.compile(r"^ *([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])(?: +(On|Off|N/A|ERR!))? *$")
_SENSOR_ROW = re.compile(r"^ *(ERR!|N/A|\d+%)? *(ERR!|N/A|\d+C) +(ERR!|N/A|P\d+|Unknown) +(\S+) */ *(\S+) *$")
_MEMORY_ROW = re.compile(r"^ *(\S+) */ *(\S+) *$")
_LOAD_ROW = re.compile(r"^ *(\S+) +(\S.*?) *$")
_PROCESS = re.compile(r"^ *(\d+) +(?:(N/A|\d+) +(N/A|\d+) +)?(\d+) +([CGM](?:\+[CGM])*|N/A) +(\S.*?) +(\d+MiB|N/A) *$")
_MIG = re.compile(r"^ *(\d+) +(\d+) +(\d+) +(\d+) *$")
_VGPU = re.compile(r"^ *(\d{4,}) +(\S.*?) *$")
_AMOUNT = re.compile(r"^(-?\d+(?:\.\d+)?)(?:MiB|W|C|%)?$")


class TableGpu(Struct, frozen=True, kw_only=True):
    """One GPU of the table. `ecc` = uncorrected errors; `unreadable` = columns with ERR!; long names end in "..."."""

    index: int = -1
    name: str | None = None
    pci: str = ""
    bus_id: str = ""
    mode: str | None = None
    display: str | None = None
    fan_pct: float | None = None
    temp_c: float | None = None
    pstate: str | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    util_pct: float | None = None
    compute_mode: str | None = None
    mig_mode: str | None = None
    ecc: int | None = None
    unreadable: tuple[str, ...] = ()


class VGpu(Struct, frozen=True, kw_only=True):
    """A virtual GPU that a host lends to a guest."""

    gpu: int = -1
    id: int = 0
    type: str = ""
    util_pct: float | None = None


class SmiTable(Struct, frozen=True, kw_only=True):
    """The table. `processes` is None when that part is not there; `failure` = what was printed in its place."""

    driver_version: str | None = None
    cuda_version: str | None = None
    driver_model: bool = False
    gpus: tuple[TableGpu, ...] = ()
    mig_devices: tuple[tuple[int, MigDevice], ...] = ()
    vgpus: tuple[VGpu, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    complete: bool = True
    failure: SmiFailure | None = None


def parse_table(text: str) -> SmiTable:
    """The table of `nvidia-smi` or `nvidia-smi vgpu`, or the complaint printed in its place."""
    failure = smi_failure("\n".join(line for line in text.splitlines() if not line.startswith(("|", "+"))))
    if "NVIDIA-SMI" not in text or "|" not in text:
        if failure is None:
            raise ValueError("not the table of nvidia-smi")
        return SmiTable(complete=False, failure=failure)
    lines = [line.rstrip() for line in text.splitlines() if line.startswith(("|", "+")) and len(line) <= _WIDEST]
    sections = _sections(lines)
    driver = _DRIVER.search(text) or _SMI.search(text)
    cuda = _CUDA.search(text)
    return SmiTable(
        driver_version=driver[1] if driver else None,
        cuda_version=cuda[1] if cuda else None,
        driver_model="Driver-Model" in text,
        gpus=tuple(_gpus(sections["gpus"])),
        mig_devices=tuple(_mig_devices(sections["mig"])),
        vgpus=tuple(_vgpus(sections["gpus"])),
        processes=tuple(_processes(sections["processes"])) if "| Processes" in text else None,
        complete=bool(lines) and lines[-1].startswith("+") and lines[-1].endswith("+"),
        failure=failure,
    )


def _sections(lines: Iterable[str]) -> dict[str, list[list[str]]]:
    """Cells of the rows below each double rule, by section; a border is an empty row."""
    sections: dict[str, list[list[str]]] = {"gpus": [], "mig": [], "processes": []}
    name, inside = "gpus", False
    for line in lines:
        if line.startswith("|="):
            inside = True
        elif line.startswith("| Processes"):
            name, inside = "processes", False
        elif line.startswith("| MIG devices"):
            name, inside = "mig", False
        elif inside:
            sections[name].append([] if line.startswith(("+", "|-")) else line.strip("|").split("|"))
    return sections


def _gpus(rows: list[list[str]]) -> Iterable[TableGpu]:
    """GPUs of two or three rows each; a row that does not follow its GPU is left out."""
    for i, row in enumerate(rows):
        name = _NAME_ROW.match(row[0]) if len(row) == 3 else None
        bus = _BUS_ROW.match(row[1]) if name else None
        if not name or not bus:
            continue
        rest = [r for r in rows[i + 1 : i + 3] if len(r) == 3]
        yield _gpu(name, bus, row[2].strip(), rest)


def _gpu(name: re.Match[str], bus: re.Match[str], third: str, rest: list[list[str]]) -> TableGpu:
    sensors = _SENSOR_ROW.match(rest[0][0]) if rest else None
    memory = _MEMORY_ROW.match(rest[0][1]) if rest and sensors else None
    load = _LOAD_ROW.match(rest[0][2]) if rest and sensors else None
    last = rest[1][2].strip() if len(rest) > 1 and sensors else None
    fan, temp, pstate, power, cap = sensors.groups() if sensors else (None,) * 5
    cells = {"fan": fan, "temp": temp, "pstate": pstate, "power": power, "power_cap": cap, "ecc": third}
    return TableGpu(
        index=int(name[1]),
        name=name[2],
        pci=sysfs_name(bus[1]),
        bus_id=smi_name(bus[1]),
        mode=name[3],
        display=bus[2],
        fan_pct=_amount(fan),
        temp_c=_amount(temp),
        pstate=pstate if pstate and pstate.startswith("P") else None,
        power_w=_amount(power),
        power_cap_w=_amount(cap),
        memory_used_mib=_amount(memory[1]) if memory else None,
        memory_total_mib=_amount(memory[2]) if memory else None,
        util_pct=_amount(load[1]) if load else _amount(third),
        compute_mode=load[2] if load else None,
        mig_mode=None if last in ("", "N/A") else last,
        ecc=int(third) if third.isdecimal() else None,
        unreadable=tuple(column for column, cell in cells.items() if cell == "ERR!"),
    )


def _amount(cell: str | None) -> float | None:
    found = _AMOUNT.match(cell) if cell else None
    return float(found[1]) if found else None


def _vgpus(rows: list[list[str]]) -> Iterable[VGpu]:
    """Rows of the vGPU table below the GPU they belong to."""
    gpu = -1
    for row in rows:
        if len(row) != 3:
            continue
        if (name := _NAME_ROW.match(row[0])) and _BUS_ROW.match(row[1]):
            gpu = int(name[1])
        elif (found := _VGPU.match(row[0])) and not _BUS_ROW.match(row[1]):
            yield VGpu(gpu=gpu, id=int(found[1]), type=found[2], util_pct=_amount(row[2].strip()))


def _mig_devices(rows: list[list[str]]) -> Iterable[tuple[int, MigDevice]]:
    for row in rows:
        ids = _MIG.match(row[0]) if len(row) == 4 else None
        memory = _MEMORY_ROW.match(row[1]) if ids else None
        if ids and memory:
            sm, _, unc = row[2].strip().partition(" ")
            yield (
                int(ids[1]),
                MigDevice(
                    index=int(ids[4]),
                    gpu_instance=int(ids[2]),
                    compute_instance=int(ids[3]),
                    sm_count=int(sm) if sm.isdecimal() else None,
                    memory_used_mib=_amount(memory[1]),
                    memory_total_mib=_amount(memory[2]),
                    sram_uncorrectable=int(unc) if unc.strip().isdecimal() else None,
                ),
            )


def _processes(rows: list[list[str]]) -> Iterable[GpuProcess]:
    for row in rows:
        if found := _PROCESS.match("|".join(row)):
            yield GpuProcess(
                gpu=int(found[1]),
                gpu_instance=int(found[2]) if found[2] and found[2].isdecimal() else None,
                pid=int(found[4]),
                kind=found[5],
                name=found[6],
                memory_mib=_amount(found[7]),
            )


FORMATS: dict[str, Callable[[str], Any]] = {"nvidia-smi": parse_table, "nvidia-smi vgpu": parse_table}
