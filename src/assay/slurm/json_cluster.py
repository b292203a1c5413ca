"""Partitions, reservations, licences, controllers and statistics in JSON."""

from __future__ import annotations

from typing import Any

from assay.facts.shapes import shaped
from assay.slurm.config import Controller
from assay.slurm.data_parser import (
    Object,
    envelope,
    limit_s,
    load,
    moment,
    number,
    objects,
    part,
    text_of,
    texts,
    whole,
    word,
)
from assay.slurm.license import SlurmLicense, SlurmLicenses
from assay.slurm.partition import SlurmPartition, SlurmPartitions
from assay.slurm.reservation import SlurmReservation, SlurmReservations
from assay.slurm.sdiag import Rpc, Sdiag
from assay.slurm.tres import tres


def _found(doc: Object, key: str, single: str) -> list[Object]:
    """The objects under a key; [] for an answer of errors alone. Raises ValueError when it is of another thing."""
    if key in doc:
        return objects(doc[key])
    if single in doc:
        return [doc]
    if objects(doc.get("errors")):
        return []
    raise ValueError(f"no {key} in it")


@shaped("Slurm partitions")
def partitions(text: str) -> SlurmPartitions:
    """All partitions of an answer. Raises ValueError for another text."""
    doc = load(text)
    found = tuple(_partition(o) for o in _found(doc, "partitions", "priority_tier"))
    return SlurmPartitions(partitions=found, envelope=envelope(doc))


def _partition(o: Object) -> SlurmPartition:
    nested = part(o, "nodes")
    flags = {f.lower() for f in texts(o.get("flags"))}
    most = part(o, "maximums")
    nodes_most = most.get("nodes", o.get("maximum_nodes_per_job"))
    told = part(o, "tres").get("configured", o.get("tres"))
    return SlurmPartition(
        name=str(o.get("name") or ""),
        state=word(part(o, "partition").get("state", o.get("state"))),
        default="default" in flags if "flags" in o else None,
        nodes=text_of(nested.get("configured", o.get("nodes"))),
        node_count=whole(nested.get("total", o.get("total_nodes"))),
        cpus=whole(part(o, "cpus").get("total", o.get("total_cpus"))),
        tres=tres(told if isinstance(told, str) else None),
        max_time_s=limit_s(most.get("time", o.get("max_time_limit"))),
        default_time_s=limit_s(part(o, "defaults").get("time", o.get("default_time_limit"))),
        grace_s=number(o.get("grace_time", o.get("preemption_grace_time"))),
        min_nodes=whole(part(o, "minimums").get("nodes", o.get("min_nodes_per_job"))),
        max_nodes="UNLIMITED" if limit_s(nodes_most) == "UNLIMITED" else whole(nodes_most),
        qos=text_of(part(o, "qos").get("assigned", o.get("qos"))),
        allow_accounts=texts(part(o, "accounts").get("allowed", o.get("allowed_accounts"))),
        deny_accounts=texts(part(o, "accounts").get("deny", o.get("denied_accounts"))),
        allow_groups=texts(part(o, "groups").get("allowed", o.get("allowed_groups"))),
        allow_qos=texts(part(o, "qos").get("allowed", o.get("allowed_qos"))),
        priority_tier=whole(part(o, "priority").get("tier", o.get("priority_tier"))),
        preempt_mode=word(o.get("preemption_mode")),
        suspend_time_s=limit_s(o.get("suspend_time"), 1),
    )


@shaped("Slurm reservations")
def reservations(text: str) -> SlurmReservations:
    """All reservations of an answer. Raises ValueError for another text."""
    doc = load(text)
    found = tuple(_reservation(o) for o in _found(doc, "reservations", "node_list"))
    return SlurmReservations(reservations=found, envelope=envelope(doc))


def _reservation(o: Object) -> SlurmReservation:
    begin, end = number(o.get("start_time")), number(o.get("end_time"))
    return SlurmReservation(
        name=str(o.get("name") or ""),
        start_at=moment(o.get("start_time")),
        end_at=moment(o.get("end_time")),
        duration_s=None if begin is None or end is None else end - begin,
        nodes=text_of(o.get("node_list")),
        node_count=whole(o.get("node_count")),
        core_count=whole(o.get("core_count")),
        flags=texts(o.get("flags")),
        tres=tres(o.get("tres")),
        users=texts(o.get("users")),
        groups=texts(o.get("groups")),
        accounts=texts(o.get("accounts")),
        partition=text_of(o.get("partition")),
        features=text_of(o.get("features")),
        licenses=text_of(o.get("licenses")),
    )


