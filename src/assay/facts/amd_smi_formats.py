"""The shapes amd-smi prints: JSON of ROCm 6 (a list) and 7 ({"gpu_data": []}), indented text, tables."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from assay.facts.text import plain

Block = dict[str, Any]

_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z/%°]*)\s*$")
_FAILED = re.compile(
    r"^(?:ERROR:\w+:|AMDSMI_STATUS_|AmdSmi\w*Exception|.*\bdriver not (?:initialized|loaded))", re.MULTILINE
)
_JSON = re.compile(r'^[ \t]*([\[{])[ \t]*(?:["\[{\]}]|$)', re.MULTILINE)
_GAP = re.compile(r"\s{2,}")
_BDF = re.compile(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$", re.IGNORECASE)
_ROW = re.compile(r"^GPU(\d+)\s+(\S+)\s+(.*)$")
_MONITOR = re.compile(r"^\s*(?:TIMESTAMP\s+)?GPU\s+[A-Z]")
_RATE = re.compile(r"(N/A|[\d.]+)(?:\s*[GM]b/s)?")
_CARD = re.compile(
    r"^\|\s*([0-9a-f:]+\.[0-9a-f])\s+(.+?)\s*"
    r"\|\s*(N/A|\d+ %)\s+(N/A|\d+ \S*C)\s+(\S+)\s+(N/A|[\d.]+)/(N/A|[\d.]+) W\s*\|$",
    re.IGNORECASE,
)
_CARD_2 = re.compile(r"^\|\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s*\|\s*(N/A|\d+ %)\s+(.*?)\s+(\d+)/(\d+) MB\s*\|$")
_CARD_NAMES = ("bdf", "name", "mem_util", "temp", "uncorrectable", "power", "power_cap")
_CARD_2_NAMES = ("gpu", "hip", "oam", "partition", "gfx_util", "fan", "vram_used", "vram_total")
_VERSION_WORDS = {
    "amdsmi tool": "tool", "tool": "tool", "version": "tool", "amd-smi": "tool",
    "rocm version": "rocm", "rocm_version": "rocm",
    "amdgpu version": "driver", "amdgpu_version": "driver",
    "amdsmi library version": "library", "amdsmi_library_version": "library",
}  # fmt: skip


# ---- cells ---------------------------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """The number in 42, "42 W" or {"value": 42, "unit": "W"}; None for N/A and anything else."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and (m := _NUMBER.match(value)):
        return float(m[1])
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def unit(value: Any) -> str:
    """The unit that goes with `number`, as printed."""
    if isinstance(value, dict):
        return str(value.get("unit", ""))
    m = _NUMBER.match(value) if isinstance(value, str) else None
    return m[2] if m else ""


def whole(value: Any) -> int | None:
    """`number` as an integer."""
    n = number(value)
    return None if n is None else int(n)


def word(value: Any) -> str:
    """A text cell; "" for N/A and for what is no text."""
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    return "" if text.upper() in ("N/A", "NONE", "UNKNOWN") else text


# ---- blocks per GPU ------------------------------------------------------------------------------------------


def blocks(text: str) -> list[Block]:
    """One dict per GPU (or CPU, NIC) with lower-case keys, from JSON or text; ValueError with the tool's own words."""
    text = plain(text)
    if text.lstrip().startswith("gpu,"):
        return [dict(row) | {"gpu": int(row["gpu"])} for row in csv_rows(text) if row["gpu"].isdigit()]
    found = _json_blocks(text) if (start := _json_start(text)) >= 0 and not _before(text, start) else _tree(text)
    if not found or (len(found) == 1 and found[0].keys() <= {"error", "code", "message"}):
        raise ValueError(failure(text) or "no GPU in the output of amd-smi")
    return found


def failure(text: str) -> str:
    """The tool's own words when it says that it cannot answer, else ""."""
    m = _FAILED.search(text)
    return text[m.start() :].splitlines()[0].strip() if m else ""


def _json_start(text: str) -> int:
    m = _JSON.search(text)
    return m.start(1) if m else -1


def _before(text: str, start: int) -> bool:
    """True when indented text comes first: the bracket then belongs to a list value or a remark."""
    return any(":" in line and not line.startswith(("WARN", "ERROR")) for line in text[:start].splitlines())


def _json_blocks(text: str) -> list[Block]:
    found: list[Block] = []
    at = _json_start(text)
    try:
        roots = [msgspec.json.decode(text[at:])]
    except msgspec.DecodeError:
        roots = _json_documents(text[at:])
    for root in roots:
        inner = next((root[k] for k in ("gpu_data", "amd_smi", "data") if k in root), root) if _dict(root) else root
        found += [block for block in (inner if isinstance(inner, list) else [inner]) if _dict(block)]
    return found


def _dict(value: Any) -> bool:
    return isinstance(value, dict)


