"""Neutral names of facts about tables of sinfo and sacct, and formats that a tool's name only hints at."""

import re
from collections import Counter
from typing import Any

from assay.slurm.gres import by_type, total
from assay.slurm.sacct import Sacct, SacctRow
from assay.slurm.sinfo import Sinfo, SinfoRow, sinfo, sinfo_fields, sinfo_o
from assay.slurm.state import JOB_STATES, node_state
from assay.slurm.words import mib
from slurm_field import Alt, Lazy, View
from slurm_views import exit_word, indexes, node_view, state_view

_STATE = re.compile(r"[a-z_]+[*~#!%$@^+-]*")
_GRES = re.compile(r"\(null\)|[\w-]+(?::[^\s:]+)*:\d+\S*")


def format_of(tool: str) -> tuple[str, str]:
    """("o" or "O", the format) named in a tool's name, ("", "") when there is none."""
    found = re.search(r"(?:\s-o\s*|--format=)'([^']*%[^']*)'|\s-o\s+(%\S+)", tool)
    if found:
        return "o", found[1] or found[2]
    found = re.search(r"(?:\s-O\s*|--Format[= ])(?:'([^'.][^']*)'|(\w[^\s']*(?:,[^\s']*)+))", tool)
    return ("O", found[1] or found[2]) if found else ("", "")


def guessed(text: str) -> str:
    """A -O format for a table without header, from what its first line holds."""
    line = next(line for line in text.split("\n") if line.strip())
    after = "|" if "|" in line else " "
    cells = [c.strip() for c in line.split(after) if c.strip()]
    names: list[str] = []
    for cell in cells:
        names.append(_kind(cell, names))
    return ",".join(f"{name}:{after}" for name in names)


def _kind(cell: str, before: list[str]) -> str:
    if not before:
        return "Nodes" if cell.isdecimal() else "NodeList"
    if re.fullmatch(r"\d+/\d+/\d+/\d+", cell):
        return "CPUsState"
    if _GRES.fullmatch(cell):
        return "GresUsed" if "Gres" in before else "Gres"
    if _STATE.fullmatch(cell) and not node_state(cell).unknown_flags and _known(cell):
        return "StateLong" if "StateLong" not in before else "Partition"
    if cell.isdecimal():
        return next((n for n in ("AllocMem", "Memory", "CPUs") if n not in before), "Weight")
    return "Partition"


def _known(cell: str) -> bool:
    state = node_state(cell)
    return state.base in ("IDLE", "MIXED", "ALLOCATED", "DOWN", "DRAINED", "DRAINING", "FAIL", "UNKNOWN", "REBOOT")


def read_sinfo(text: str, tool: str) -> Sinfo:
    kind, spec = format_of(tool)
    spec = spec.replace("-like", "")
    if kind:
        return (sinfo_o if kind == "o" else sinfo_fields)(spec, text)
    try:
        return sinfo(text)
    except ValueError:
        return sinfo_fields(guessed(text), text)


def row_view(r: SinfoRow) -> View:
    word = (r.state_word or "").rstrip("*~#!%$@^-") or None
    gpus, used = total(r.gres), total(r.gres_used)
    cpus = dict(zip(("cpus_alloc", "cpus_idle", "cpus_other", "cpus_total"), r.cpus_aiot or (), strict=False))
    nodes = dict(zip(("alloc", "idle", "other", "total"), r.nodes_aiot or (), strict=False))
    return {
        **{name: getattr(r, name) for name in r.__struct_fields__ if name != "state"},
        **state_view(r.state, r.state_word),
        **cpus, **nodes,
        "state": Alt((word, _long(word), r.state_word)),
        "user": r.reason_user, "free_mem_mib": r.free_memory_mib,
        "gpus": Alt((gpus, by_type(r.gres or ()))), "gpus_used": used, "gpu_indexes": indexes(r.gres_used),
        "used": by_type(r.gres_used or ()),
        "used_indexes": {g.type: list(g.indices or ()) for g in r.gres_used or () if g.count and g.name == "gpu"},
        "gpu_type": next((g.type for g in r.gres or () if g.name == "gpu"), None),
    }  # fmt: skip


def _long(word: str | None) -> str | None:
    return {"alloc": "allocated", "mix": "mixed", "drain": "drained", "drng": "draining"}.get(word or "", word)


