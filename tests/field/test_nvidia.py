"""Field outputs of nvidia-smi and /proc/driver/nvidia against their hand-written facts."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import nvidia_csv, nvidia_errors, nvidia_lines, nvidia_proc, nvidia_smi, nvidia_table
from assay.facts.nvidia import EccCounts, NvidiaDriver, NvidiaGpu, NvidiaProcGpu, NvidiaSmi, SmiFailure
from assay.facts.nvidia_csv import SmiCsv
from assay.facts.nvidia_lines import SmiList, SmiMonitor, SmiVersions
from assay.facts.nvidia_smi_tree import SmiTree, Tree, at, number, own, text_tree, xml_tree
from assay.facts.nvidia_table import SmiTable
from neutral import Either, differences

FIELD = Path(__file__).resolve().parents[3] / "shared/field"
FOLDERS = (
    "nvidia-smi-q", "nvidia-smi-xml", "nvidia-smi-csv", "nvidia-smi-errors", "nvidia-smi-list", "nvidia-smi-table",
    "proc-driver",
)  # fmt: skip
CASES = [p for folder in FOLDERS for p in sorted((FIELD / folder).glob("*.expected.json"))]
WRONG: dict[tuple[str, str], str] = {}
FORMATS: dict[str, Callable[[str], Any]] = {
    **nvidia_csv.FORMATS, **nvidia_errors.FORMATS, **nvidia_lines.FORMATS, **nvidia_proc.FORMATS,
    **nvidia_smi.FORMATS, **nvidia_table.FORMATS,
}  # fmt: skip

if not CASES:
    pytest.skip("no field outputs beside the project", allow_module_level=True)


def format_of(tool: str) -> str:
    """The key of FORMATS for a command line as people write it."""
    if "/proc/driver/nvidia/gpus" in tool:
        return "cat /proc/driver/nvidia/gpus/*/information"
    if "/proc/driver" in tool:
        return "cat " + tool.rsplit(maxsplit=1)[-1]
    words = tool.split()
    if "--version" in words:
        return "nvidia-smi --version"
    if "csv" in tool or "--query" in tool:
        return "nvidia-smi --query-gpu --format=csv"
    if "-q" in words:
        return "nvidia-smi -q -x" if "-x" in words else "nvidia-smi -q"
    return next((f"nvidia-smi {w}" for w in ("-L", "dmon", "pmon", "vgpu") if w in words), "nvidia-smi")


def available(**values: Any) -> dict[str, Any]:
    return {f"{name}_available": value is not None for name, value in values.items()}


def gpu_view(gpu: NvidiaGpu) -> dict[str, Any]:
    view = msgspec.to_builtins(gpu)
    reasons = None if gpu.event_reasons is None else set(gpu.event_reasons)
    for ours, theirs in {
        "hw_slowdown": "hw_slowdown", "hw_power_brake": "hw_power_brake_slowdown", "sync_boost": "sync_boost",
        "hw_thermal_slowdown": "hw_thermal_slowdown", "sw_thermal_slowdown": "sw_thermal_slowdown",
        "sw_power_cap": "sw_power_cap", "gpu_idle": "idle", "idle": "idle",
        "app_clocks_setting": "applications_clocks_setting", "hw_power_brake_slowdown": "hw_power_brake_slowdown",
    }.items():  # fmt: skip
        view[ours] = None if reasons is None else theirs in reasons
    remapped = msgspec.to_builtins(gpu.remapped) if gpu.remapped else {}
    banks = remapped.get("banks", {})
    view |= {f"remapped_{k}": remapped.get(k) for k in ("correctable", "uncorrectable", "pending", "failure")}
    view |= {"remap_pending": remapped.get("pending"), "remap_failure": remapped.get("failure")}
    view |= {f"{p}_{k}": banks.get(k) for k in ("max", "high", "partial", "low", "none") for p in _BANKS}
    fabric = msgspec.to_builtins(gpu.fabric) if gpu.fabric else {}
    view |= {f"fabric_{k}": v for k, v in fabric.items()}
    view |= {f"fabric_{k}": fabric.get(k) for k in ("state", "status", "clique_id", "cluster_uuid")}
    view |= {"fabric_health_summary": fabric.get("health"), "fabric_health_bandwidth": fabric.get("bandwidth")}
    for name, counts in (("volatile", gpu.ecc_volatile), ("aggregate", gpu.ecc_aggregate)):
        view |= ecc_view(name, counts)
    view |= {
        "pci_bus_id": gpu.bus_id.upper(), "bus_id": gpu.bus_id.upper(), "bus": gpu.bus_id.upper(),
        "product_name": gpu.name, "product": gpu.license_product or gpu.name, "license": gpu.license_status,
        "vbios_version": gpu.vbios, "recovery": gpu.recovery_action, "gpu_recovery_action": gpu.recovery_action,
        "gpu_temp_c": gpu.temp_c, "tlimit_margin_c": gpu.margin_c, "tlimit_c": gpu.margin_c,
        "mem_temp_c": gpu.memory_temp_c, "shutdown_tlimit_c": gpu.shutdown_margin_c,
        "slowdown_tlimit_c": gpu.slowdown_margin_c, "max_operating_tlimit_c": gpu.max_operating_margin_c,
        "power_draw_w": gpu.power_w, "power_w": gpu.drawn_w, "power_avg_w": gpu.power_average_w,
        "power_average_w": gpu.power_average_w, "power_cap_w": gpu.power_limit_w,
        "default_power_limit_w": gpu.power_default_w, "max_power_limit_w": gpu.power_max_w,
        "power_default_limit_w": gpu.power_default_w, "power_max_limit_w": gpu.power_max_w,
        "min_power_limit_w": gpu.power_min_w, "power_requested_limit_w": gpu.power_requested_w,
        "sm_clock_mhz": gpu.sm_mhz, "max_sm_clock_mhz": gpu.sm_max_mhz, "mem_clock_mhz": gpu.memory_mhz,
        "memory_clock_mhz": gpu.memory_mhz, "graphics_clock_mhz": gpu.graphics_mhz,
        "max_mem_clock_mhz": gpu.memory_max_mhz, "max_graphics_clock_mhz": gpu.graphics_max_mhz,
        "pcie_gen_current": gpu.pcie_gen, "pcie_width_current": gpu.pcie_width,
        "pcie_gen": {"current": gpu.pcie_gen, "max": gpu.pcie_gen_max, "device_max": gpu.pcie_gen_device_max,
                     "host_max": gpu.pcie_gen_host_max},
        "pcie_width": {"current": gpu.pcie_width, "max": gpu.pcie_width_max},
        "width": {"current": gpu.pcie_width, "max": gpu.pcie_width_max},
        "retired_sbe": gpu.retired_single, "retired_dbe": gpu.retired_double, "pending": gpu.retired_pending,
        "persistence_mode": gpu.persistence, "ecc_enabled": gpu.ecc, "ecc_mode": gpu.ecc, "ecc_mode_current": gpu.ecc,
        "mig_enabled": gpu.mig, "mig_mode": gpu.mig, "mig_device_count": len(gpu.mig_devices),
        "perf_state": gpu.pstate, "performance_state": gpu.pstate, "mode": gpu.compute_mode,
        "virtualization_mode": gpu.virtualization, "memory_mib": gpu.memory_total_mib,
        "mem_total_mib": gpu.memory_total_mib, "mem_used_mib": gpu.memory_used_mib, "gsp": gpu.gsp_firmware,
        "fb_total_mib": gpu.memory_total_mib, "fb_used_mib": gpu.memory_used_mib, "util_pct": gpu.util_gpu_pct,
        "gpu_util_pct": gpu.util_gpu_pct, "memory_util_pct": gpu.util_memory_pct, "c2c_mode": gpu.c2c,
        "process_count": None if gpu.processes is None else len(gpu.processes), "remapped_rows": remapped or None,
        "module_power_avg_w": gpu.module_power_w, "fan_readable": gpu.fan_pct is not None,
        **available(gpu_util=gpu.util_gpu_pct, remapped_rows=gpu.remapped, memory_temp=gpu.memory_temp_c,
                    tlimit=gpu.margin_c, fabric=gpu.fabric, power=gpu.drawn_w, retired_pages=gpu.retired_single),
    }  # fmt: skip
    view["mig_devices"] = [
        mig | {
            "gi": mig["gpu_instance"], "ci": mig["compute_instance"], "gpu_instance_id": mig["gpu_instance"],
            "compute_instance_id": mig["compute_instance"], "fb_total_mib": mig["memory_total_mib"],
            "fb_used_mib": mig["memory_used_mib"], "device": mig["index"],
        }
        for mig in view["mig_devices"]
    ]  # fmt: skip
    if view["processes"] is not None:
        view["processes"] = [p | {"used_mib": p["memory_mib"], "type": p["kind"]} for p in view["processes"]]
    return view


_BANKS = ("banks", "bank_histogram", "histogram")


def ecc_view(period: str, counts: EccCounts | None) -> dict[str, Any]:
    known = msgspec.to_builtins(counts) if counts else {}
    names = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
    view = {f"{p}{period}_{name}": known.get(name) for name in names for p in ("", "ecc_")}
    for name in ("correctable", "uncorrectable"):
        view[f"ecc_{period}_{name}"] = getattr(counts, name) if counts else None
    for name in ("single", "double"):
        view[f"ecc_{period}_{name}_total"] = known.get(f"{name}_bit")
        view[f"ecc_{period}_{name}_bit"] = known.get(f"{name}_bit")
    return view


_UNITS = {"MHz": "mhz", "MiB": "mib", "%": "pct", "C": "c", "W": "w", "mV": "mv", "us": "us", "KB/s": "kbs"}


def leaves(tree: Tree, where: str = "") -> dict[str, Any]:
    """Every value of a tree by its path, as printed and as a number with its unit."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{where}_{name}".strip("_")
        if isinstance(value, dict):
            found |= leaves(value, path)
        elif isinstance(value, str):
            amount = number(value)
            found[path] = value if amount is None else Either([amount, value])
            unit = _UNITS.get(value.rsplit(maxsplit=1)[-1]) if amount is not None and value.split() else None
            found |= {f"{path}_{unit}": amount} if unit else {}
    return found