def _json_documents(text: str) -> list[Any]:
    """Several JSON texts after one another; ValueError when one is cut."""
    decoder = json.JSONDecoder()
    documents = []
    while (text := text.lstrip()) and text[0] in "[{":
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:]
    return documents


def _tree(text: str) -> list[Block]:
    found: list[Block] = []
    stack: list[tuple[int, Block]] = []
    for indent, key, value in _pairs(text):
        if indent == 0 and value.isdigit():
            found.append({key: int(value)})
            stack = [(0, found[-1])]
            continue
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        if not stack:
            found.append({})
            stack = [(-1, found[-1])]
        if value:
            stack[-1][1][key] = _cell(value)
        else:
            stack.append((indent, _section(stack[-1][1], key)))
    return found


def _section(parent: Block, key: str) -> Block:
    """The new section `key` of a block; one that comes again (a process, a bad page) makes a list."""
    made: Block = {}
    if key not in parent:
        parent[key] = made
    elif isinstance(parent[key], list):
        parent[key].append(made)
    else:
        parent[key] = [parent[key], made]
    return made


def _pairs(text: str) -> list[tuple[int, str, str]]:
    """(indent, key, value) per line; a list wrapped over lines is put together again."""
    pairs: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        body = line.strip()
        if pairs and pairs[-1][2].startswith("[") and not pairs[-1][2].endswith("]"):
            indent, key, value = pairs.pop()
            pairs.append((indent, key, f"{value} {body}"))
            continue
        key, colon, value = body.partition(":")
        if colon and not body.startswith(("[", "ERROR", "WARN")):
            pairs.append((len(line) - len(line.lstrip()), key.strip().lower().replace(" ", "_"), value.strip()))
    return pairs


def _cell(value: str) -> Any:
    if value.startswith("[") and value.endswith("]"):
        return [cell.strip() for cell in value[1:-1].split(",")]
    return value


# ---- other commands ------------------------------------------------------------------------------------------


def csv_rows(text: str) -> list[dict[str, str]]:
    """Rows of any command with --csv, by column."""
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    columns = lines[0].split(",") if lines else []
    if "gpu" not in columns:
        raise ValueError(failure(text) or "no CSV of amd-smi")
    return [
        dict(zip(columns, cells, strict=True)) for line in lines[1:] if len(cells := line.split(",")) == len(columns)
    ]


def processes(text: str) -> list[Block]:
    """One dict per process, with its GPU; none for a GPU where nothing runs."""
    found: list[Block] = []
    for block in blocks(text):
        listed = block.get("process_list", block.get("process_info", block))
        for entry in listed if isinstance(listed, list) else [listed]:
            inner = entry.get("process_info", entry) if isinstance(entry, dict) else None
            if isinstance(inner, dict) and "pid" in inner:
                found.append({"gpu": block.get("gpu"), **inner})
    return found


def bad_pages(text: str) -> dict[int, dict[str, int]]:
    """GPU -> "retired", "pending", "un_res" -> how many pages."""
    found: dict[int, dict[str, int]] = {}
    for i, block in enumerate(blocks(text)):
        kinds = {key: block[key] for key in ("retired", "pending", "un_res") if key in block}
        gpu = block.get("gpu")
        found[gpu if isinstance(gpu, int) else i] = {kind: _pages(value) for kind, value in kinds.items()}
    if not any(found.values()):
        raise ValueError("no list of bad pages in the output of amd-smi")
    return found


def _pages(value: Any) -> int:
    """A list of pages, one page, or a sentence such as "No bad pages found."."""
    return len(value) if isinstance(value, list) else int(isinstance(value, dict))


def partitions(text: str) -> list[dict[str, str]]:
    """Rows of the first table of `amd-smi partition`: GPU_ID, MEMORY, ACCELERATOR_TYPE and so on."""
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    for line in plain(text).splitlines():
        cells = line.split()
        if cells[:1] == ["GPU_ID"] and columns:
            break
        if cells[:1] == ["GPU_ID"]:
            columns = cells
        elif columns and cells and cells[0].isdigit() and len(cells) == len(columns):
            rows.append(dict(zip(columns, cells, strict=True)))
    if not rows:
        raise ValueError(failure(text) or "no table of amd-smi partition")
    return rows


def version(text: str) -> dict[str, str]:
    """tool, library, rocm and driver versions from `amd-smi version` or the heading of `amd-smi`; build hashes cut."""
    found: dict[str, str] = {}
    if '"' in text and (at := _json_start(text)) >= 0:
        pairs = [pair for block in _json_blocks(text[at:]) for pair in block.items()]
    else:
        text = text.replace("AMD-SMI ", "AMD-SMI: ").replace(" amdgpu version", "|amdgpu version")
        cells = text.replace(" ROCm version", "|ROCm version").replace("\n", "|").split("|")
        pairs = [(key, value) for key, colon, value in (cell.partition(":") for cell in cells) if colon]
    for key, value in pairs:
        name = _VERSION_WORDS.get(str(key).strip().lower())
        text_value = word(value)
        if name and name not in found and text_value and not text_value.startswith("Linux"):
            found[name] = text_value.split("+")[0]
    return found


