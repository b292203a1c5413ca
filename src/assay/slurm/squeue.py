"""squeue: its default table, and any -o or -O format."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from assay.slurm.gres import gres_or_none
from assay.slurm.job import SlurmJob, SlurmJobs
from assay.slurm.state import JobState, job_state
from assay.slurm.table import BLANK, SHAPES, Row, Table, aliases, by_fields, by_header, by_letters, table
from assay.slurm.times import duration_s, limit_or_none, stamp
from assay.slurm.tres import tres
from assay.slurm.words import names, said, whole

# What Assay asks for itself: a separator that no name contains, free text last.
JOBS_FORMAT = (
    "%i\x1f%A\x1f%P\x1f%u\x1f%U\x1f%a\x1f%q\x1f%T\x1f%M\x1f%l\x1f%D\x1f%C\x1f%N\x1f%b\x1f%S\x1f%e\x1f%V\x1f%r\x1f%j"
)
JOBS_ARGV = ("squeue", "-h", "-a", "-o", JOBS_FORMAT)

# canonical -> letters of -o | names of -O and of headers
_SPEC = {
    "label": "i|jobarrayid",
    "jobid": "A|jobid",
    "array_job_id": "F|arrayjobid array_job_id",
    "array_task": "K|arraytaskid array_task_id",
    "het_job_id": "|hetjobid",
    "het_offset": "|hetjoboffset",
    "partition": "P|partition",
    "name": "j|name",
    "user": "u|username user",
    "uid": "U|userid uid",
    "account": "a|account",
    "qos": "q|qos",
    "state": "t T|state statecompact st",
    "time": "M|timeused time",
    "limit": "l|timelimit time_limit time_limi",
    "left": "L|timeleft time_left",
    "count": "D|numnodes nodes",
    "cpus": "C|numcpus cpus",
    "nodelist": "N|nodelist",
    "where": "R|reasonlist nodelist(reason)",
    "reason": "r|reason",
    "gres": "b|tres_per_node tres-per-node trespernode gres",
    "start": "S|starttime start_time",
    "end": "e|endtime end_time",
    "submit": "V|submittime submit_time",
    "priority": "Q|prioritylong",
    "comment": "k|comment",
    "command": "o|command",
    "work_dir": "Z|workdir work_dir",
    "reservation": "v|reservation",
    "features": "f|feature features",
    "dependency": "E|dependency",
    "batch_host": "B|batchhost exec_host",
    "excluded": "x|excnodes exc_nodes",
    "required": "n|reqnodes req_nodes",
    "tres_alloc": "|tresalloc tres-alloc tres_alloc",
    "licenses": "W|licenses",
    "restarts": "|restartcnt",
}
LETTERS, WORDS = aliases(_SPEC)

_LABEL = re.compile(r"(\d{1,18})(?:_(?:\[(.*)\]|(\d{1,18}))|\+(\d{1,18}))?")
_CELLS = {
    "name": r"(.*?)",
    "state": r"([A-Z][A-Z_]*)",
    "time": r"([\d:.-]+|INVALID|UNLIMITED|N/A|NOT_SET)",
    "count": r"(\d+[KMG]?)",
    "where": r"(.*)",
}
_CELLS |= dict.fromkeys(("limit", "left"), _CELLS["time"])


def squeue_o(spec: str, text: str) -> SlurmJobs:
    """Output of `squeue -o SPEC`, with or without its header."""
    return _read(table(text, by_letters(spec, LETTERS), SHAPES, WORDS))


def squeue_fields(spec: str, text: str) -> SlurmJobs:
    """Output of `squeue -O SPEC`, with or without its header."""
    return _read(table(text, by_fields(spec, WORDS), SHAPES, WORDS))


def squeue(text: str) -> SlurmJobs:
    """Any table of squeue with its header: default, -l, or with separators. Raises ValueError for another text."""
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines[:20]) if _heads(line)), None)
    if at is None:
        raise ValueError("no header of squeue in it")
    body = lines[at + 1 :]
    if "|" in lines[at] or "\x1f" in lines[at] or "^" in lines[at]:
        return _read(table("\n".join(body), by_header(lines[at], WORDS), SHAPES, ()))
    return _read(_blank(body, [WORDS.get(w.lower(), w.lower()) for w in lines[at].split()]))


def _heads(line: str) -> bool:
    words = [w.strip(BLANK) for w in re.split(r"[|^\x1f]+|\s+", line) if w.strip(BLANK)]
    return "JOBID" in words and sum(w.lower() in WORDS for w in words) * 2 > len(words)


def _blank(lines: Sequence[str], names_: Sequence[str]) -> Table:
    pattern = re.compile(r"\s*" + r"\s+".join(_CELLS.get(name, r"(\S+)") for name in names_) + r"\s*")
    rows: list[Row] = []
    unread: list[str] = []
    for line in lines:
        if found := pattern.fullmatch(line[:4096]):
            rows.append(Row({name: cell.strip(BLANK) for name, cell in zip(names_, found.groups(), strict=True)}))
        elif line.strip(BLANK):
            unread.append(line)
    return Table(tuple(rows), tuple(unread))


def _read(found: Table) -> SlurmJobs:
    jobs: list[SlurmJob] = []
    unread = list(found.unread)
    for row in found.rows:
        try:
            jobs.append(_job(row))
        except ValueError as e:
            unread.append(f"{'|'.join(row.values.values())[:200]}: {e}")
    return SlurmJobs(jobs=tuple(jobs), unread=tuple(unread))


def label_parts(text: str | None) -> dict[str, Any]:
    """The ids in `12`, `3_4`, `3_[2-5%2]` or `7+1`; {} for another text."""
    found = _LABEL.fullmatch(text) if text else None
    if not found:
        return {}
    job, rest, task, offset = int(found[1]), found[2], found[3], found[4]
    if offset is not None:
        return {"het_job_id": job, "het_offset": int(offset)}
    if rest is None and task is None:
        return {"job_id": job}
    _, _, throttle = (rest or "").partition("%")
    return {"array_job_id": job, "array_task": rest or task, "array_throttle": whole(throttle)}


def _ids(v: dict[str, str]) -> dict[str, Any]:
    texts = [v[key] for key in ("label", "jobid", "jobid#2") if v.get(key)]
    shown = max(texts, key=len, default=None)
    ids = label_parts(shown)
    if plain := next((whole(t) for t in texts if t.isdecimal()), None):
        ids.setdefault("job_id", plain)
    return ids | {"label": shown}


def _job(row: Row) -> SlurmJob:
    v = row.values
    reason, nodes = said(v.get("reason")), said(v.get("nodelist"))
    where = v.get("where", "")
    if where.startswith("("):
        reason = reason or said(where.removeprefix("(").removesuffix(")"))
    return SlurmJob(
        **_ids(v),
        name=v.get("name"),
        user=said(v.get("user")),
        uid=whole(v.get("uid")),
        account=said(v.get("account")),
        qos=said(v.get("qos")),
        partitions=names(v.get("partition")),
        reservation=said(v.get("reservation")),
        state=_state(v),
        reason=reason,
        dependency=said(v.get("dependency")),
        priority=whole(v.get("priority")),
        restarts=whole(v.get("restarts")),
        **_times(v),
        nodes=nodes or (None if where.startswith("(") else said(where)),
        batch_host=said(v.get("batch_host")),
        excluded_nodes=said(v.get("excluded")),
        required_nodes=said(v.get("required")),
        node_count=whole(v.get("count")),
        cpus=whole(v.get("cpus")),
        tres_alloc=tres(v.get("tres_alloc")),
        gres_per_node=gres_or_none(v.get("gres")),
        features=said(v.get("features")),
        licenses=said(v.get("licenses")),
        comment=said(v.get("comment")),
        command=said(v.get("command")),
        work_dir=said(v.get("work_dir")),
        other={k: t for k, t in v.items() if k not in _SPEC},
    )


def _times(v: dict[str, str]) -> dict[str, Any]:
    return {
        "run_time_s": duration_s(v.get("time")),
        "time_left_s": duration_s(v.get("left")),
        "time_limit_s": limit_or_none(v.get("limit")),
        "submit_at": stamp(v.get("submit")),
        "start_at": stamp(v.get("start")),
        "end_at": stamp(v.get("end")),
    }


def _state(v: dict[str, str]) -> JobState | None:
    text = max((v[key] for key in ("state", "state#2") if v.get(key)), key=len, default="")
    return job_state(text) if text else None


FORMATS: dict[str, Callable[[str], Any]] = {"squeue": squeue, "squeue -l": squeue}