def tree_of(text: str) -> SmiTree:
    try:
        return xml_tree(text) if "<nvidia_smi_log" in text else text_tree(text)
    except ValueError:
        return SmiTree({}, (), complete=False)


def raw_view(text: str) -> dict[str, Any]:
    """Words of the output that the facts leave out on purpose, from its first GPU."""
    tree = tree_of(text)
    gpu = tree.gpus[0] if tree.gpus else {}
    dtd = text.partition('SYSTEM "')[2].partition('"')[0]
    return {
        "display_mode": own(at(gpu, "display_mode")),
        "app_clock_graphics": own(at(gpu, "applications_clocks", "graphics")),
        "app_clock_memory": own(at(gpu, "applications_clocks", "memory")),
        "dtd": dtd or None,
        "power_block": next((n for n in ("gpu_power_readings", "power_readings") if f"<{n}>" in text), None),
        "throttle_block": next(
            (n for n in ("clocks_event_reasons", "clocks_throttle_reasons") if f"<{n}>" in text), None
        ),
    }


def failure_view(failure: SmiFailure | None) -> dict[str, Any]:
    view = msgspec.to_builtins(failure) if failure else dict.fromkeys(SmiFailure.__struct_fields__)
    return view | {
        "error": Either([view["cause"], view["message"], view["state"]]), "reason": view["cause"],
        "state": Either([view["state"], view["cause"]]), "cause": Either([view["cause"], view["state"]]),
        "bus_id": view["pci"], "gpu_pci": view["pci"],
    }  # fmt: skip


