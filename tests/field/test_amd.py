"""amd-smi, rocm-smi and rocminfo outputs as seen in the field."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import amd_smi_formats as amd
from assay.facts.amd_smi import gpu, gpus_of
from assay.facts.rocm_smi import FORMATS as ROCM_FORMATS, cards, gpus, per_gpu, refusal, topology as rocm_topology
from assay.facts.rocminfo import rocminfo
from neutral import Either, differences

SHARED = Path(__file__).resolve().parents[3] / "shared/field"
if not SHARED.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

CASES = sorted(p for d in ("amd-smi", "rocm-smi", "rocminfo") for p in (SHARED / d).glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
UNITS = {
    "%": "pct",
    "W": "w",
    "MHz": "mhz",
    "C": "c",
    "°C": "c",
    "MB": "mb",
    "GT/s": "gts",
    "mV": "mv",
    "Gb/s": "gbps",
    "GB": "gb",
    "KB": "kb",
    "ns": "ns",
}
MONITOR = {
    "POWER": "power_w", "GPU_TEMP": "gpu_temp_c", "GPU_T": "gpu_temp_c", "MEM_TEMP": "mem_temp_c",
    "MEM_T": "mem_temp_c", "GFX_UTIL": "gfx_util_pct", "GFX%": "gfx_util_pct", "GFX_CLOCK": "gfx_clock_mhz",
    "GFX_CLK": "gfx_clock_mhz", "MEM_UTIL": "mem_util_pct", "MEM%": "mem_util_pct", "MEM_CLOCK": "mem_clock_mhz",
    "PWR_CAP": "power_cap_w", "ENC_UTIL": "enc_util_pct", "ENC%": "enc_util_pct", "ENC_CLOCK": "enc_clock_mhz",
    "DEC_UTIL": "dec_util_pct", "DEC%": "dec_util_pct", "VRAM_USED": "vram_used_mib", "VRAM_TOTAL": "vram_total_mib",
    "VRAM_USAGE": "vram_usage", "SINGLE_ECC": "single_ecc", "DOUBLE_ECC": "double_ecc", "PCIE_REPLAY": "pcie_replay",
}  # fmt: skip


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def leaf(value: Any) -> Any:
    if isinstance(value, list):
        return [leaf(v) for v in value]
    n = amd.number(value)
    return n if n is not None else (amd.word(value) or None)


def flat(block: Any) -> dict[str, Any]:
    """Every leaf of a block by its key and by key_unit, every section by its key."""
    found: dict[str, Any] = {}
    for key, value in block.items():
        name = key.lower()
        if isinstance(value, dict) and not {"value", "unit"} <= value.keys():
            inner = flat(value)
            found = inner | {f"{name}_{k}": v for k, v in inner.items()} | found
            found.setdefault(name, {k.lower().removesuffix("_count"): leaf(v) for k, v in value.items()})
        else:
            printed = [value] if isinstance(value, str) and value.strip() else []
            found[name] = Either([leaf(value), *printed]) if printed and leaf(value) is not None else leaf(value)
            if unit := UNITS.get(amd.unit(value)):
                found[f"{name}_{unit}"] = leaf(value)
    return found


def blocks_view(text: str) -> dict[str, Any]:
    found = amd.blocks(text)
    seen = flat(found[0])
    try:
        sections = json.loads(text)
    except ValueError:
        sections = None
    kinds = {"gpus": [b for b in found if "ai_nic" not in b], "nics": [b for b in found if "ai_nic" in b]}
    seen |= {
        "gpus": [one_gpu(b) for b in kinds["gpus"]],
        "gpu_count": len(kinds["gpus"]),
        "nics": [flat(b) for b in kinds["nics"]],
        "ai_nics": [flat(b) for b in kinds["nics"]],
        "nic_count": len(kinds["nics"]),
        **{f"nic{i}": flat(b) for i, b in enumerate(kinds["nics"])},
        "root": type(sections).__name__ if sections is not None else None,
        "root_key": next(iter(sections)) if isinstance(sections, dict) else None,
        "complete": "[output truncated]" not in text,
    }
    for name in ("vcn", "jpeg"):
        seen[name] = seen.get(f"{name}_activity")
        seen[f"{name}_activity_len"] = len(seen[name] or [])
    seen["partitions"] = sorted({name for name in seen if name.startswith("xcp_")})
    seen |= {f"gpu{i}": one_gpu(b) for i, b in enumerate(kinds["gpus"])}
    return gpu_view(text, found) | seen


def one_gpu(block: dict[str, Any]) -> dict[str, Any]:
    """The words of one block, and under them what AmdGpu makes of it."""
    merged = {} if "ai_nic" in block else plain(gpu(0, block, block, block, {}))
    generation = re.search(r"\d+", str(block.get("bus", {}).get("pcie_interface_version", "")))
    more = {"gpu": block.get("gpu"), "pcie_gen": int(generation[0]) if generation else None}
    more |= {"pcie_width": merged.get("pcie_width_max")} if merged.get("pcie_width") is None else {}
    return merged | more | flat(block)


def gpu_view(text: str, found: list[Any]) -> dict[str, Any]:
    """What AmdGpu makes of the first GPU, under several names."""
    if not any("gpu" in b for b in found):
        size = found[0].get("size")
        return {"vram_type": found[0].get("type"), "vram_size": amd.number(size), "unit": amd.unit(size)}
    static = any("asic" in b or "bus" in b or "vram" in b for b in found)
    listed = any("bdf" in b for b in found)
    rows = gpus_of(*((text,) if static else ("", "", text) if listed else ("", text)))
    seen = plain(rows[0])
    return seen | {
        "rows": len(rows),
        "gfx_clocks_mhz": seen["gfx_mhz"],
        "gfx0_clk_mhz": next(iter(seen["gfx_mhz"]), None),
        "socket_power_w": seen["power_w"],
        "market_name": seen["product"],
        "name": seen["product"],
        "distinct_bdfs": len({row.bdf for row in rows}),
        "bdfs": [row.bdf for row in rows],
        "pcie_width": Either([seen["pcie_width"], seen["pcie_width_max"]]),
        "uuids": [row.uuid for row in rows],
    }


def monitor_view(text: str) -> dict[str, Any]:
    rows = amd.monitor(text)
    return {
        "rows": len(rows),
        "gpu_count": len({row["GPU"] for row in rows}),
        "columns": list(rows[0]),
        **{f"gpu{row['GPU']}": monitored(row) for row in reversed(rows)},
    }


def monitored(row: dict[str, str]) -> dict[str, Any]:
    seen = {MONITOR.get(k, k.lower()): leaf(v) for k, v in row.items()}
    used, slash, total = str(row.get("VRAM_USAGE", "")).partition("/")
    unit = UNITS.get(total.split()[-1], "") if slash and total.split() else ""
    return seen | ({f"vram_used_{unit}": leaf(used), f"vram_total_{unit}": leaf(total)} if slash else {})


def topology_view(text: str) -> dict[str, Any]:
    tables = amd.topology(text)
    off = {name: {c for a, row in t.items() for b, c in row.items() if a != b} for name, t in tables.items()}
    seen: dict[str, Any] = {
        "gpu_count": len(next(iter(tables.values()))),
        "tables": sorted(tables),
        "access_all_enabled": off.get("access") == {"ENABLED"},
    }
    for name, cells in off.items():
        one = leaf(next(iter(cells))) if len(cells) == 1 else sorted(cells)
        seen |= {f"{name}_offdiag": one, name: one}
    return seen


def xgmi_view(text: str) -> dict[str, Any]:
    found = amd.xgmi(text)
    names = {"bit_rate": "bit_rate_gbps", "max_bandwidth": "max_bandwidth_gbps"}
    rows = {f"gpu{i}": {names.get(k, k): plain(v) for k, v in gpu.items()} for i, gpu in found.items()}
    return {"gpu_count": len(found), "rows": len(found), "complete": "[output truncated]" not in text, **rows}


def process_view(text: str) -> dict[str, Any]:
    rows = [flat(p) for p in amd.processes(text)]
    return {
        "processes": rows, "process_count": len(rows), "rows": len(rows), "gpu_count": len({r["gpu"] for r in rows}),
        "pids": [r["pid"] for r in rows], "complete": "[output truncated]" not in text, "gpus": rows,
        **{f"gpu{r['gpu']:.0f}": r for r in reversed(rows)}, **(rows[0] if rows else {}),
    }  # fmt: skip


def bad_pages_view(text: str) -> dict[str, Any]:
    found = amd.bad_pages(text)
    rows = [{"gpu": gpu, **pages} for gpu, pages in found.items()]
    sums = {kind: sum(pages.get(kind, 0) for pages in found.values()) for kind in ("retired", "pending", "un_res")}
    return sums | {f"{kind}_pages": n for kind, n in sums.items()} | {
        "gpus": rows, "gpu_count": len(rows), "bad_pages": sum(sums.values()), "unreservable": sums["un_res"],
        "none_found": not any(sums.values()), "complete": "[output truncated]" not in text,
        **{f"gpu{r['gpu']}": r for r in rows},
    }  # fmt: skip


def partition_view(text: str) -> dict[str, Any]:
    if "GPU_ID" not in text:
        return blocks_view(text)
    rows = [{k.lower(): leaf(v) for k, v in row.items()} for row in amd.partitions(text)]
    more = [
        {"gpu": r["gpu_id"], "memory_partition": r.get("memory"), "compute_partition": r.get("accelerator_type"), **r}
        for r in rows
    ]
    return more[0] | {
        "gpus": more,
        "gpu_count": len(more),
        "rows": len(more),
        **{f"gpu{r['gpu_id']:.0f}": r for r in more},
    }


def csv_view(text: str) -> dict[str, Any]:
    rows = [{k: leaf(v) for k, v in row.items()} for row in amd.csv_rows(text)]
    return rows[0] | {
        "rows": len(rows),
        "gpus": rows,
        "gpu_count": len({r["gpu"] for r in rows}),
        "columns": [*rows[0]],
    }


def firmware_view(text: str) -> dict[str, Any]:
    return {f"gpu{i}": names for i, names in amd.firmware(text).items()}


def overview_view(text: str) -> dict[str, Any]:
    rows = [{k: leaf(v) for k, v in row.items()} for row in amd.overview(text)]
    extra = {"rows": len(rows), "gpu_count": len(rows), "gpus": rows, "partition_mode": rows[0].get("partition")}
    return {**rows[0], **extra, **{f"gpu{i}": row for i, row in enumerate(rows)}}


VIEWS = {
    "monitor": monitor_view, "topology": topology_view, "xgmi": xgmi_view, "firmware": firmware_view,
    "ucode": firmware_view, "list": blocks_view, "static": blocks_view, "metric": blocks_view,
    "bad-pages": bad_pages_view, "partition": partition_view, "process": process_view, "ras": blocks_view,
}  # fmt: skip


def amd_view(tool: str, text: str) -> dict[str, Any]:
    said = amd.version(text)
    words = amd.failure(text)
    seen: dict[str, Any] = {f"{name}_version": said.get(name) for name in ("tool", "rocm", "driver", "library")}
    seen |= {"amdgpu_version": said.get("driver"), "error": words or None}
    if re.search(r"driver not (?:initialized|loaded)", words):
        seen["state"] = "driver_not_initialised"
    elif words:
        seen["state"] = "failed"
    if words == "" and text.startswith("AMDSMI Tool") and text.strip().count("\n") == 0:
        cells = (cell.partition(":") for cell in text.split("|"))
        return {re.sub(r"\W+", "_", k.strip().lower()): leaf(v.strip()) for k, _, v in cells} | seen
    name = next((n for n in VIEWS if re.search(rf"\b{n}\b", tool)), "")
    if text.lstrip().split("\n")[0].count(",") > 1 and text.lstrip()[:1] not in "[{":
        return seen | csv_view(text) | (process_view(text) if name == "process" else {})
    if words and not name:
        return seen
    return seen | (VIEWS[name] if name else overview_view if "|" in text and "+-" in text else blocks_view)(text)


def rocm_smi_view(_tool: str, text: str) -> dict[str, Any]:
    if refusal(text) and "{" not in text and "GPU" not in text:
        return {
            "state": "no_data" if "No JSON data" in text else "driver_not_initialised", "error": refusal(text),
            "available": False, "gpu_count": None, "error_contains": text,
        }  # fmt: skip
    if "{" in text or "device," in text:
        return rocm_json_view(text)
    seen: dict[str, Any] = {}
    if "between two GPUs" in text:
        seen |= matrix_view(text)
    if any(line.startswith("GPU[") for line in text.splitlines()):
        seen |= lines_view(text)
    return seen or concise_view(ROCM_FORMATS["rocm-smi"](text))


def lines_view(text: str) -> dict[str, Any]:
    rows = per_gpu(text)
    numa = {str(i): leaf(row.get("(Topology) Numa Node")) for i, row in rows.items()}
    cells = {i: {k: Either([leaf(v), v]) for k, v in row.items()} for i, row in rows.items()}
    columns = {k: [leaf(row.get(k)) for row in rows.values()] for row in rows.values() for k in row}
    seen: dict[str, Any] = {"numa": numa, "device_count": len(rows), "gpus": [*cells.values()]}
    return columns | next(iter(cells.values())) | seen | {f"gpu{i}": row for i, row in cells.items()}


def matrix_view(text: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, table in rocm_topology(text).items():
        off = sorted({cell for a, row in table.items() for b, cell in row.items() if a != b})
        one = leaf(off[0]) if len(off) == 1 else off
        key = name.replace(" ", "_")
        seen |= {key: one, f"{key}_offdiag": one, f"{key}s": off, "gpu_count": len(table)}
        seen |= {f"{a}_{b}_{key}".lower(): leaf(cell) for a, row in table.items() for b, cell in row.items()}
    return seen


def rocm_json_view(text: str) -> dict[str, Any]:
    found = cards(text)
    rows = gpus(found)
    seen: dict[str, Any] = {
        "cards": len(rows),
        "distinct_serials": len({row.serial for row in rows}),
        "distinct_buses": len({row.bdf for row in rows}),
        "gpu_count": len(rows),
        "driver_version": found.get("system", {}).get("Driver version"),
        "gpus": [plain(row) for row in rows],
        "keys": len(next(iter(found.values()))),
        "compute_partitions": dict(Counter(row.compute_partition for row in rows)),
        **(plain(rows[0]) if rows else {}),
        **found,
    }
    for name, row in zip((n for n in found if n.startswith("card")), rows, strict=True):
        seen[f"{name}_partition"] = row.compute_partition
        seen[f"{name}_bdf"] = row.bdf
        seen[name] = plain(row) | found[name]
    return seen


def concise_view(rows: list[dict[str, str]]) -> dict[str, Any]:
    temp = next((k for k in rows[0] if k.startswith("Temp")), "")
    seen: dict[str, Any] = {"device_count": len(rows), "temp_kind": temp.partition("(")[2].rstrip(")")}
    for row in rows:
        get = {re.split(r"[ (]", k)[0]: v for k, v in row.items()}
        modes = [part.strip() for part in get.get("Partitions", "").split(",")] + ["", ""]
        model = get.get("[Model", "").strip("[]").split(":")[0].strip() or get.get("IDs", "").split(",")[0]
        card = {
            "model": model, "temp_c": leaf(row[temp]), "power_w": leaf(get.get("Power", get.get("AvgPwr"))),
            "mem_partition": leaf(modes[0]), "compute_partition": leaf(modes[1]),
            "power_cap_w": leaf(get.get("PwrCap")),
            "vram_pct": leaf(get.get("VRAM%")), "gpu_pct": leaf(get.get("GPU%")), "name": row.get("name"),
            "sclk_mhz": leaf(get.get("SCLK")), "mclk_mhz": leaf(get.get("MCLK")), "fan_pct": leaf(get.get("Fan")),
            "perf": get.get("Perf"), "node": leaf(get.get("Node")), "guid": leaf(get.get("IDs", "").rpartition(",")[2]),
        }  # fmt: skip
        index = row.get("Device") or row.get("GPU") or next(iter(row.values()))
        seen |= {f"gpu{index}": card, **{f"gpu{index}_{k}": v for k, v in card.items()}}
    seen |= {"gpus": [seen[k] for k in seen if re.fullmatch(r"gpu\d+", k)], "gpu_count": len(rows)}
    return seen


def rocminfo_view(_tool: str, text: str) -> dict[str, Any]:
    found = rocminfo(text)
    seen: dict[str, Any] = {
        "agents": len(found.agents),
        "gpu_agents": len(found.gpus),
        "cpu_agents": len([a for a in found.agents if a.kind == "CPU"]),
        "gfx": sorted({a.name for a in found.gpus}),
        "state": found.state or None,
        "error": found.error or None,
        "gpus": [plain(a) for a in found.gpus],
        "gpu_count": len(found.gpus),
        "cpus": [a.product for a in found.agents if a.kind == "CPU"],
        "complete": "*** Done ***" in text,
        "bdfs": [a.bdf for a in found.gpus],
        "runtime_version": (re.search(r"Runtime Version: +(\S+)", text) or [None, None])[1],
        "products": dict(Counter(a.product for a in found.gpus)),
    }
    if found.gpus:
        first = plain(found.gpus[0])
        seen |= first | {"vram_kb": first["memory_kib"], "marketing_name": first["product"]}
    return seen


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in path.parent.glob(stem + ".*") if p != path).read_text()
    tool = expected["tool"]
    view = rocminfo_view if "rocminfo" in tool else rocm_smi_view if "rocm-smi" in tool else amd_view
    facts = {k: v for k, v in expected["facts"].items() if (path.name, k) not in WRONG}
    assert not differences(view(tool, text), facts)
