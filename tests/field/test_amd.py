"""amd-smi, rocm-smi and rocminfo outputs as seen in the field."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import amd_smi_formats as amd
from assay.facts.amd_smi import gpus_of
from assay.facts.rocm_smi import FORMATS as ROCM_FORMATS, cards, gpus, refusal
from assay.facts.rocminfo import rocminfo

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
            found[name] = leaf(value)
            if unit := UNITS.get(amd.unit(value)):
                found[f"{name}_{unit}"] = leaf(value)
    return found


def blocks_view(text: str) -> dict[str, Any]:
    found = amd.blocks(text)
    seen = flat(found[0])
    sections = json.loads(text) if text.lstrip()[:1] in "[{" else None
    seen |= {
        "gpus": [{"gpu": b.get("gpu"), **flat(b)} for b in found],
        "gpu_count": len(found),
        "root_key": next(iter(sections)) if isinstance(sections, dict) else None,
        "complete": "[output truncated]" not in text,
    }
    for name in ("vcn", "jpeg"):
        seen[name] = seen.get(f"{name}_activity")
        seen[f"{name}_activity_len"] = len(seen[name] or [])
    seen["partitions"] = sorted({name for name in seen if name.startswith("xcp_")})
    seen |= {f"gpu{i}": flat(b) for i, b in enumerate(found)}
    return gpu_view(text, found) | seen


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
        "uuids": [row.uuid for row in rows],
    }


def monitor_view(text: str) -> dict[str, Any]:
    rows = amd.monitor(text)
    return {
        "rows": len(rows),
        "gpu_count": len({row["GPU"] for row in rows}),
        "columns": list(rows[0]),
        **{f"gpu{row['GPU']}": {MONITOR.get(k, k.lower()): leaf(v) for k, v in row.items()} for row in reversed(rows)},
    }


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


def firmware_view(text: str) -> dict[str, Any]:
    return {f"gpu{i}": names for i, names in amd.firmware(text).items()}


def overview_view(text: str) -> dict[str, Any]:
    rows = [{k: leaf(v) for k, v in row.items()} for row in amd.overview(text)]
    extra = {"rows": len(rows), "gpu_count": len(rows), "gpus": rows, "partition_mode": rows[0].get("partition")}
    return {**rows[0], **extra, **{f"gpu{i}": row for i, row in enumerate(rows)}}


VIEWS = {
    "monitor": monitor_view, "topology": topology_view, "xgmi": xgmi_view, "firmware": firmware_view,
    "ucode": firmware_view, "list": blocks_view, "static": blocks_view, "metric": blocks_view,
    "bad-pages": blocks_view, "partition": blocks_view, "process": blocks_view, "ras": blocks_view,
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
    name = next((n for n in VIEWS if re.search(rf"\b{n}\b", tool)), "")
    if words and not name:
        return seen
    return seen | (VIEWS[name] if name else overview_view if "|" in text and "+-" in text else blocks_view)(text)


def rocm_smi_view(_tool: str, text: str) -> dict[str, Any]:
    if refusal(text) and "{" not in text and "GPU" not in text:
        return {"state": "no_data" if "No JSON data" in text else "driver_not_initialised", "error": refusal(text)}
    if "{" in text:
        return rocm_json_view(text)
    if any(line.startswith("GPU[") for line in text.splitlines()):
        rows = ROCM_FORMATS["rocm-smi --showtoponuma"](text)
        numa = {str(i): leaf(row.get("(Topology) Numa Node")) for i, row in rows.items()}
        return {"numa": numa, "device_count": len(rows), **{f"gpu{i}": row for i, row in rows.items()}}
    return concise_view(ROCM_FORMATS["rocm-smi"](text))


def rocm_json_view(text: str) -> dict[str, Any]:
    found = cards(text)
    rows = gpus(found)
    seen: dict[str, Any] = {
        "cards": len(rows),
        "distinct_serials": len({row.serial for row in rows}),
        "distinct_buses": len({row.bdf for row in rows}),
        "driver_version": found.get("system", {}).get("Driver version"),
        **found,
    }
    for name, row in zip((n for n in found if n.startswith("card")), rows, strict=True):
        seen[f"{name}_partition"] = row.compute_partition
        seen[f"{name}_bdf"] = row.bdf
    return seen


def concise_view(rows: list[dict[str, str]]) -> dict[str, Any]:
    temp = next((k for k in rows[0] if k.startswith("Temp")), "")
    seen: dict[str, Any] = {"device_count": len(rows), "temp_kind": temp.partition("(")[2].rstrip(")")}
    for row in rows:
        get = {re.split(r"[ (]", k)[0]: v for k, v in row.items()}
        modes = [part.strip() for part in get.get("Partitions", "").split(",")] + ["", ""]
        model = get.get("[Model", "").strip("[]").split(":")[0].strip() or get.get("IDs", "").split(",")[0]
        gpu = {
            "model": model, "temp_c": leaf(row[temp]), "power_w": leaf(get.get("Power")),
            "mem_partition": leaf(modes[0]), "compute_partition": leaf(modes[1]),
            "power_cap_w": leaf(get.get("PwrCap")),
            "vram_pct": leaf(get.get("VRAM%")), "gpu_pct": leaf(get.get("GPU%")), "name": row.get("name"),
            "sclk_mhz": leaf(get.get("SCLK")), "mclk_mhz": leaf(get.get("MCLK")), "fan_pct": leaf(get.get("Fan")),
            "perf": get.get("Perf"), "node": leaf(get.get("Node")),
        }  # fmt: skip
        index = row.get("Device") or row.get("GPU") or next(iter(row.values()))
        seen |= {f"gpu{index}": gpu, **{f"gpu{index}_{k}": v for k, v in gpu.items()}}
    return seen


def rocminfo_view(_tool: str, text: str) -> dict[str, Any]:
    found = rocminfo(text)
    seen: dict[str, Any] = {
        "agents": len(found.agents),
        "gpu_agents": len(found.gpus),
        "cpu_agents": len([a for a in found.agents if a.kind == "CPU"]),
        "gfx": sorted({a.name for a in found.gpus}),
        "state": found.state,
        "products": dict(Counter(a.product for a in found.gpus)),
    }
    if found.gpus:
        first = plain(found.gpus[0])
        seen |= first | {"vram_kb": first["memory_kib"], "marketing_name": first["product"]}
    return seen


def contains(got: Any, want: Any) -> bool:
    if isinstance(want, dict) and isinstance(got, dict):
        return all(k in got and contains(got[k], v) for k, v in want.items())
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(contains, got, want))
    if isinstance(got, list) and len(got) == 1:
        return contains(got[0], want)
    return bool(got == want)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in path.parent.glob(stem + ".*") if p != path).read_text()
    tool = expected["tool"]
    view = rocminfo_view if "rocminfo" in tool else rocm_smi_view if "rocm-smi" in tool else amd_view
    seen = view(tool, text)
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in seen, f"no such fact: {name}; known: {sorted(seen)}"
        assert contains(seen[name], want), (name, seen[name], want)