def smi_view(smi: NvidiaSmi, text: str) -> dict[str, Any]:
    tree = tree_of(text)
    gpus = [leaves(part) | gpu_view(gpu) for gpu, part in zip(smi.gpus, tree.gpus, strict=False)]
    raw = raw_view(text)
    first = gpus[0] | raw if gpus else {}
    return first | raw | leaves(tree.head) | failure_view(smi.failure) | {
        "driver_version": smi.driver_version, "driver": smi.driver_version, "cuda_version": smi.cuda_version,
        "cuda": smi.cuda_version, "attached_gpus": smi.attached, "attached": smi.attached,
        "gpu_count": len(gpus), "gpu_elements": len(gpus), "gpus": [g | raw for g in gpus],
        **{f"gpu{i}": g for i, g in enumerate(gpus)}, "truncated": not smi.complete,
        "complete": smi.complete, "well_formed": smi.complete,
        "gpus_with_power_brake": sum(bool(g["hw_power_brake"]) for g in gpus),
        "gpus_with_hw_slowdown": sum(bool(g["hw_slowdown"]) for g in gpus),
        "gpus_pending": sum(bool(g["pending"]) for g in gpus),
    }  # fmt: skip


def with_header(tool: str, text: str) -> str:
    """The rows of `--format=csv,noheader` below the names that were asked for."""
    asked = re.search(r"--query-[\w-]+[= ](\S+)", tool)
    return f"{asked[1].replace(',', ', ')}\n{text}" if "noheader" in tool and asked else text


