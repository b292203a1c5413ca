"""AMD GPUs as the older rocm-smi tells of them: its JSON and its concise table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from assay.facts.amd_smi import AmdGpu
from assay.facts.source import source
from assay.model import Exec, Fact, Missing, Probe, RawFact

Card = dict[str, str]

_CARD = re.compile(r"card(\d+)")
_RESERVED = re.compile(
    r"^(WARNING|ERROR|.*amdgpu not (?:initiali[sz]ed|found)|.*Driver not initiali[sz]ed).*$", re.MULTILINE
)
_NUMBER = re.compile(r"\s*\(?(-?\d+(?:\.\d+)?)")
_LINK = re.compile(r"\(?([\d.]+)GT/s x(\d+)")
_MATRIX = re.compile(r"^=+ (.+?) between two GPUs =+$")
_GPU = re.compile(r"^GPU\d+$")
_GAP = re.compile(r"\s{2,}")
_LINE = re.compile(r"^GPU\[(\d+)\]\s*:\s*(.+?)\s*:\s*(.*)$")


class RocmSmi(Fact, frozen=True):
    """GPUs by rocm-smi's card number."""

    driver_version: str = ""
    gpus: tuple[AmdGpu, ...] = ()


def cards(text: str) -> dict[str, Card]:
    """The JSON of any rocm-smi option: "card0", "system" -> key -> text. ValueError with the tool's words otherwise."""
    start = text.find("{")
    if start < 0 and "device," not in text:
        raise ValueError(refusal(text) or "no JSON of rocm-smi")
    found = msgspec.json.decode(text[start:]) if start >= 0 else _csv(text)
    if not isinstance(found, dict) or not any(_CARD.fullmatch(key) or key == "system" for key in found):
        raise ValueError("no card in the JSON of rocm-smi")
    return {key: {k: str(v) for k, v in card.items()} for key, card in found.items() if isinstance(card, dict)}


def _csv(text: str) -> dict[str, Card]:
    """The same cards from `--csv`: the first column names the card. A heading may come again for "system"."""
    found: dict[str, Card] = {}
    columns: list[str] = []
    for line in text.splitlines():
        cells = line.split(",")
        if cells[0] == "device":
            columns = cells
        elif columns and len(cells) == len(columns):
            found[cells[0]] = dict(zip(columns[1:], cells[1:], strict=True))
    return found


def refusal(text: str) -> str:
    """The line with which rocm-smi says that it has nothing to report, else ""."""
    m = _RESERVED.search(text)
    return m[0].strip() if m else ""


def gpus(found: dict[str, Card]) -> tuple[AmdGpu, ...]:
    """The cards as GPUs; keys were renamed between 4.x and 6.x, both are known."""
    return tuple(_gpu(int(m[1]), card) for key, card in found.items() if (m := _CARD.fullmatch(key)))


def _first(card: Card, *names: str) -> str:
    lower = {k.lower(): v for k, v in card.items()}
    values = (lower.get(name.lower(), "") for name in names)
    return next((v for v in values if v and v.upper() not in ("N/A", "NONE")), "")


def _number(card: Card, *names: str) -> float | None:
    m = _NUMBER.match(_first(card, *names))
    return float(m[1]) if m else None


def _product(card: Card) -> str:
    """The marketing name; some versions print an id in its place."""
    names = (_first(card, name) for name in ("Card Series", "Device Name", "Card Model"))
    return next((name for name in names if name and not name.startswith("0x")), "")


