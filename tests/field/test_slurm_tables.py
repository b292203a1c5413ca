"""Field outputs of sinfo, squeue, sacct, sacctmgr and sdiag, in text. Read in place, never copied."""

import json
import pathlib
import re
from typing import Any

import pytest

from assay.slurm import sacct, sacctmgr, sdiag, squeue
from slurm_field import FIELD, Alt, Lazy, View, cases, decoded, differences
from slurm_tables import columns_by_content, format_of, read_sinfo, sacct_view, sinfo_view
from slurm_views import jobs_view

if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG = {
    ("facebook-gcm/05-sacct-steps-with-header", "columns"): "header and rows of the file have 109 cells",
    ("sckyzo-slurm-exporter/19-sacct-efficiency", "steps"): "the file holds 7 steps",
}

# Formats that a tool's name does not spell out.
SQUEUE_FORMATS = {"squeue with ^^^": "%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j^^^%V"}
SACCT_COLUMNS = {
    "sacct -P -n --delimiter=^|^": (
        "AdminComment,AllocCPUS,Elapsed,JobID,JobIDRaw,MaxRSS,NTasks,NNodes,ReqMem,State,Timelimit,TotalCPU,Comment"
    )
}


def view_sinfo(data: bytes, tool: str) -> View:
    return sinfo_view(read_sinfo(decoded(data), tool), decoded(data))


def view_squeue(data: bytes, tool: str) -> View:
    text = decoded(data)
    kind, spec = format_of(tool)
    spec = spec or next((f for prefix, f in SQUEUE_FORMATS.items() if tool.startswith(prefix)), "")
    if kind == "O":
        return jobs_view(squeue.squeue_fields(spec, text), data)
    return jobs_view(squeue.squeue_o(spec, text) if spec else squeue.squeue(text), data)


def view_json_lines(data: bytes, _: str) -> View:
    """What others make of -o: a line that is no JSON must be counted, not guessed at."""
    good: list[dict[str, Any]] = []
    bad = 0
    for line in decoded(data).splitlines():
        try:
            good.append(json.loads(line))
        except ValueError:
            bad += bool(line.strip())
    reasons = {f"reason_of_{o['id']}": o.get("r") for o in good}
    return {"good_lines": len(good), "bad_lines": bad, **reasons}


def view_sacct(data: bytes, tool: str) -> View:
    text = decoded(data)
    sep = re.search(r"--delimiter=(\S+)", tool)
    listed = re.search(r"(?:-o |\.\.\. )(\w+(?:,\w+)+)", tool)
    named = next((c for prefix, c in SACCT_COLUMNS.items() if tool.startswith(prefix)), "")
    if " -n" not in tool:
        return sacct_view(sacct.sacct(text), data)
    mark = sep[1] if sep else "|"
    names = (named or (listed[1] if listed else "")).split(",")
    if names == [""]:
        names = columns_by_content(text, mark)
    return sacct_view(sacct.sacct_rows(text, names, mark), data)


def view_refused(data: bytes, _: str) -> View:
    return {"unknown_field": sacct.refused_field(decoded(data))}


def view_events(data: bytes, _: str) -> View:
    found = sacctmgr.events(decoded(data))
    known: View = {"events": len(found.events), "rows": len(found.events)}
    known |= {"nodes": sorted({e.node for e in found.events if e.node})}

    def more(name: str) -> Any:
        parts = re.fullmatch(r"(\w+?)_(down|drain|boot|idle|fail)_(start|end)", name)
        wanted = parts[2].upper() if parts else ""
        for e in found.events:
            if e.state and parts and e.node == parts[1] and (e.state_word or "").startswith(wanted):
                return e.start_at if parts[3] == "start" else e.end_at
        if name == "reason":
            return Alt(e.reason for e in found.events)
        raise KeyError(name)

    return Lazy(known, more)


def view_sdiag(data: bytes, _: str) -> View:
    found = sdiag.sdiag(decoded(data))
    rpc = {
        f"rpc_{short}_{name}": value
        for r in found.rpcs
        for short in (r.name.lower(), r.name.lower().removeprefix("message_").removesuffix("_status"))
        for name, value in (("count", r.count), ("ave_us", r.average_us), ("total_us", r.total_us))
    }
    return {
        **{name: getattr(found, name) for name in found.__struct_fields__},
        **{name.replace(" ", "_"): value for name, value in found.other.items()},
        **rpc,
        "last_cycle_us": found.main_last_us, "max_cycle_us": found.main_max_us, "mean_cycle_us": found.main_mean_us,
        "backfill_total_jobs": found.backfill_jobs, "queue_length": found.main_queue,
        "server_thread_count": found.server_threads, "rpc_types": len(found.rpcs),
        "gettimeofday_us_per_1000_calls": found.gettimeofday_us,
    }  # fmt: skip


VIEWS = {
    "sacct -o ...,Restarts (stderr)": view_refused,
    "squeue -h -o '{...}'": view_json_lines,
    "sinfo --json": None,
    "squeue --json": None,
    "sacct --json": None,
    "sdiag --json": None,
    "sinfo": view_sinfo,
    "squeue": view_squeue,
    "sacctmgr": view_events,
    "sacct": view_sacct,
    "sdiag": view_sdiag,
}


@pytest.mark.parametrize("path", cases(VIEWS), ids=lambda p: f"{p.parent.name}/{p.name.split('.expected')[0]}")
def test_field_output(path: pathlib.Path) -> None:
    assert not differences(path, VIEWS, WRONG)