def versions_view(versions: SmiVersions, _: str) -> dict[str, Any]:
    return {f"{name}_version": value for name, value in msgspec.to_builtins(versions).items()} | {
        "nvidia_smi_version": versions.smi, "kmd_version": versions.driver, "cuda_umd_version": versions.cuda,
        "version": versions.smi,
    }  # fmt: skip


def csv_view(csv: SmiCsv, _: str) -> dict[str, Any]:
    first = csv.values(0) if csv.rows else {}
    return first | {
        "columns": len(csv.columns), "rows": len(csv.rows), "complete": csv.complete,
        "driver": first.get("driver_version"), "gpu_count": len(csv.rows), "header": list(csv.columns),
        "gpus": [csv.values(i) for i in range(len(csv.rows))], "errors": [csv.errors(i) for i in range(len(csv.rows))],
        **{f"row{i}": dict(row) for i, row in enumerate(csv.rows)},
    }  # fmt: skip


def list_view(listed: SmiList, _: str) -> dict[str, Any]:
    gpus = [
        {"index": g.index, "name": g.name, "uuid": g.uuid,
         "mig": [{"profile": m.profile, "device": m.index, "uuid": m.uuid} for m in g.mig_devices]}
        for g in listed.gpus
    ]  # fmt: skip
    mig = [m for g in gpus for m in g["mig"]]
    names = {"name": gpus[0]["name"], "names": [g["name"] for g in gpus]} if gpus else {}
    return failure_view(listed.failure) | names | {
        "gpu_count": len(gpus), "gpus": gpus, "mig": mig, "mig_count": len(mig), "mig_device_count": len(mig),
        "mig_devices": mig,
    }  # fmt: skip


def table_view(table: SmiTable, _: str) -> dict[str, Any]:
    gpus = [
        g | {
            "mem_used_mib": g["memory_used_mib"], "mem_total_mib": g["memory_total_mib"], "gpu": g["index"],
            "bus": g["bus_id"].upper(), "bus_id": g["bus_id"].upper(), "pci_bus_id": g["bus_id"].upper(),
            "fan_readable": "fan" not in g["unreadable"], "persistence": g["mode"], "mig": g["mig_mode"],
            "driver_model": g["mode"] if table.driver_model else None, "util_gpu_pct": g["util_pct"],
            "gpu_temp_c": g["temp_c"], "perf_state": g["pstate"], "ecc_uncorrected": g["ecc"],
            "power_readable": "power" not in g["unreadable"], "temp_readable": "temp" not in g["unreadable"],
        }
        for g in map(msgspec.to_builtins, table.gpus)
    ]  # fmt: skip
    processes = msgspec.to_builtins(table.processes)
    mig = [{"gpu": gpu} | msgspec.to_builtins(m) for gpu, m in table.mig_devices]
    mig = [m | {"gi": m["gpu_instance"], "ci": m["compute_instance"], "device": m["index"]} for m in mig]
    return (gpus[0] if gpus else {}) | failure_view(table.failure) | {
        "driver_version": table.driver_version, "driver": table.driver_version, "cuda": table.cuda_version,
        "cuda_version": table.cuda_version, "gpu_count": len(gpus), "gpus": gpus, "complete": table.complete,
        "vgpus": msgspec.to_builtins(table.vgpus), "processes": processes, "process_count": len(processes or []),
        "mig_devices": mig, "mig_device_count": len(mig),
        **{f"gpu{g['index']}": g for g in gpus}, **{f"gpu{g['index']}_bus": g["bus"] for g in gpus},
    }  # fmt: skip


