"""Jobs in JSON: squeue, scontrol and slurmrestd (slurmctld's view), sacct and slurmdb (the accounting's view)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.facts.shapes import shaped
from assay.slurm.data_parser import (
    Object,
    counted,
    envelope,
    exit_of,
    limit_s,
    load,
    moment,
    number,
    objects,
    part,
    text_of,
    texts,
    tres_list,
    whole,
    word,
)
from assay.slurm.gres import gres_or_none
from assay.slurm.job import NodesGres, SlurmJob, SlurmJobs, label
from assay.slurm.sacct import Sacct, SacctRow
from assay.slurm.state import job_state_of
from assay.slurm.tres import tres


def job(o: Object) -> SlurmJob:
    """One job object of slurmctld, of any version. Raises ValueError when it has no state."""
    code, signal = exit_of(o.get("exit_code"))
    held = o.get("gres_detail")
    detail = tuple(NodesGres(None, gres_or_none(str(g)) or ()) for g in held) if isinstance(held, list) else ()
    ids = _ids(o)
    return SlurmJob(
        **ids,
        **_times(o),
        **_places(o),
        label=label(ids),
        name=o.get("name") if isinstance(o.get("name"), str) else None,
        user=text_of(o.get("user_name")),
        uid=whole(o.get("user_id")),
        account=text_of(o.get("account")),
        cluster=text_of(o.get("cluster")),
        qos=text_of(o.get("qos")),
        reservation=text_of(o.get("resv_name")),
        state=job_state_of(o.get("job_state") or ""),
        reason=text_of(o.get("state_reason")),
        dependency=text_of(o.get("dependency")),
        priority=whole(o.get("priority")),
        requeue=o.get("requeue") if isinstance(o.get("requeue"), bool) else None,
        restarts=whole(o.get("restart_cnt")),
        exit_code=code,
        signal=signal,
        cpus=whole(o.get("cpus")),
        tasks=whole(o.get("tasks")),
        tres_req=tres(o.get("tres_req_str")),
        tres_alloc=tres(o.get("tres_alloc_str")),
        gres_per_node=gres_or_none(o.get("tres_per_node")),
        gres_per_job=gres_or_none(o.get("tres_per_job")) or None,
        gres_detail=detail,
        features=text_of(o.get("features")),
        licenses=text_of(o.get("licenses")),
        comment=text_of(o.get("comment")),
        admin_comment=text_of(o.get("admin_comment")),
        **_program(o),
    )


def _program(o: Object) -> dict[str, Any]:
    return {
        "command": text_of(o.get("command")),
        "work_dir": text_of(o.get("current_working_directory")),
        "stdout": text_of(o.get("stdout_expanded")) or text_of(o.get("standard_output")),
        "stderr": text_of(o.get("stderr_expanded")) or text_of(o.get("standard_error")),
        "submit_line": text_of(o.get("submit_line")),
    }


def _ids(o: Object) -> dict[str, Any]:
    array, het = counted(o.get("array_job_id")), counted(o.get("het_job_id"))
    task = whole(o.get("array_task_id"))
    return {
        "job_id": whole(o.get("job_id")),
        "array_job_id": array,
        "array_task": None
        if not array
        else text_of(o.get("array_task_string")) or (None if task is None else str(task)),
        "array_throttle": counted(o.get("array_max_tasks")),
        "het_job_id": het,
        "het_offset": whole(o.get("het_job_offset")) if het else None,
    }


def _times(o: Object) -> dict[str, Any]:
    return {
        "time_limit_s": limit_s(o.get("time_limit")),
        "submit_at": moment(o.get("submit_time")),
        "eligible_at": moment(o.get("eligible_time")),
        "start_at": moment(o.get("start_time")),
        "end_at": moment(o.get("end_time")),
    }


def _places(o: Object) -> dict[str, Any]:
    nodes_ = o.get("nodes")
    return {
        "partitions": texts(o.get("partition")),
        "nodes": text_of(nodes_.get("list") if isinstance(nodes_, dict) else nodes_),
        "batch_host": text_of(o.get("batch_host")),
        "excluded_nodes": text_of(o.get("excluded_nodes")),
        "required_nodes": text_of(o.get("required_nodes")),
        "node_count": whole(o.get("node_count")),
    }


@shaped("Slurm jobs")
def jobs(text: str) -> SlurmJobs:
    """All jobs of slurmctld in an answer, or one bare job object. An answer of errors alone has none. ValueError."""
    doc = load(text)
    about = envelope(doc)
    if isinstance(doc.get("jobs"), list | dict):
        return SlurmJobs(jobs=tuple(job(o) for o in objects(doc["jobs"])), envelope=about)
    if "job_id" in doc and "job_state" in doc:
        return SlurmJobs(jobs=(job(doc),))
    if about and about.errors:
        return SlurmJobs(envelope=about)
    raise ValueError("no jobs in it")


@shaped("Slurm's accounting")
def accounted(text: str) -> Sacct:
    """`sacct --json` and slurmdb: each job followed by its steps. Raises ValueError for another text."""
    doc = load(text)
    about = envelope(doc)
    found = [doc] if is_accounted(doc) else objects(doc.get("jobs"))
    if not found and not isinstance(doc.get("jobs"), list) and not (about and about.errors):
        raise ValueError("no jobs in it")
    return Sacct(rows=tuple(row for o in found for row in _rows(o)), envelope=about)


def is_accounted(o: Object) -> bool:
    """A job object of the accounting, not of slurmctld."""
    return isinstance(o.get("state"), dict) and isinstance(o.get("time"), dict)


def _rows(o: Object) -> Iterator[SacctRow]:
    state = part(o, "state")
    array, het = part(o, "array"), part(o, "het")
    ids = _ids({
        "job_id": o.get("job_id"), "array_job_id": array.get("job_id"), "array_task_id": array.get("task_id"),
        "array_task_string": array.get("task"), "het_job_id": het.get("job_id"),
        "het_job_offset": het.get("job_offset"),
    })  # fmt: skip
    ids.pop("array_throttle")
    derived, derived_signal = exit_of(o.get("derived_exit_code"))
    base = SacctRow(
        **ids,
        **_spent(o),
        job=label(ids),
        name=o.get("name") if isinstance(o.get("name"), str) else None,
        user=text_of(o.get("user")),
        account=text_of(o.get("account")),
        partition=text_of(o.get("partition")),
        qos=text_of(o.get("qos")),
        cluster=text_of(o.get("cluster")),
        state=job_state_of(state.get("current") or ""),
        reason=text_of(state.get("reason")),
        derived_exit_code=derived,
        derived_signal=derived_signal,
        restarts=whole(o.get("restart_cnt")),
        nodes=text_of(o.get("nodes")),
        node_count=whole(o.get("allocation_nodes")),
        cpus=whole(part(o, "required").get("CPUs")),
        tres_req=tres_list(part(o, "tres").get("requested")),
        tres_alloc=tres_list(part(o, "tres").get("allocated")),
        work_dir=text_of(o.get("working_directory")),
        submit_line=text_of(o.get("submit_line")),
    )
    yield base
    for step in objects(o.get("steps")):
        yield _step(step, base)


def _spent(o: Object) -> dict[str, Any]:
    time = part(o, "time")
    total = part(time, "total")
    seconds, micro = number(total.get("seconds")), number(total.get("microseconds"))
    code, signal = exit_of(o.get("exit_code"))
    return {
        "submit_at": moment(time.get("submission")),
        "eligible_at": moment(time.get("eligible")),
        "start_at": moment(time.get("start")),
        "end_at": moment(time.get("end")),
        "elapsed_s": number(time.get("elapsed")),
        "time_limit_s": limit_s(time.get("limit")),
        "total_cpu_s": None if seconds is None else seconds + (micro or 0) / 1e6,
        "exit_code": code,
        "signal": signal,
    }


def _step(step: Object, base: SacctRow) -> SacctRow:
    about, where = part(step, "step"), part(step, "nodes")
    id_ = about.get("id")
    name = id_.get("step_id") if isinstance(id_, dict) else str(id_ or "").rpartition(".")[2]
    return SacctRow(
        **_spent(step),
        job=base.job,
        step=str(name) if name is not None else "",
        job_id=base.job_id,
        array_job_id=base.array_job_id,
        array_task=base.array_task,
        name=text_of(about.get("name")),
        state=job_state_of(word(step.get("state")) or ""),
        nodes=text_of(where.get("range")),
        node_count=whole(where.get("count")),
        tasks=whole(part(step, "tasks").get("count")),
        tres_alloc=tres_list(part(step, "tres").get("allocated")),
    )