@shaped("Slurm licences")
def licenses(text: str) -> SlurmLicenses:
    """All licences of an answer. Raises ValueError for another text."""
    doc = load(text)
    found = (
        SlurmLicense(
            name=str(o.get("LicenseName") or o.get("name") or ""),
            total=whole(o.get("Total")),
            used=whole(o.get("Used")),
            free=whole(o.get("Free")),
            reserved=whole(o.get("Reserved")),
            remote=o.get("Remote") if isinstance(o.get("Remote"), bool) else None,
        )
        for o in _found(doc, "licenses", "LicenseName")
    )
    return SlurmLicenses(licenses=tuple(found), envelope=envelope(doc))


@shaped("Slurm controllers")
def pings(text: str) -> tuple[Controller, ...]:
    """`scontrol ping --json` and GET /ping. Raises ValueError for another text."""
    return tuple(
        Controller(
            role=str(o.get("mode") or ("primary" if o.get("primary") else "backup")),
            host=str(o.get("hostname") or ""),
            up=bool(o["responding"]) if "responding" in o else o.get("pinged", o.get("ping")) == "UP",
        )
        for o in _found(load(text), "pings", "pinged")
    )


_STATISTICS = {
    "server_threads": "server_thread_count", "agent_queue": "agent_queue_size", "agents": "agent_count",
    "agent_threads": "agent_thread_count", "dbd_queue": "dbd_agent_queue_size", "main_last_us": "schedule_cycle_last",
    "main_max_us": "schedule_cycle_max", "main_sum_us": "schedule_cycle_sum", "main_cycles": "schedule_cycle_total",
    "main_mean_us": "schedule_cycle_mean", "main_mean_depth": "schedule_cycle_mean_depth",
    "main_per_minute": "schedule_cycle_per_minute", "main_queue": "schedule_queue_length",
    "backfill_jobs": "bf_backfilled_jobs", "backfill_jobs_since_cycle": "bf_last_backfilled_jobs",
    "backfill_het_jobs": "bf_backfilled_het_jobs", "backfill_cycles": "bf_cycle_counter",
    "backfill_last_us": "bf_cycle_last", "backfill_max_us": "bf_cycle_max", "backfill_mean_us": "bf_cycle_mean",
    "backfill_queue": "bf_queue_len", "gettimeofday_us": "gettimeofday_latency",
}  # fmt: skip
_JOBS = ("submitted", "started", "completed", "canceled", "failed", "pending", "running")


@shaped("Slurm's statistics")
def statistics(text: str) -> Sdiag:
    """`sdiag --json` and GET /diag. Raises ValueError for another text."""
    doc = load(text)
    (s,) = _found(doc, "statistics", "schedule_cycle_last")[:1] or [{}]
    known = {*_STATISTICS.values(), *(f"jobs_{name}" for name in _JOBS)}
    values: dict[str, Any] = {field: whole(s.get(key)) for field, key in _STATISTICS.items()}
    values |= {f"jobs_{name}": whole(s.get(f"jobs_{name}")) for name in _JOBS}
    other = {key: n for key, v in s.items() if key not in known and (n := whole(v)) is not None}
    return Sdiag(
        **values,
        generated_epoch=whole(s.get("req_time")),
        generated_at=moment(s.get("req_time")),
        since_epoch=whole(s.get("req_time_start")),
        rpcs=tuple(_rpc(o, "message_type", "type_id") for o in objects(s.get("rpcs_by_message_type"))),
        users=tuple(_rpc(o, "user", "user_id") for o in objects(s.get("rpcs_by_user"))),
        pending_rpcs=tuple(
            (str(o.get("message_type")), whole(o.get("count")) or 0) for o in objects(s.get("pending_rpcs"))
        ),
        other=other,
        envelope=envelope(doc),
    )


def _rpc(o: Object, name: str, id_: str) -> Rpc:
    return Rpc(
        name=str(o.get(name) or ""),
        id=whole(o.get(id_)) or 0,
        count=whole(o.get("count")) or 0,
        average_us=whole(o.get("average_time")),
        total_us=whole(o.get("total_time")),
    )
