"""sacct: -P with its header and any separator, the default table, and rows without a header."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.job import exit_of
from assay.slurm.squeue import label_parts
from assay.slurm.state import JobState, job_state
from assay.slurm.table import BLANK, COUNT, STAMP, STATE, TIME, Column, Row, Shapes, Table, sliced, split
from assay.slurm.times import Limit, duration_s, limit_or_none, stamp
from assay.slurm.tres import gpus, tres
from assay.slurm.words import mib, said, whole

# What Assay asks for itself; only fields that every release from 20.11 on knows, free text last.
FIELDS = (
    "JobID", "JobIDRaw", "State", "ExitCode", "DerivedExitCode", "User", "Account", "Partition", "QOS", "Submit",
    "Eligible", "Start", "End", "Elapsed", "Timelimit", "NNodes", "AllocCPUS", "NodeList", "ReqTRES", "AllocTRES",
    "ReqMem", "MaxRSS", "TotalCPU", "Reason", "JobName",
)  # fmt: skip
DELIMITER = "\x1f"
ARGV = ("sacct", "-a", "-P", "-D", f"--delimiter={DELIMITER}", "-o", ",".join(FIELDS))
_FREE = ("jobname", "submitline", "comment", "admincomment", "systemcomment", "workdir", "reason", "extra")
_SHAPES: Shapes = (
    dict.fromkeys(("elapsed", "timelimit", "totalcpu", "cputime"), TIME)
    | dict.fromkeys(("nnodes", "ntasks", "alloccpus", "ncpus", "elapsedraw", "uid"), COUNT)
    | dict.fromkeys(("start", "end", "submit", "eligible"), STAMP)
    | {"state": STATE, "exitcode": re.compile(r"(?:\d+:\d+)?"), "jobid": re.compile(r"\d+\S*")}
    | dict.fromkeys(_FREE)
)
_HEADS = frozenset({"jobid", "jobidraw"})
_STEP = re.compile(r"(?P<job>\d{1,18}(?:_(?:\[[^\]]*\]|\d+)|\+\d+)?)(?:\.(?P<step>[\w+-]+))?")
_REFUSED = re.compile(r"Invalid field requested: \"([^\"]+)\"")
_DASHES = re.compile(r"-{2,}(?: -{2,})*\s*")
_MOST_LINES = 200  # of one record: SubmitLine may hold line breaks


class SacctRow(Fact, frozen=True):
    """One row: a job or (with `step`) a step of it. `job` is the id as printed, without the step."""

    job: str | None = None
    step: str | None = None
    job_id: int | None = None
    array_job_id: int | None = None
    array_task: str | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    cluster: str | None = None
    state: JobState | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    derived_exit_code: int | None = None
    derived_signal: int | None = None
    restarts: int | None = None
    submit_at: str | None = None
    eligible_at: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    elapsed_s: int | float | None = None
    time_limit_s: Limit | None = None
    total_cpu_s: int | float | None = None
    cpu_time_s: int | float | None = None
    nodes: str | None = None
    node_count: int | None = None
    tasks: int | None = None
    cpus: int | None = None
    tres_req: dict[str, int | float] | None = None
    tres_alloc: dict[str, int | float] | None = None
    req_mem: str | None = None
    max_rss_mib: int | float | None = None
    work_dir: str | None = None
    submit_line: str | None = None
    cut: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int | None:
        """GPUs held; None where the cluster does not track them or the job held none."""
        return gpus(self.tres_alloc)


class Sacct(Fact, frozen=True):
    """Rows in the order printed; with -D a requeued job has several of the same id."""

    rows: tuple[SacctRow, ...] = ()
    columns: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None

    def jobs(self) -> tuple[SacctRow, ...]:
        """The rows that are jobs, not steps."""
        return tuple(r for r in self.rows if r.step is None)


def sacct(text: str) -> Sacct:
    """`sacct -P` or the default table, with header. Raises ValueError for another text."""
    head, _, body = text.lstrip("\n").partition("\n")
    under, _, rest = body.partition("\n")
    if _DASHES.fullmatch(under):
        return _fixed(head, under, rest)
    heads = head.strip(BLANK)
    sep = _separator(heads)
    names = tuple(n for n in heads.split(sep) if n) if sep else (heads,)
    if not _HEADS & {n.lower() for n in names}:
        raise ValueError("no header of sacct in the first line")
    return sacct_rows(body, names, sep or DELIMITER)


def _separator(head: str) -> str:
    found = re.match(r"[A-Za-z]\w*([^\w\r\n]+)", head)
    return found[1] if found else ""


def sacct_rows(text: str, columns: Sequence[str], sep: str = "|") -> Sacct:
    """Rows of `sacct -P` without their header: `columns` as in -o, `sep` as in --delimiter."""
    specs = tuple(Column(name.lower(), None, sep) for name in columns)
    rows: list[Row] = []
    unread: list[str] = []
    for record in _records(text, sep, len(columns)):
        cells = split(record, specs, _SHAPES)
        if cells is None or len(cells) != len(specs):
            unread.append(record)
        else:
            rows.append(_cells(cells, specs))
    return _sacct(Table(tuple(rows), tuple(unread)), columns)


def _cells(cells: Sequence[str], columns: Sequence[Column]) -> Row:
    values: dict[str, str] = {}
    for cell, column in zip(cells, columns, strict=True):
        values.setdefault(column.name, cell.strip(BLANK))
    return Row(values)


def _records(text: str, sep: str, columns: int) -> list[str]:
    """Lines, with those joined that a line break inside a value has split."""
    found: list[str] = []
    held: list[str] = []
    seps = 0
    for line in text.split("\n"):
        mine = line.count(sep)
        if not held and not line.strip(BLANK):
            continue
        held.append(line.rstrip("\r"))
        seps += mine
        if seps >= columns - 1:
            if len(held) > 1 and mine >= columns - 1:  # a whole record: what is held before it is a torn one
                found.append("\n".join(held[:-1]))
                held = held[-1:]
            found.append("\n".join(held))
            held, seps = [], 0
        elif len(held) > _MOST_LINES:
            seps -= held[0].count(sep)
            found.append(held.pop(0))
    return [*found, *held]


def _fixed(head: str, under: str, body: str) -> Sacct:
    names = head.split()
    widths = [len(dash) + 1 for dash in under.split()]
    if len(names) != len(widths):
        raise ValueError("a header of sacct that does not fit its line of dashes")
    rows: list[Row] = []
    for line in body.split("\n"):
        if line.strip(BLANK):
            cells = [cell.strip(BLANK) for cell in sliced(line, widths)]
            cut = tuple(n.lower() for n, cell in zip(names, cells, strict=True) if cell.endswith("+"))
            rows.append(Row(dict(zip((n.lower() for n in names), cells, strict=True)), cut))
    return _sacct(Table(tuple(rows)), names)


def _sacct(found: Table, columns: Sequence[str]) -> Sacct:
    rows: list[SacctRow] = []
    unread = list(found.unread)
    for row in found.rows:
        try:
            rows.append(_row(row))
        except ValueError as e:
            unread.append(f"{'|'.join(row.values.values())[:200]}: {e}")
    return Sacct(rows=tuple(rows), columns=tuple(columns), unread=tuple(unread))


_DIRECT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "jobname": ("name", str),
    "user": ("user", said),
    "account": ("account", said),
    "partition": ("partition", said),
    "qos": ("qos", said),
    "cluster": ("cluster", said),
    "reason": ("reason", said),
    "restarts": ("restarts", whole),
    "submit": ("submit_at", stamp),
    "eligible": ("eligible_at", stamp),
    "start": ("start_at", stamp),
    "end": ("end_at", stamp),
    "timelimit": ("time_limit_s", limit_or_none),
    "totalcpu": ("total_cpu_s", duration_s),
    "cputime": ("cpu_time_s", duration_s),
    "nodelist": ("nodes", said),
    "nnodes": ("node_count", whole),
    "ntasks": ("tasks", whole),
    "reqtres": ("tres_req", tres),
    "alloctres": ("tres_alloc", tres),
    "reqmem": ("req_mem", said),
    "maxrss": ("max_rss_mib", lambda text: mib(text, "B")),
    "workdir": ("work_dir", said),
    "submitline": ("submit_line", said),
}
_MORE = frozenset({"jobid", "jobidraw", "state", "exitcode", "derivedexitcode", "elapsed", "elapsedraw", "alloccpus"})


def _row(row: Row) -> SacctRow:
    v = row.values
    printed = v.get("jobid") or v.get("jobidraw") or ""
    ids = _STEP.fullmatch(printed)
    if printed and not ids:
        raise ValueError(f"not a job id: {printed[:60]!r}")
    parts = label_parts(ids["job"]) if ids else {}
    parts.pop("array_throttle", None)
    raw = whole(v.get("jobidraw", "").partition(".")[0])
    values = {field_: read(v[key]) for key, (field_, read) in _DIRECT.items() if key in v}
    code, signal = exit_of(v.get("exitcode"))
    derived, derived_signal = exit_of(v.get("derivedexitcode"))
    return SacctRow(
        **values | parts | ({} if raw is None else {"job_id": raw}),
        job=ids["job"] if ids else None,
        step=ids["step"] if ids else None,
        state=job_state(v["state"]) if v.get("state") else None,
        exit_code=code,
        signal=signal,
        derived_exit_code=derived,
        derived_signal=derived_signal,
        elapsed_s=duration_s(v["elapsed"]) if v.get("elapsed") else whole(v.get("elapsedraw")),
        cpus=whole(v.get("alloccpus") or v.get("ncpus")),
        cut=row.cut,
        other={k: t for k, t in v.items() if t and k not in _DIRECT and k not in _MORE},
    )


def refused_field(text: str) -> str | None:
    """The field that made sacct refuse the whole call, from its message on stderr."""
    found = _REFUSED.search(text)
    return found[1] if found else None


FORMATS: dict[str, Callable[[str], Any]] = {"sacct -P": sacct, "sacct": sacct}