def monitor_view(monitor: SmiMonitor, _: str) -> dict[str, Any]:
    units = {"W": "w", "C": "c", "%": "pct", "MHz": "mhz", "MB": "mb", "#": "", "MB/s": "mb_s"}
    view: dict[str, Any] = {"columns": list(monitor.columns), "gpus": len({row["gpu"] for row in monitor.rows})}
    for row in monitor.rows:
        named = {f"{c}_{units.get(monitor.units.get(c, ''), '')}".strip("_"): v for c, v in row.items()}
        view.setdefault(f"gpu{row['gpu']:.0f}", dict(row) | named)
    busy = [row for row in monitor.rows if row.get("pid") is not None]
    view |= {"rows": len(monitor.rows), "samples": len(monitor.rows), "gpu_count": view["gpus"]}
    view |= {"busy_gpus": sorted({row["gpu"] for row in busy}), "pids": [row["pid"] for row in busy]}
    return view | {"commands": [row.get("command") for row in busy], "process_count": len(busy)}


def driver_view(driver: NvidiaDriver, text: str) -> dict[str, Any]:
    gcc = re.search(r"gcc version (\d[\w.]*)", text)
    return msgspec.to_builtins(driver) | {
        "driver": driver.version, "driver_version": driver.version, "gcc": gcc[1] if gcc else None,
        "gcc_version": gcc[1] if gcc else None, "open_module": driver.open, "kind": "open" if driver.open else "closed",
    }  # fmt: skip


def proc_gpu_view(gpu: NvidiaProcGpu, text: str) -> dict[str, Any]:
    lines = (line.partition(":") for line in text.splitlines())
    printed = {re.sub(r"\W+", "_", key.strip().lower()): value.strip() for key, _, value in lines}
    return printed | msgspec.to_builtins(gpu) | {
        "name": gpu.model, "pci_bus_id": gpu.pci, "bus": gpu.pci, "device_minor": gpu.minor,
        "gsp_firmware": gpu.firmware, "gpu_excluded": gpu.excluded, "vbios_version": gpu.vbios, "gpu_uuid": gpu.uuid,
        "video_bios": gpu.vbios,
    }  # fmt: skip


VIEWS: dict[type, Callable[[Any, str], dict[str, Any]]] = {
    NvidiaSmi: smi_view,
    SmiCsv: csv_view,
    SmiVersions: versions_view,
    SmiList: list_view,
    SmiTable: table_view,
    SmiMonitor: monitor_view,
    NvidiaDriver: driver_view,
    NvidiaProcGpu: proc_gpu_view,
    SmiFailure: lambda failure, _: failure_view(failure),
    dict: lambda params, _: params | {"params": len(params)},
}


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name.removesuffix('.expected.json')}")
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    (source,) = (p for p in path.parent.glob(f"{stem}.*") if p != path)
    text = with_header(expected["tool"], source.read_text())
    parsed = FORMATS[format_of(expected["tool"])](text)
    view = VIEWS[type(parsed)](parsed, text)
    facts = {k: v for k, v in expected["facts"].items() if (f"{path.parent.name}/{stem}", k) not in WRONG}
    assert not differences(view, facts)