def sinfo_view(found: Sinfo, text: str) -> View:
    rows = found.rows
    views = [row_view(r) for r in rows]
    nodes = {n.name: n for n in found.nodes().nodes}
    weighted = [(r.count if r.count is not None and not r.nodes else 1, r) for r in rows]
    by_name = {r.nodes: v for r, v in reversed(list(zip(rows, views, strict=True))) if r.nodes}
    partitions = {r.partition: v for r, v in zip(rows, views, strict=True) if r.partition}
    last = {f"{p}_last_row_used": v["gpus_used"] for p, v in partitions.items()}
    last |= {f"{p}_last_row_indexes": v["gpu_indexes"] for p, v in partitions.items()}
    types: Counter[str] = Counter()
    for n, r in weighted:
        for kind, count in by_type(r.gres or ()).items():
            types[kind] += n * count
    ordinal = {
        f"{nth}_{name}": value
        for nth, v in zip(("first", "second", "third"), views, strict=False)
        for name, value in {**v, "node": v["nodes"]}.items()
    }
    known: View = {
        **(views[0] if len(rows) == 1 else {}),
        **ordinal, **last,
        **{name: Alt((v, v["state_word"])) for name, v in by_name.items()},
        **{p: v for p, v in partitions.items() if v["nodes_aiot"] or p not in by_name},
        "rows": len(rows), "lines": len(rows), "distinct_nodes": len(nodes), "node": rows[0].nodes if rows else None,
        "nodes": Alt((sum(n for n, _ in weighted), len(nodes))),
        "partitions": sorted({r.partition or "" for r in rows}),
        "gpus_total_distinct_nodes": sum(n.gpus or 0 for n in nodes.values()),
        "gpus_used_distinct_nodes": sum(total(n.gres_used) or 0 for n in nodes.values()),
        "gpus_total": sum(n * (total(r.gres) or 0) for n, r in weighted),
        "gpus_per_node": total(rows[0].gres) if rows else None,
        "nodes_without_gres": sum(n for n, r in weighted if r.gres == ()),
        "gpus_by_type": dict(types),
        "mig_slices": sum(n * g.count for n, r in weighted for g in r.gres or () if g.mig),
        "non_gpu_gres_ignored": [g.name for r in rows[:1] for g in r.gres or () if g.name != "gpu"],
        "first_line_is_date": bool(re.match(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d", text)),
        "truncated": any(r.cut for r in rows),
        "suffixes": _suffixes(rows),
        "bad_lines": len(found.unread),
    }  # fmt: skip
    known["gpus_used"] = sum(n * (total(r.gres_used) or 0) for n, r in weighted)

    def more(name: str) -> Any:
        for node, n in nodes.items():
            if name.startswith(f"{node}_"):
                return node_view(n)[name.removeprefix(f"{node}_")]
        raise KeyError(name)

    return Lazy(known, more)


def _suffixes(rows: tuple[SinfoRow, ...]) -> dict[str, str]:
    meaning = {
        "MAINTENANCE": "in maintenance reservation",
        "POWERING_UP": "powering up",
        "NOT_RESPONDING": "not responding",
    }
    found: dict[str, str] = {}
    for r in rows:
        for symbol in re.findall(r"[*~#!%$@^-]$", r.state_word or ""):
            flag = node_state(f"idle{symbol}").flags[0]
            found[symbol] = meaning.get(flag, flag.lower().replace("_", " "))
    return found


def acct_view(r: SacctRow) -> View:
    state = r.state
    printed = f"{r.job}.{r.step}" if r.step else r.job or ""
    return {
        **{name: getattr(r, name) for name in r.__struct_fields__ if name != "state"},
        "state": Alt((state.base, str(state))) if state else None,
        "exit": None if r.exit_code is None else f"{r.exit_code}:{r.signal}",
        "return_code": r.exit_code, "gpus_total": r.gpus, "signal": Alt((r.signal, r.signal or None)),
        "exit_status": exit_word(r.exit_code, r.signal),
        "job_id": Alt((r.job_id, printed, int(printed) if printed.isdecimal() else None)),
        "job_id_raw": f"{r.job_id}.{r.step}" if r.step else str(r.job_id),
        "nodes": Alt((r.node_count, r.nodes)), "max_rss": r.max_rss_mib, "gpus": r.gpus,
        "gpus_alloc": r.gpus, "gpus_alloc_though_not_requested": None if "gres/gpu" in (r.tres_req or {}) else r.gpus,
    }  # fmt: skip


class Amount:
    """A number of MiB that equals its spelling with a unit."""

    def __init__(self, value: float | None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == (mib(other, "B") if isinstance(other, str) else other)

    __hash__ = None  # type: ignore[assignment]


def sacct_view(found: Sacct, data: bytes) -> View:
    rows, jobs = found.rows, found.jobs()
    states = Counter(r.state.base for r in rows if r.state)
    one = {r.job for r in rows}
    known: View = {
        **(acct_view(rows[0]) if len(one) == 1 or len({r.array_job_id for r in jobs}) == 1 else {}),
        "rows": len(rows), "records": len(rows), "columns": len(found.columns), "header_columns": len(found.columns),
        "physical_lines": len(data.rstrip(b"\n").split(b"\n")), "jobs": len(jobs), "steps": len(rows) - len(jobs),
        "first_row": acct_view(rows[0]) if rows else None,
        **{f"{s.lower()}_rows": n for s, n in states.items()},
        "states": dict(states),
        "cancelled_shown_as": next((f"{r.state.base}+" for r in rows if r.state and "state" in r.cut), None),
        "node_count": rows[0].node_count if rows else None,
        "is_valid_utf8": data.decode("utf-8", "ignore").encode() == data,
        "bad_lines": len(found.unread),
    }  # fmt: skip

    def more(name: str) -> Any:
        parts = re.fullmatch(r"job_?(\d+)(?:_(batch|extern|\d+))?(?:_(.+))?", name)
        row = next((r for r in rows if parts and r.job == parts[1] and r.step == parts[2]), None)
        if not parts or row is None:
            raise KeyError(name)
        view = acct_view(row)
        view |= {"max_rss": None if row.max_rss_mib is None else Amount(row.max_rss_mib)}
        for step in rows:
            if step.job == row.job and step.step:
                view[f"max_rss_step{step.step}"] = Amount(step.max_rss_mib)
        return view[parts[3]] if parts[3] else view

    return Lazy(known, more)


def columns_by_content(text: str, sep: str) -> list[str]:
    """Column names for rows of sacct whose format nobody noted: what can be told from the first line's cells."""
    names: list[str] = []
    cells = text.split("\n", 1)[0].split(sep)
    for i, cell in enumerate(cells):
        if re.fullmatch(r"\d+(?:_\S+)?(?:\.\w+)?", cell) and i == 0:
            names.append("JobID")
        elif cell in JOB_STATES or cell.startswith("CANCELLED"):
            names.append("State")
        elif re.fullmatch(r"\d+:\d+", cell) and "ExitCode" not in names:
            names.append("ExitCode")
        else:
            names.append(f"column{i}")
    return names