def _gpu(index: int, card: Card) -> AmdGpu:
    link = _LINK.search(_first(card, "pcie clock level"))
    total, used = _number(card, "VRAM Total Memory (B)"), _number(card, "VRAM Total Used Memory (B)")
    replays = _number(card, "PCIe Replay Count")
    mhz = _number(card, "sclk clock speed:")
    return AmdGpu(
        index=index,
        bdf=_first(card, "PCI Bus").lower(),
        uuid=_first(card, "Unique ID"),
        serial=_first(card, "Serial Number"),
        product=_product(card),
        device_id=_first(card, "Device ID", "GPU ID").lower(),
        gfx=_first(card, "GFX Version"),
        vbios=_first(card, "VBIOS version"),
        compute_partition=_first(card, "Compute Partition"),
        memory_partition=_first(card, "Memory Partition"),
        vram_total_mib=None if total is None else total / (1 << 20),
        vram_used_mib=None if used is None else used / (1 << 20),
        gfx_util_pct=_number(card, "GPU use (%)"),
        power_w=_number(card, "Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
        power_cap_w=_number(card, "Max Graphics Package Power (W)"),
        edge_c=_number(card, "Temperature (Sensor edge) (C)"),
        hotspot_c=_number(card, "Temperature (Sensor junction) (C)"),
        memory_c=_number(card, "Temperature (Sensor memory) (C)"),
        gfx_mhz=() if mhz is None else (mhz,),
        mem_mhz=_number(card, "mclk clock speed:"),
        pcie_gts=float(link[1]) if link else None,
        pcie_width=int(link[2]) if link else None,
        pcie_replays=None if replays is None else int(replays),
    )


def concise(text: str) -> list[Card]:
    """Rows of the table that rocm-smi prints without options; the heading has two lines, old and new ones differ."""
    rows: list[Card] = []
    names: list[tuple[int, str]] = []
    lines = text.splitlines()
    for line, under in zip(lines, [*lines[1:], ""], strict=True):
        if re.match(r"^(Device|GPU)\s+(\[|Node|Temp)", line):
            names = _columns(line, under)
        elif names and line[:1].isdigit():
            row = _cells(line, names)
            if under.startswith(" ") and under.strip():
                row["name"] = under.strip()
            rows.append(row)
    if not rows:
        raise ValueError(refusal(text) or "no concise table of rocm-smi")
    return rows


def _columns(line: str, under: str) -> list[tuple[int, str]]:
    """Start and name of each column; a second heading line, which is indented, qualifies the name above it."""
    under = under if under.startswith(" ") else ""
    starts = [m.start() for m in re.finditer(r"(?:(?<=\s\s)|^)\S", line)]
    ends = [*starts[1:], max(len(line), len(under))]
    return [(a, " ".join(f"{line[a:b]} {under[a:b]}".split())) for a, b in zip(starts, ends, strict=True)]


def _cells(line: str, names: list[tuple[int, str]]) -> Card:
    cells = _GAP.split(line.strip())
    if len(cells) == len(names):
        return dict(zip((name for _, name in names), cells, strict=True))
    ends = [*(start for start, _ in names[1:]), len(line)]
    return {name: line[start:end].strip() for (start, name), end in zip(names, ends, strict=True)}


def per_gpu(text: str) -> dict[int, Card]:
    """Lines `GPU[0] : key: value` of the text options (--showtoponuma, --showbus)."""
    found: dict[int, Card] = {}
    for line in text.splitlines():
        if m := _LINE.match(line.strip()):
            found.setdefault(int(m[1]), {})[m[2]] = m[3]
    if not found:
        raise ValueError(refusal(text) or "no line of rocm-smi per GPU")
    return found


def topology(text: str) -> dict[str, dict[str, Card]]:
    """The matrices of `--showtopo`: "weight", "hops", "link type" -> row -> column -> cell."""
    tables: dict[str, dict[str, Card]] = {}
    name, columns = "", [""]
    for line in text.splitlines():
        cells = line.split()
        if m := _MATRIX.match(line):
            name, columns = m[1].lower(), [""]
        elif name and cells and all(_GPU.match(cell) for cell in cells):
            columns = cells
        elif name and len(cells) == len(columns) + 1 and _GPU.match(cells[0]):
            tables.setdefault(name, {})[cells[0]] = dict(zip(columns, cells[1:], strict=True))
    if not tables:
        raise ValueError(refusal(text) or "no matrix of rocm-smi --showtopo")
    return tables


def smi(text: str) -> RocmSmi:
    """The fact in the JSON of rocm-smi."""
    found = cards(text)
    system = found.get("system", {})
    driver = _first(system, "Driver version")
    return RocmSmi(driver_version=driver, gpus=gpus(found))


_SHOW = ("productname", "bus", "uniqueid", "serial", "vbios", "driverversion", "temp", "power", "use", "replaycount")


@source(
    Probe(
        "rocm.smi",
        (Exec("cards", ("rocm-smi", *(f"--show{name}" for name in _SHOW), "--showmeminfo", "vram", "--json")),),
    )
)
def rocm_smi(raw: RawFact) -> RocmSmi | Missing:
    """A few options of rocm-smi: what is left where amd-smi is not installed."""
    read = raw.read("cards")
    if "{" not in read.out:
        return Missing("failed", f"rocm-smi: {refusal(read.out + read.err) or 'no JSON'}")
    return smi(read.out)


FORMATS: dict[str, Callable[[str], Any]] = {
    "rocm-smi --json": smi,
    "rocm-smi": concise,
    "rocm-smi --showtoponuma": per_gpu,
    "rocm-smi --showtopo": topology,
}