def monitor(text: str) -> list[dict[str, str]]:
    """Rows of `amd-smi monitor`: column name -> cell. Cells hold single blanks ("182 W"), columns are two apart."""
    lines = plain(text).splitlines()
    if "," in next((line for line in lines if line.strip()), ""):
        return csv_rows(text)
    at = next((i for i, line in enumerate(lines) if _MONITOR.match(line)), None)
    if at is None:
        raise ValueError(failure(text) or "no table of amd-smi monitor")
    names = lines[at].split()
    rows = []
    for line in lines[at + 1 :]:
        cells = _GAP.split(line.strip())
        row = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}
        rows += [row] if row and row["GPU"].isdigit() else []
    return rows


def firmware(text: str) -> dict[int, dict[str, str]]:
    """GPU -> firmware id -> version."""
    found = {}
    for i, block in enumerate(blocks(text)):
        listed = block.get("fw_list", {})
        entries = listed.values() if isinstance(listed, dict) else listed
        names = ((e.get("fw_id") or e.get("fw_name"), e.get("fw_version")) for e in entries if isinstance(e, dict))
        found[int(block.get("gpu") or i)] = {str(k): str(v) for k, v in names}
    return found


def topology(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """Table name ("access", "weight", "link_type") -> row -> column -> cell."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    rows: dict[str, dict[str, str]] | None = None
    columns: list[str] = []
    for line in plain(text).splitlines():
        cells = line.split()
        if line.rstrip().endswith("TABLE:"):
            rows = tables.setdefault(line.rpartition("TABLE")[0].strip().lower().replace(" ", "_"), {})
            columns = []
        elif rows is not None and cells and all(map(_BDF.match, cells)):
            columns = cells
        elif rows is not None and columns and cells and _BDF.match(cells[0]) and len(cells) == len(columns) + 1:
            rows[cells[0]] = dict(zip(columns, cells[1:], strict=True))
    if not tables:
        raise ValueError(failure(text) or "no table of amd-smi topology")
    return tables


def xgmi(text: str) -> dict[int, Block]:
    """GPU -> {"bit_rate", "max_bandwidth" (Gb/s), "link_type", "status": ("U", "D", "X")} from text or JSON."""
    if (at := _json_start(text)) >= 0:
        found: dict[int, Block] = {}
        _walk_xgmi(_json_blocks(text[at:]), found)
    else:
        found = _xgmi_text(text)
    if not found:
        raise ValueError(failure(text) or "no link of amd-smi xgmi")
    return found


def _walk_xgmi(value: Any, found: dict[int, Block]) -> None:
    if isinstance(value, list):
        for item in value:
            _walk_xgmi(item, found)
        return
    if not isinstance(value, dict):
        return
    metrics = value.get("link_metrics")
    if isinstance(index := value.get("gpu"), int) and (isinstance(metrics, dict) or "link_status" in value):
        gpu = found.setdefault(index, {})
        if isinstance(metrics, dict):
            gpu.update({k: number(metrics.get(k)) for k in ("bit_rate", "max_bandwidth")})
            gpu["link_type"] = word(metrics.get("link_type"))
        if isinstance(states := value.get("link_status"), list):
            gpu["status"] = tuple(map(str, states))
        return
    for item in value.values():
        _walk_xgmi(item, found)


def _xgmi_text(text: str) -> dict[int, Block]:
    found: dict[int, Block] = {}
    for line in plain(text).splitlines():
        if not (m := _ROW.match(line.strip())):
            continue
        gpu = found.setdefault(int(m[1]), {"bdf": m[2]})
        cells = m[3].split()
        if cells and all(cell in ("U", "D", "X") for cell in cells):
            gpu["status"] = tuple(cells)
        elif len(rates := list(_RATE.findall(m[3]))) >= 2 and cells:
            gpu.update(bit_rate=number(rates[0]), max_bandwidth=number(rates[1]), link_type=cells[-1])
    return found


def overview(text: str) -> list[dict[str, str]]:
    """Cards in the table that `amd-smi` prints without a command (ROCm 7)."""
    cards: list[dict[str, str]] = []
    for line in plain(text).splitlines():
        if m := _CARD.match(line.strip()):
            cards.append(dict(zip(_CARD_NAMES, m.groups(), strict=True)))
        elif cards and (m := _CARD_2.match(line.strip())):
            cards[-1].update(zip(_CARD_2_NAMES, m.groups(), strict=True))
    if not cards:
        raise ValueError(failure(text) or "no card in the table of amd-smi")
    return cards
