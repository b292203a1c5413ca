"""How GPUs and NICs of a node hang together: `nvidia-smi topo -m`, and which GPUs reach each other: `topo -p2p`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from assay.facts.source import source
from assay.facts.text import plain
from assay.model import Exec, Fact, Missing, Probe, RawFact

_DEVICE = re.compile(r"^[A-Za-z][A-Za-z0-9_.:-]*\d[\w.]*$")
_GPU = re.compile(r"^GPU\d+$")
_CODE = re.compile(r"^(?:X|SYS|SOC|NODE|PHB|PXB|PIX|NV\d+|C2C|N/A)$")
_PEER = re.compile(r"^(?:X|OK|U|DR|[CGT]?NS)$")
_TAIL = re.compile(r"CPU Affinity|GPU NUMA ID|NUMA Affinity")
_LEGEND = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$")
_NAMES = {"CPU Affinity": "cpu_affinity", "NUMA Affinity": "numa", "GPU NUMA ID": "gpu_numa_id"}


class NvidiaTopology(Fact, frozen=True):
    """`links[row][column]` = NV18, PIX, PXB, PHB, NODE, SYS or X. `complete` = every GPU of the header has its row."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    links: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    nic_names: dict[str, str] = msgspec.field(default_factory=dict)
    cpu_affinity: dict[str, str] = msgspec.field(default_factory=dict)
    numa: dict[str, str] = msgspec.field(default_factory=dict)
    gpu_numa_id: dict[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[str, ...] = ()
    complete: bool = True


@source(Probe("nvidia.topo", (Exec("matrix", ("nvidia-smi", "topo", "-m"), timeout_s=20.0),)))
def nvidia_topo(raw: RawFact) -> NvidiaTopology | Missing:
    """The matrix of `nvidia-smi topo -m`."""
    text = raw.out("matrix")
    if not _header(text.splitlines()):
        words = (text + raw.read("matrix").err).strip().splitlines()
        return Missing("failed", f"nvidia-smi topo -m: {words[0] if words else 'no matrix'}"[:300])
    return topology(text)


def _header(lines: list[str]) -> tuple[int, list[str]] | None:
    for at, line in enumerate(lines):
        heading = _TAIL.split(plain(line))[0].split()
        if heading and heading[0].startswith("GPU") and all(map(_DEVICE.match, heading)):
            return at, heading
    return None


def topology(text: str) -> NvidiaTopology:
    """Rows by device name; cells are separated by tabs or any number of blanks, affinity cells may be empty."""
    lines = [plain(line) for line in text.splitlines()]
    found = _header(lines)
    if found is None:
        raise ValueError("no header row of nvidia-smi topo -m")
    at, devices = found
    tail = _TAIL.findall(lines[at])
    links: dict[str, dict[str, str]] = {}
    affinity: dict[str, dict[str, str]] = {name: {} for name in _NAMES.values()}
    for line in lines[at + 1 :]:
        cells = line.split()
        if len(cells) <= len(devices) or cells[0] not in devices:
            continue
        codes = cells[1 : len(devices) + 1]
        if not all(map(_CODE.match, codes)):
            raise ValueError(f"{cells[0]}: not a row of codes: {' '.join(codes)[:80]}")
        links[cells[0]] = dict(zip(devices, codes, strict=True))
        for name, value in _affinity(line, tail, cells[len(devices) + 1 :]):
            affinity[_NAMES[name]][cells[0]] = value
    gpus = tuple(d for d in devices if _GPU.match(d))
    return NvidiaTopology(
        gpus=gpus,
        nics=tuple(d for d in devices if not _GPU.match(d)),
        links=links,
        nic_names={m[1]: m[2] for line in lines if (m := _LEGEND.match(line))},
        columns=tuple(tail),
        complete=all(gpu in links for gpu in gpus),
        **affinity,
    )


def _affinity(line: str, tail: list[str], cells: list[str]) -> list[tuple[str, str]]:
    """Affinity cells by column: tab-separated rows keep empty cells, others are read in order."""
    if len(cells) < len(tail) and "\t" in line:
        wide = [cell.strip() for cell in line.rstrip("\n").split("\t")]
        cells = [cell for cell in wide[len(wide) - len(tail) - (wide.count("") > 0) :] if cell]
    return [(name, cell) for name, cell in zip(tail, cells, strict=False) if cell]


def peer_access(text: str) -> dict[str, dict[str, str]]:
    """Row -> column -> OK, NS, CNS, GNS, TNS, DR, U or X, as `topo -p2p` prints it for one capability."""
    lines = [plain(line).split() for line in text.splitlines()]
    devices = next((cells for cells in lines if cells and all(map(_GPU.match, cells))), [])
    rows = [cells for cells in lines if devices and len(cells) == len(devices) + 1 and cells[0] in devices]
    if not rows or not all(_PEER.match(code) for _, *codes in rows for code in codes):
        raise ValueError("no matrix of nvidia-smi topo -p2p")
    return {row: dict(zip(devices, codes, strict=True)) for row, *codes in rows}


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvidia-smi topo -m": topology,
    "nvidia-smi topo -mp": topology,
    "nvidia-smi topo -p2p": peer_access,
}
