"""Topology, NVLink, Fabric Manager and IMEX outputs as seen in the field."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.facts import fabric_manager, imex, nvidia_smi
from assay.facts.nvidia_nvlink import info, links, sections
from assay.facts.nvidia_topo import topology

SHARED = Path(__file__).resolve().parents[3] / "shared/field"
if not SHARED.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

FOLDERS = ("nvidia-smi-topo", "nvidia-smi-nvlink", "fabric")
CASES = sorted(p for d in FOLDERS for p in (SHARED / d).glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
DISTANCE = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")


def whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def topo_view(text: str) -> dict[str, Any]:
    t = topology(text)
    rows = {gpu: t.links[gpu] for gpu in t.gpus if gpu in t.links}
    pairs = {(a, b): row[b] for a, row in rows.items() for b in t.gpus if a != b}
    widths = sorted({int(code[2:]) for code in pairs.values() if code.startswith("NV")})
    nearest = {gpu: min(t.nics, key=lambda nic: DISTANCE.index(row[nic])) for gpu, row in rows.items() if t.nics}
    seen: dict[str, Any] = {
        "gpu_count": len(t.gpus), "gpus": len(t.gpus), "gpu_columns": len(t.gpus), "rows": len(rows),
        "nic_count": len(t.nics), "nics": len(t.nics), "nic_columns": len(t.nics), "nic_names": t.nic_names,
        "ansi_escapes": "\x1b[" in text, "complete": t.complete, "nearest_nic": nearest,
        "nvlink_pairs": sum(code.startswith("NV") for code in pairs.values()) // 2,
        "nvlink_width": widths[0] if len(widths) == 1 else widths or None,
        "nvlink_widths": widths, "links": widths[0] if len(widths) == 1 else widths,
        "all_nvlink": bool(pairs) and all(code.startswith("NV") for code in pairs.values()),
        "codes": sorted(set(pairs.values())),
        "cpu_affinity": [t.cpu_affinity.get(gpu) for gpu in rows],
        "numa_affinity": [whole(t.numa.get(gpu)) for gpu in rows],
        "numa_of_gpu": {gpu: whole(t.numa.get(gpu)) for gpu in rows},
        "gpus_per_numa": dict(Counter(t.numa[gpu] for gpu in rows if gpu in t.numa)),
        "numa_column": "NUMA Affinity" in t.columns, "cpu_affinity_column": "CPU Affinity" in t.columns,
        "gpu_numa_id_column": "GPU NUMA ID" in t.columns,
    }  # fmt: skip
    for a, row in t.links.items():
        name = a.lower()
        seen |= {f"{name}_to_{b.lower()}": code for b, code in row.items()}
        seen |= {f"cpu_affinity_{name}": t.cpu_affinity.get(a), f"numa_{name}": whole(t.numa.get(a))}
        seen[f"{name}_nearest_nic"] = nearest.get(a)
    return seen


def nvlink_view(tool: str, text: str) -> dict[str, Any]:
    if "-info" in tool or tool.endswith("-i"):
        names = {index: name for index, name, _, _ in sections(text)}
        rows = [
            {"index": i, "name": names[i], **{k.lower(): v for k, v in row.items()}} for i, row in info(text).items()
        ]
        return {"gpus": rows, "gpu_count": len(rows)}
    gpus = links(text).gpus
    totals = [None if g.state in ("mig", "all-inactive", "unknown") else g.total for g in gpus]
    speeds = sorted({s for g in gpus for s in g.speeds_gbs.values() if s})
    first = gpus[0]
    return {
        "gpu_count": len(gpus),
        "links_per_gpu": totals[0] if len(set(totals)) == 1 else totals,
        "link_speed_gbs": speeds[0] if len(speeds) == 1 else speeds or None,
        "inactive_links": sum(len(g.inactive) for g in gpus),
        "active_links": sum(g.total - len(g.inactive) for g in gpus),
        "inactive": {f"GPU{g.index}": list(g.inactive) for g in gpus if g.inactive},
        "reason": first.state if first.state in ("mig", "unknown") else None,
        "state": first.state,
        "nvlink_supported": None if first.state in ("mig", "unknown") else first.state != "none",
        "all_inactive": all(g.state == "all-inactive" or (g.total and len(g.inactive) == g.total) for g in gpus),
        "complete": len({g.total for g in gpus}) == 1,
        "names": [g.name for g in gpus],
        "name": first.name,
        **{f"gpu{g.index}_links": g.total for g in gpus},
    }


def imex_view(text: str) -> dict[str, Any]:
    found = imex.imex(text)
    versions = sorted({n.version for n in found.nodes if n.version})
    codes = {code for row in found.matrix.values() for code in row} - {"..."}
    return {
        "nodes": len(found.nodes),
        "ready": sum(n.state == "READY" for n in found.nodes),
        "not_ready": [n.index for n in found.nodes if n.state != "READY"],
        "domain_state": found.domain or None,
        "daemon_state": found.daemon or None,
        "state": found.daemon or found.domain or None,
        "version": versions[0] if len(versions) == 1 else None,
        "versions": versions,
        "all_connected": codes == {"C"},
        "codes": sorted(codes),
        "configured": found.configured,
        "error": found.error or None,
    }


def fabric_section_view(text: str) -> dict[str, Any]:
    fabric = nvidia_smi.FORMATS["nvidia-smi -q"](text).gpus[0].fabric
    return {
        "state": fabric.state, "status": fabric.status, "clique_id": fabric.clique_id, "bandwidth": fabric.bandwidth,
        "health_summary": fabric.health, "cluster_uuid": fabric.cluster_uuid, "route_recovery": fabric.route_recovery,
        "route_unhealthy": fabric.route_unhealthy, "access_timeout": fabric.access_timeout,
        "incorrect_configuration": fabric.incorrect_configuration,
    }  # fmt: skip


def log_view(text: str) -> dict[str, Any]:
    log = fabric_manager.log(text)
    return {
        "first_time": log.first, "last_time": log.last, "levels": list(log.levels), "team_setups": log.team_setups,
        "error": "NV_WARN_NOTHING_TO_DO" if log.nothing_to_do else next(iter(log.errors), None),
        "errors": list(log.errors), "error_count": len(log.errors), "records": log.lines, "lines": log.lines,
    }  # fmt: skip


def fabric_view(tool: str, text: str) -> dict[str, Any]:
    if "nvidia-smi -q" in tool:
        return fabric_section_view(text)
    if "imex" in tool:
        return {"version": imex.version(text)} if "imex --version" in tool else imex_view(text)
    if "DCGM" in tool:
        return dict(zip(("code", "status"), imex.alarm(text), strict=True))
    if "hostengine" in tool:
        errors = fabric_manager.hostengine_errors(text)
        return {"errors": list(errors), "error": errors[0]}
    if "--version" in tool:
        return {"version": fabric_manager.version(text)}
    return log_view(text)


def contains(got: Any, want: Any) -> bool:
    if isinstance(want, dict) and isinstance(got, dict):
        return all(k in got and contains(got[k], v) for k, v in want.items())
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(map(contains, got, want))
    return bool(got == want)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in path.parent.glob(stem + ".*") if p != path).read_text()
    tool = expected["tool"]
    if "topo -m" in tool:
        seen = topo_view(text)
    else:
        seen = nvlink_view(tool, text) if "nvlink" in tool else fabric_view(tool, text)
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in seen, f"no such fact: {name}; known: {sorted(seen)}"
        assert contains(seen[name], want), (name, seen[name], want)
