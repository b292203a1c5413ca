"""Outputs of monitoring tools seen in the field, read by the parser that their `tool` names."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import dashboards, dcgm, dcgm_diag, dcgm_health, exposition, systemd, time_sync
from neutral import Either, differences

FIELD = Path(__file__).resolve().parents[3] / "shared/field"
if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

FOLDERS = ("dcgmi", "dcgm-exporter", "time", "systemd", "monitoring", "lab-prometheus-2.42")
EARLIER_PARTS = (
    "DCGM exporter counters",
    "Grafana dashboard",
)  # of field/monitoring; Grafana and Loki APIs are not read by an audit
WRONG: dict[tuple[str, str], str] = {
    ("04-diag-r2-2.4.6-pcie-fail-nvlink.txt", "false_positive_hint"): "a remark about the host, not in the text",
}

DCGM_NEUTRAL = {
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock_mhz",
    "DCGM_FI_DEV_MEM_CLOCK": "mem_clock_mhz",
    "DCGM_FI_DEV_MEMORY_TEMP": "memory_temp_c",
    "DCGM_FI_DEV_GPU_TEMP": "gpu_temp_c",
    "DCGM_FI_DEV_POWER_USAGE": "power_w",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "energy_mj",
    "DCGM_FI_DEV_GPU_UTIL": "gpu_util_pct",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "mem_copy_util_pct",
    "DCGM_FI_DEV_XID_ERRORS": "xid",
    "DCGM_FI_DEV_FB_USED": "fb_used_mib",
    "DCGM_FI_DEV_FB_FREE": "fb_free_mib",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "pcie_replay",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "nvlink_tx",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "nvlink_rx",
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS": "link_recovery_successful",
}


def test_all_outputs_of_these_tools_are_covered() -> None:
    assert CASES


def diag_view(text: str) -> dict[str, Any]:
    diag = dcgm_diag.diag(text)
    named = {s: list(diag.named(s)) for s in dcgm_diag.WORST_FIRST}
    per_gpu = [(t.name, r) for t in diag.tests for r in t.results]
    failing = [
        {"test": n, "entity_id": r.entity, "error_id": w.error_id}
        for n, r in per_gpu
        for w in r.warnings
        if r.status == "fail"
    ]
    words = {t.name: Either(dict.fromkeys((t.word, t.status.capitalize(), t.status))) for t in diag.tests}
    return {
        "root_key": diag.root,
        **words,
        "dcgm_version": diag.dcgm_version,
        "driver_version": diag.driver_version,
        "gpu_count": diag.gpus,
        "gpus": diag.gpus,
        "gpu_device_ids": list(diag.device_ids),
        "device_ids": list(diag.device_ids),
        "tests": words,
        "statuses": words,
        "results": words,
        "per_gpu": {t.name: {str(r.entity): r.word for r in t.results if r.entity is not None} for t in diag.tests},
        "fail": Either([failing, named["fail"]]),
        "failed": named["fail"],
        "warn": named["warn"],
        "pass": named["pass"],
        "skip": Either([[{"test": n, "entity_id": r.entity} for n, r in per_gpu if r.status == "skip"], named["skip"]]),
        "skipped": named["skip"],
        "overall": diag.overall,
        "complete": diag.complete,
        "warning_contains": " ".join(w.text for t in diag.tests for w in t.warnings),
        "warnings": [w.text for t in diag.tests for w in t.warnings],
        "error": diag.error or None,
        "runtime_error": diag.error or None,
        "test_count": len(diag.tests),
        "failing_gpus": sorted({r.entity for _, r in per_gpu if r.status == "fail" and r.entity is not None}),
        "severities": sorted({w.severity for _, r in per_gpu for w in r.warnings if w.severity is not None}),
        "severity": next((w.severity for _, r in per_gpu for w in r.warnings), None),
        "error_ids": [w.error_id for _, r in per_gpu for w in r.warnings],
        "error_id": next((w.error_id for _, r in per_gpu for w in r.warnings), None),
        "info_contains": " ".join(i for _, r in per_gpu for i in r.info),
        "error_contains": " ".join([diag.error, *(w.text for _, r in per_gpu for w in r.warnings)]),
        "categories": list(dict.fromkeys(t.category for t in diag.tests)),
    }


def discovery_view(text: str) -> dict[str, Any]:
    if "GPU" not in text or "unable to establish" in text:
        return Unavailable(text)
    seen = dcgm.discovery(text)
    gpus = list(msgspec.to_builtins(seen.gpus))
    return {
        "available": True,
        "gpu_count": Either([seen.claimed, len(gpus)]),
        "gpu_count_claimed": seen.claimed,
        "gpus_listed": len(gpus),
        "gpus": Either([gpus, len(gpus)]),
        "nvswitches": seen.nvswitches,
        "cpus": seen.cpus,
        "name": gpus[0]["name"] if gpus else None,
        "names": [g["name"] for g in gpus],
        "pci": [g["pci_bus_id"] for g in gpus],
        "uuids": [g["uuid"] for g in gpus],
    }


class Unavailable(dict[str, Any]):
    """The tool did not answer: every other fact is unknown."""

    def __init__(self, text: str) -> None:
        said = text.strip() or None
        super().__init__(
            {"available": False, "connected": False, "empty": not said, "error": said, "error_contains": said or ""}
        )

    def __missing__(self, key: str) -> None:
        return None

    def __contains__(self, key: object) -> bool:
        return True


def nvlink_view(text: str) -> dict[str, Any]:
    if "gpuId" not in text:
        return Unavailable(text)
    seen = dcgm.nvlink(text)
    letters = [state for states in seen.gpus.values() for state in states]
    tally = {"up": letters.count("U"), "down": letters.count("D"), "disabled": letters.count("X")}
    sizes = sorted({len(states) for states in seen.gpus.values()})
    gpus = [
        {
            "id": i,
            "links": len(s),
            "up": s.count("U"),
            "down": s.count("D"),
            "disabled": s.count("X"),
            "states": list(s),
        }
        for i, s in seen.gpus.items()
    ]
    named = {name: n for state, n in tally.items() for name in (state, f"{state}_links", f"links_{state}")}
    return named | {
        "available": True, "gpu_count": len(gpus), "gpus": gpus, "nvswitches": len(seen.switches),
        "links": len(letters),
        "links_per_gpu": sizes[0] if len(sizes) == 1 else sizes, "all_up": set(letters) == {"U"},
        "all_down": set(letters) == {"D"}, "states": sorted(set(letters)), "inactive_links": len(letters) - tally["up"],
        "active_links": tally["up"], **{f"gpu{g['id']}": g for g in gpus}, "link_count": len(letters),
    }  # fmt: skip


def dmon_view(text: str) -> dict[str, Any]:
    seen = dcgm.dmon(text)
    cells = {r.entity.lower().replace(" ", ""): r.values for r in reversed(seen.rows)}
    return cells | {
        "error": seen.warning.rpartition(": ")[2] or None,
        "error_contains": seen.warning,
        "gpu_count": len({r.entity for r in seen.rows}),
        "no_data": not seen.rows,
        "rows": len(seen.rows),
        "warning": bool(seen.warning),
        "columns": list(seen.columns),
        "entities": sorted({r.entity for r in seen.rows}),
        "values": [r.values for r in seen.rows],
    }


def version_view(text: str) -> dict[str, Any]:
    seen = dcgm.version(text)
    return {
        "client_version": seen.client,
        "hostengine_version": seen.engine,
        "version": seen.client,
        "dcgm_version": seen.client,
    }


def health_view(text: str) -> dict[str, Any]:
    if "systems report" in text:
        return {"watches": dcgm.health(text).watches}
    seen = dcgm_health.health_check(text)
    return {
        "overall": seen.overall,
        "overall_health": seen.overall,
        "watches_enabled": seen.watched,
        "incidents": len(seen.incidents),
        "systems": [i.system for i in seen.incidents],
        "gpus": {i.entity: i.health for i in seen.incidents},
        "messages": [i.message for i in seen.incidents],
        "message_contains": " ".join(i.message for i in seen.incidents),
    }


def metrics_view(text: str) -> dict[str, Any]:
    seen = exposition.exposition(text)
    view: dict[str, Any] = {
        "gpu_count": len(seen.gpus),
        "attributed": sum(s.attributed for s in seen.samples),
        "pci": list(
            dict.fromkeys(s.labels["pci_bus_id"] for s in sorted(seen.samples, key=by_gpu) if "pci_bus_id" in s.labels)
        ),
        "trustworthy": not any(s.name.startswith("DCGM_FI_PROF_") for s in seen.samples)
        or any(s.value for s in seen.samples if s.name.startswith("DCGM_FI_PROF_")),
        "series": len(seen.samples),
        "samples": len(seen.samples),
        "metrics": sorted({s.name for s in seen.samples}),
        "metric_count": len({s.name for s in seen.samples}),
        "types": seen.types,
        "blanks": sum(s.value is None for s in seen.samples),
        "pods": sorted({s.labels["pod"] for s in seen.samples if s.labels.get("pod")}),
        "mig_profiles": sorted({s.labels["GPU_I_PROFILE"] for s in seen.samples if "GPU_I_PROFILE" in s.labels}),
        "mig_instances": len(
            {(s.labels.get("gpu"), s.labels["GPU_I_ID"]) for s in seen.samples if "GPU_I_ID" in s.labels}
        ),
        "collectors_failed": [
            s.labels["collector"] for s in seen.named("node_scrape_collector_success") if s.value == 0
        ],
        "rule_evaluation_failures_above_zero": any(
            s.value for s in seen.named("prometheus_rule_evaluation_failures_total")
        ),
        "notifications_errors_above_zero": any(s.value for s in seen.named("prometheus_notifications_errors_total")),
    }
    labels = {k for s in seen.samples for k in s.labels}
    for label in labels:
        values = list(dict.fromkeys(s.labels[label] for s in seen.samples if label in s.labels))
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label.removeprefix("DCGM_FI_")).lower()
        view[label] = view[label.lower()] = view[snake] = Either([values, values[0]])
        view[f"{snake}s"] = Either([values, len(values)])
        view[f"{label.lower()}s"] = Either([values, len(values)])
    for name in {s.name for s in seen.samples}:
        values = [s.value for s in sorted(seen.named(name), key=by_gpu)]
        neutral = DCGM_NEUTRAL.get(name, name)
        plain = re.sub(r"^DCGM_(?:FI|EXP)_(?:DEV_|PROF_)?", "", name).lower()
        view[neutral] = view[name] = view[plain] = Either([values, values[0]])
        short = neutral.removesuffix("_mhz").removesuffix("_c").removesuffix("_w")
        view |= {f"{short}_gpu{s.labels.get('gpu')}": s.value for s in seen.named(name)}
    return view


def by_gpu(sample: exposition.Sample) -> int:
    return int(sample.labels.get("gpu") or 0)


def tracking_view(text: str) -> dict[str, Any]:
    seen = time_sync.timesync_status(text) if "Poll interval" in text else time_sync.chronyc_tracking(text)
    view = msgspec.to_builtins(seen)
    for key in [k for k in view if k.endswith("_s") and view[k] is not None]:
        view[key[:-2] + "_ms"] = view[key] * 1000
        view[key[:-2] + "_us"] = view[key] * 1e6
    return {
        **view, "server": seen.reference, "ref_id": seen.reference_id, "ref_name": seen.reference,
        "source": seen.reference, "synchronized": seen.synchronised, "available": not seen.error,
        "leap_status": seen.leap, "system_time_s": seen.offset_s, "update_interval_s": seen.poll_s,
    }  # fmt: skip


def timedatectl_view(text: str) -> dict[str, Any]:
    view = msgspec.to_builtins(time_sync.timedatectl(text))
    ntp = view["ntp"]
    lines = (line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return {
        **{re.sub(r"\W+", "_", k.strip().lower()).strip("_"): v.strip() for k, v in lines}, **view,
        "timezone": view["tz"], "time_zone": view["tz"], "ntp_service": ntp, "ntp_enabled": ntp, "ntp_active": ntp,
        "synchronized": view["synchronised"], "ntp_synchronised": view["synchronised"],
        "rtc_in_local_tz": view["rtc_local"], "has_warning": bool(view["warning"]),
    }  # fmt: skip


def show_view(text: str) -> dict[str, Any]:
    values = time_sync.timedatectl_show(text)
    typed = msgspec.to_builtins(time_sync.timedatectl_values(values))
    return {**values, **typed, "timezone": typed["tz"], "synchronized": typed["synchronised"]}


def ntpq_view(text: str) -> dict[str, Any]:
    peers = time_sync.ntpq_peers(text)
    chosen = next((p for p in peers if p.tally in "*o" and p.tally), None)
    spans = {name: getattr(chosen, f"{name}_s", None) for name in ("offset", "delay", "jitter")}
    return {
        "peers": len(peers), "sources": len(peers), "rows": len(peers), "reachable": sum(p.reach > 0 for p in peers),
        "selected": chosen.remote if chosen else None, "reference": chosen.remote if chosen else None,
        "synchronised": chosen is not None, "stratum": chosen.stratum if chosen else None,
        **{f"{name}_s": value for name, value in spans.items()},
        **{f"{name}_ms": None if value is None else value * 1000 for name, value in spans.items()},
    }  # fmt: skip


def sources_view(text: str) -> dict[str, Any]:
    sources = time_sync.chronyc_sources(text)
    chosen = next((s for s in sources if s.state == "*"), None)
    return {
        "sources": len(sources),
        "rows": len(sources),
        "names": [s.name for s in sources],
        "unreachable": [s.name for s in sources if s.state == "?"],
        "selected": chosen.name if chosen else None,
        "synchronised": chosen is not None,
        "stratum": chosen.stratum if chosen else None,
        "reachable": sum(s.reach > 0 for s in sources),
    }


def unit_files_view(text: str) -> dict[str, Any]:
    states = systemd.unit_files(text)
    return {"units": len(states), "enabled": sorted(k for k, v in states.items() if v == "enabled"), "states": states}


def units_view(text: str) -> dict[str, Any]:
    try:
        units = systemd.list_units(text)
    except ValueError:
        return {"available": False}
    return {
        "available": True,
        "failed": [u.name for u in units if u.failed],
        "not_found": [u.name for u in units if u.load == "not-found"],
        "failed_count": sum(u.failed for u in units),
        "units": len(units),
        "rows": len(units),
        "exited": [u.name for u in units if u.sub == "exited"],
        "names": [u.name for u in units],
        **{u.name: {"load": u.load, "active": u.active, "sub": u.sub} for u in units},
        "running": [u.name for u in units if u.sub == "running"],
    }


def status_view(text: str) -> dict[str, Any]:
    if "has not been booted with systemd" in text:
        return {"available": False, "active": None, "enabled": None}
    seen = systemd.unit_status(text)
    engine = systemd.host_engine(seen)
    view = msgspec.to_builtins(seen)
    result = (seen.sub or "").removeprefix("Result: ") if (seen.sub or "").startswith("Result: ") else None
    return {
        **view, "dcgm": engine[0] if engine else None, "port": engine[1] if engine else None, "pid": seen.main_pid,
        "available": True, "found": seen.load != "not-found", "failed": seen.active == "failed", "result": result,
        "running": seen.sub == "running", "loaded": seen.load, "masked": seen.load == "masked", "unit": seen.name,
        "dcgm_version": engine[0] if engine else None, "state": seen.active, "active_state": seen.active,
    }  # fmt: skip


def counters_view(text: str) -> dict[str, Any]:
    seen = dashboards.counters(text)
    return {"enabled": sorted(seen.enabled), "disabled": sorted(seen.disabled), "count": len(seen.enabled)}


def dashboard_view(text: str) -> dict[str, Any]:
    seen = dashboards.dashboard(text)
    shown = " ".join(seen.metrics)
    return {
        "panels": seen.panels,
        "metrics": list(seen.metrics),
        "title": seen.title,
        "shows_xid": "XID" in shown,
        "shows_ecc": "ECC" in shown or "REMAP" in shown,
        "shows_nvlink": "NVLINK" in shown,
        "shows_throttle": "VIOLATION" in shown or "THROTTLE" in shown or "CLOCK_EVENT" in shown,
    }


VIEWS: tuple[tuple[str, Callable[[str], dict[str, Any]]], ...] = (
    ("dcgmi diag", diag_view),
    ("dcgmi discovery", discovery_view),
    ("dcgmi dmon", dmon_view),
    ("dcgmi nvlink", nvlink_view),
    ("dcgmi health", health_view),
    ("dcgmi -v", version_view),
    ("dcgmi --version", version_view),
    ("dcgm-exporter", metrics_view),
    ("node_exporter", metrics_view),
    ("chronyc tracking", tracking_view),
    ("timedatectl timesync-status", tracking_view),
    ("timedatectl show", show_view),
    ("timedatectl", timedatectl_view),
    ("ntpq", ntpq_view),
    ("chronyc sources", sources_view),
    ("node exporter", metrics_view),
    ("Prometheus text", metrics_view),
    ("systemctl show", lambda text: dict(systemd.unit_properties(text))),
    ("systemctl list-unit-files", unit_files_view),
    (
        "systemctl is-",
        lambda text: {"state": text.strip(), "active": text.strip(), "enabled": text.strip() == "enabled"},
    ),
    ("systemctl status", status_view),
    ("systemctl", units_view),
    ("DCGM exporter counters", counters_view),
    ("Grafana dashboard", dashboard_view),
)


def outputs() -> Iterator[tuple[Path, dict[str, Any]]]:
    for folder in FOLDERS:
        for expected in sorted((FIELD / folder).glob("*.expected.json")):
            stem = expected.name.removesuffix(".expected.json")
            case = json.loads(expected.read_text())
            if "kind" in case and case["kind"] not in EARLIER_PARTS:
                continue
            for output in (FIELD / folder).glob(f"{stem}.*"):
                if output != expected:
                    yield output, case


CASES = list(outputs())


@pytest.mark.parametrize(("output", "case"), CASES, ids=[f"{o.parent.name}/{o.stem}" for o, _ in CASES])
def test_field_output(output: Path, case: dict[str, Any]) -> None:
    tool = case.get("tool") or case["kind"]
    view = next(v for name, v in VIEWS if tool.startswith(name))(output.read_text())
    facts = {k: v for k, v in case["facts"].items() if (output.name, k) not in WRONG}
    assert not differences(view, facts)
