"""Topology, NVLink, Fabric Manager and IMEX outputs as seen in the field."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import fabric_manager, imex, nvidia_smi
from assay.facts.nvidia_nvlink import counters, info, links, sections, totals
from assay.facts.nvidia_topo import peer_access, topology
from neutral import Either, differences

SHARED = Path(__file__).resolve().parents[3] / "shared/field"
if not SHARED.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

FOLDERS = ("nvidia-smi-topo", "nvidia-smi-nvlink", "fabric")
CASES = sorted(p for d in FOLDERS for p in (SHARED / d).glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
DISTANCE = {"X": 0, "C2C": 1, "PIX": 2, "PXB": 3, "PHB": 4, "NODE": 5, "SYS": 6, "SOC": 6}


def whole(text: str | None) -> int | str | None:
    return int(text) if text and text.isdigit() else None if text == "N/A" else text


def tally(values: list[str]) -> dict[str, int]:
    return dict(Counter(values))


def topo_view(text: str) -> dict[str, Any]:
    t = topology(text)
    rows = {gpu: t.links[gpu] for gpu in t.gpus if gpu in t.links}
    pairs = {(a, b): row[b] for a, row in rows.items() for b in t.gpus if a != b}
    widths = sorted({int(code[2:]) for code in pairs.values() if code.startswith("NV")})
    nearest = {gpu: min(t.nics, key=lambda nic: DISTANCE.get(row[nic], 9)) for gpu, row in rows.items() if t.nics}
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
        "gpu_numa_id": {gpu: whole(t.gpu_numa_id.get(gpu)) for gpu in rows},
        "gpu_numa_ids": [whole(t.gpu_numa_id.get(gpu)) for gpu in rows],
        "gpus_without_nvlink": [g for g in rows if not any(rows[g][other].startswith("NV") for other in t.gpus)],
        "pairs": tally([code for (a, b), code in pairs.items() if a < b]),
        "nics_per_gpu": {gpu: [n for n in t.nics if rows[gpu][n] in ("PIX", "PXB")] for gpu in rows},
        "nearest_code": {gpu: rows[gpu][nic] for gpu, nic in nearest.items()},
        "numa_column": "NUMA Affinity" in t.columns, "cpu_affinity_column": "CPU Affinity" in t.columns,
        "gpu_numa_id_column": "GPU NUMA ID" in t.columns,
    }  # fmt: skip
    for a, row in t.links.items():
        name = a.lower()
        seen |= {f"{name}_to_{b.lower()}": code for b, code in row.items()}
        seen |= {f"cpu_affinity_{name}": t.cpu_affinity.get(a), f"numa_{name}": whole(t.numa.get(a))}
        seen[f"{name}_nearest_nic"] = nearest.get(a)
    return seen


def peer_view(text: str) -> dict[str, Any]:
    matrix = peer_access(text)
    codes = {code for a, row in matrix.items() for b, code in row.items() if a != b}
    pairs = {f"{a.lower()}_to_{b.lower()}": code for a, row in matrix.items() for b, code in row.items()}
    return pairs | {
        "gpu_count": len(matrix), "codes": sorted(codes), "all_ok": codes == {"OK"}, "p2p": codes == {"OK"},
        "status": next(iter(codes)) if len(codes) == 1 else sorted(codes), "supported": codes <= {"OK"},
    }  # fmt: skip


def counters_view(text: str) -> dict[str, Any]:
    found = counters(text)
    sums = {f"gpu{index}": totals(body) for index, _, _, body in sections(text)}
    first = next(iter(found.values()))
    per_link = {f"link{n}": values for n, values in first.items()}
    return {
        "gpu_count": len(found), "links_per_gpu": len(first), **next(iter(sums.values())), **sums, **per_link,
        "totals": sums, "errors": any(n for one in sums.values() for n in one.values()),
        "gpus": [{"index": i, "links": len(one), **sums[f"gpu{i}"]} for i, one in found.items()],
    }  # fmt: skip


def nvlink_view(tool: str, text: str) -> dict[str, Any]:
    if not re.search(r"Link \d+: *(?:[\d.]+ GB/s|<inactive>)", text) and re.search(r"Link \d+: *[A-Z][^:]*:", text):
        return counters_view(text)
    if "-info" in tool or tool.endswith("-i"):
        names = {index: name for index, name, _, _ in sections(text)}
        rows = [
            {"index": i, "name": names[i], **{k.lower(): v for k, v in row.items()}} for i, row in info(text).items()
        ]
        return rows[0] | {"gpus": rows, "gpu_count": len(rows), **{f"gpu{r['index']}": r for r in rows}}
    gpus = links(text).gpus
    sizes = [None if g.state in ("mig", "all-inactive", "unknown") else g.total for g in gpus]
    speeds = sorted({s for g in gpus for s in g.speeds_gbs.values() if s})
    first = gpus[0]
    return {
        "gpu_count": len(gpus),
        "links_per_gpu": sizes[0] if len(set(sizes)) == 1 else sizes,
        "gpu": first.index,
        "index": first.index,
        "gpu_index": first.index,
        "uuid": first.uuid,
        "message": first.reason,
        "gpus": [
            {
                "index": g.index,
                "name": g.name,
                "uuid": g.uuid,
                "links": g.total,
                "inactive": list(g.inactive),
                "state": g.state,
                "all_inactive": g.state == "all-inactive",
                "active_links": g.total - len(g.inactive),
            }
            for g in gpus
        ],
        "healthy": all(g.state == "links" and not g.inactive for g in gpus),
        "link_speed_gbs": speeds[0] if len(speeds) == 1 else speeds or None,
        "inactive_links": Either([sum(len(g.inactive) for g in gpus), [n for g in gpus for n in g.inactive]]),
        "active_links": sum(g.total - len(g.inactive) for g in gpus),
        "inactive": {f"GPU{g.index}": list(g.inactive) for g in gpus if g.inactive},
        "reason": first.state if first.state in ("mig", "unknown") else None,
        "state": Either([first.state, first.state.replace("-", "_")]),
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
    first = msgspec.to_builtins(log.switch_errors[0]) if log.switch_errors else {}
    return first | {
        "first_time": log.first, "last_time": log.last, "levels": list(log.levels), "team_setups": log.team_setups,
        "error": Either(["NV_WARN_NOTHING_TO_DO"] if log.nothing_to_do else log.errors or [None]),
        "errors": list(log.errors), "error_count": len(log.errors), "records": log.lines, "lines": log.lines,
        "configured": log.configured, "sxid": next((e.code for e in log.switch_errors), None),
        "sxids": [e.code for e in log.switch_errors], "fatal": any(e.fatal for e in log.switch_errors),
        "switch_errors": msgspec.to_builtins(log.switch_errors), "nothing_to_do": log.nothing_to_do,
        "error_contains": " ".join(log.errors), "has_errors": bool(log.errors),
    }  # fmt: skip


def fabric_view(tool: str, text: str) -> dict[str, Any]:
    if "nvidia-smi -q" in tool:
        return fabric_section_view(text)
    if "imex" in tool and not re.search(r"^\[[A-Z][a-z]{2} \d", text, re.MULTILINE):
        return {"version": imex.version(text)} if "imex --version" in tool else imex_view(text)
    if "DCGM" in tool:
        return dict(zip(("code", "status"), imex.alarm(text), strict=True))
    if "hostengine" in tool:
        errors = fabric_manager.hostengine_errors(text)
        return {"errors": list(errors), "error": next(iter(errors), None), "error_contains": " ".join(errors)}
    if "--version" in tool:
        return {"version": fabric_manager.version(text)}
    return log_view(text)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in path.parent.glob(stem + ".*") if p != path).read_text()
    tool = expected["tool"]
    if "topo" in tool:
        seen = peer_view(text) if "-p2p" in tool else topo_view(text)
    else:
        seen = nvlink_view(tool, text) if "nvlink" in tool else fabric_view(tool, text)
    facts = {k: v for k, v in expected["facts"].items() if (path.name, k) not in WRONG}
    assert not differences(seen, facts)
