"""Jobs: `scontrol show job`, arrays and heterogeneous jobs among them. squeue and JSON fill the same values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.model import Fact
from assay.slurm.envelope import Envelope
from assay.slurm.gres import Gres, gres_or_none, total
from assay.slurm.hostlist import hosts
from assay.slurm.record import Fields, Record, filled, records
from assay.slurm.state import JobState, job_state
from assay.slurm.times import Limit, duration_s, limit_or_none, stamp
from assay.slurm.tres import gpus, tres
from assay.slurm.words import names, said, whole, yes


class NodesGres(Struct, frozen=True):
    """What each node of one group holds of generic resources. `nodes` is a hostlist, None where JSON names none."""

    nodes: str | None
    gres: tuple[Gres, ...]


class SlurmJob(Fact, frozen=True):
    """One job, array task or part of a heterogeneous job. `label` = its id as squeue prints it: 3_[2-5%2], 7+1."""

    job_id: int | None = None
    label: str | None = None
    array_job_id: int | None = None
    array_task: str | None = None
    array_throttle: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    cluster: str | None = None
    qos: str | None = None
    partitions: tuple[str, ...] = ()
    reservation: str | None = None
    state: JobState | None = None
    reason: str | None = None
    dependency: str | None = None
    priority: int | None = None
    requeue: bool | None = None
    restarts: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    run_time_s: int | float | None = None
    time_left_s: int | float | None = None
    time_limit_s: Limit | None = None
    submit_at: str | None = None
    eligible_at: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    nodes: str | None = None
    batch_host: str | None = None
    excluded_nodes: str | None = None
    required_nodes: str | None = None
    node_count: int | None = None
    cpus: int | None = None
    tasks: int | None = None
    tres_req: dict[str, int | float] | None = None
    tres_alloc: dict[str, int | float] | None = None
    gres_per_node: tuple[Gres, ...] | None = None
    gres_per_job: tuple[Gres, ...] | None = None
    gres_detail: tuple[NodesGres, ...] = ()
    features: str | None = None
    oversubscribe: str | None = None
    licenses: str | None = None
    comment: str | None = None
    admin_comment: str | None = None
    command: str | None = None
    work_dir: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    submit_line: str | None = None
    other: dict[str, str] = field(default_factory=dict)

    @property
    def gpus_per_node(self) -> tuple[int, ...]:
        """GPUs on each allocated node, where Slurm says so."""
        return tuple(
            total(group.gres) or 0
            for group in self.gres_detail
            for _ in range(len(hosts(group.nodes)) if group.nodes else 1)
        )

    @property
    def gpus(self) -> int | None:
        """GPUs held (or, while pending, asked for): by node where said, else by TRES, else as asked."""
        if self.gres_detail:
            return sum(self.gpus_per_node)
        for tracked in (gpus(self.tres_alloc), gpus(self.tres_req), total(self.gres_per_job)):
            if tracked is not None:
                return tracked
        each = total(self.gres_per_node)
        return None if each is None or self.node_count is None else each * self.node_count


class SlurmJobs(Fact, frozen=True):
    """All jobs of one answer."""

    jobs: tuple[SlurmJob, ...] = ()
    unread: tuple[str, ...] = ()
    envelope: Envelope | None = None

    def job(self, job_id: int) -> SlurmJob | None:
        """The first record of this JobId."""
        return next((j for j in self.jobs if j.job_id == job_id), None)


_TEXTS = frozenset({
    "Comment", "AdminComment", "SystemComment", "Extra", "WorkDir", "StdErr", "StdIn", "StdOut", "BatchScript", "Power",
    "TresPerNode", "TresPerJob", "TresPerTask", "TresPerSocket", "CpusPerTres", "MemPerTres", "TresBind", "TresFreq",
    "MailUser", "MailType", "SubmitLine", "Cluster", "Container", "BurstBuffer", "GresEnforceBind",
})  # fmt: skip
_TEXT_KEYS = (
    "Command", "Comment", "AdminComment", "SystemComment", "Extra", "WorkDir", "StdErr", "StdIn", "StdOut",
    "SubmitLine",
)  # fmt: skip
_FREE = {key: _TEXTS - {key} for key in _TEXT_KEYS} | {"JobName": frozenset({"UserId"})}
_OWNER = re.compile(r"(.*)\((\d{1,18})\)")
_EXIT = re.compile(r"(\d{1,18}):(\d{1,18})")

FIELDS: Fields = {
    "JobId": ("job_id", whole),
    "ArrayJobId": ("array_job_id", whole),
    "ArrayTaskId": ("array_task", said),
    "ArrayTaskThrottle": ("array_throttle", whole),
    "HetJobId": ("het_job_id", whole),
    "HetJobOffset": ("het_offset", whole),
    "JobName": ("name", str),
    "Account": ("account", said),
    "QOS": ("qos", said),
    "Partition": ("partitions", names),
    "Reservation": ("reservation", said),
    "JobState": ("state", job_state),
    "Reason": ("reason", said),
    "Dependency": ("dependency", said),
    "Priority": ("priority", whole),
    "Requeue": ("requeue", yes),
    "Restarts": ("restarts", whole),
    "RunTime": ("run_time_s", duration_s),
    "TimeLimit": ("time_limit_s", limit_or_none),
    "SubmitTime": ("submit_at", stamp),
    "EligibleTime": ("eligible_at", stamp),
    "StartTime": ("start_at", stamp),
    "EndTime": ("end_at", stamp),
    "NodeList": ("nodes", said),
    "BatchHost": ("batch_host", said),
    "ExcNodeList": ("excluded_nodes", said),
    "ReqNodeList": ("required_nodes", said),
    "NumNodes": ("node_count", whole),
    "NumCPUs": ("cpus", whole),
    "NumTasks": ("tasks", whole),
    "ReqTRES": ("tres_req", tres),
    "AllocTRES": ("tres_alloc", tres),
    "TresPerNode": ("gres_per_node", gres_or_none),
    "TresPerJob": ("gres_per_job", gres_or_none),
    "Features": ("features", said),
    "OverSubscribe": ("oversubscribe", said),
    "Licenses": ("licenses", said),
    "Comment": ("comment", said),
    "AdminComment": ("admin_comment", said),
    "Command": ("command", said),
    "WorkDir": ("work_dir", said),
    "StdOut": ("stdout", said),
    "StdErr": ("stderr", said),
    "SubmitLine": ("submit_line", said),
}


def exit_of(text: str | None) -> tuple[int | None, int | None]:
    """`0:15` -> exit code and signal; None for either when the text is none."""
    found = _EXIT.fullmatch(text.strip()) if text else None
    return (int(found[1]), int(found[2])) if found else (None, None)


def owner(text: str | None) -> tuple[str | None, int | None]:
    """`root(0)` -> name and uid."""
    found = _OWNER.fullmatch(text) if text else None
    return (found[1], int(found[2])) if found else (said(text), None)


def label(job: dict[str, Any]) -> str | None:
    """The id as squeue prints it, from the parts."""
    if (task := job.get("array_task")) is not None and job.get("array_job_id"):
        return f"{job['array_job_id']}_{task}" if str(task).isdecimal() else f"{job['array_job_id']}_[{task}]"
    if job.get("het_job_id") and job.get("het_offset") is not None:
        return f"{job['het_job_id']}+{job['het_offset']}"
    return None if job.get("job_id") is None else str(job["job_id"])


def _job(record: Record) -> SlurmJob:
    code, signal = exit_of(record.pop("ExitCode", None))
    user, uid = owner(record.pop("UserId", None))
    where, what = record.pop("Nodes", ""), record.pop("GRES", "")
    if "TRES" in record:  # one line up to 23.02: what is held, or what is asked for while nothing is
        record["ReqTRES" if record.get("JobState") == "PENDING" else "AllocTRES"] = record.pop("TRES")
    groups = zip(where.split("\n"), what.split("\n"), strict=False)
    detail = tuple(NodesGres(nodes, gres_or_none(held) or ()) for nodes, held in groups if held)
    values = filled(record, FIELDS)
    return SlurmJob(
        **values, label=label(values), exit_code=code, signal=signal, user=user, uid=uid, gres_detail=detail
    )


def show_job(text: str) -> SlurmJobs:
    """`scontrol show job`, also -o and -d. Raises ValueError when there is neither a job nor a message in it."""
    read = records(text, "JobId", _FREE)
    unread = [line for line in read.unread if line.strip() != "No jobs in the system"]
    whole_ones = [r for r in read.records if "JobState" in r]
    unread += [f"JobId={r['JobId']}: cut short" for r in read.records if "JobState" not in r]
    if not whole_ones and not unread and "No jobs in the system" not in text:
        raise ValueError("no job in it")
    return SlurmJobs(jobs=tuple(_job(r) for r in whole_ones), unread=tuple(unread))


FORMATS: dict[str, Callable[[str], Any]] = {
    "scontrol show job": show_job,
    "scontrol show jobs": show_job,
    "scontrol -d show job": show_job,
    "scontrol show job -o": show_job,
}
