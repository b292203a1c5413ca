"""Drained nodes: whether anybody knows why, how long, and whether the reason was one."""

from __future__ import annotations

import re
from collections import Counter

from assay.checks.registry import check
from assay.checks.slurm_cluster import names, strange
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.hostlist import hosts
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.reservation import SlurmReservations
from assay.slurm.sacctmgr import NodeEvent, NodeEvents
from assay.slurm.times import epoch

_DAY = 86400.0
_NONE = "no node is drained"
_TIME_OUT = re.compile(
    r"time[d]?[ _-]?out|did not (?:finish|answer|respond) in|exceeded .{0,20}(?:time|sec)", re.IGNORECASE
)
_OF_A_CHECK = re.compile(r"diag|health|check|dcgm|nccl|test|valid|burn|nvidia-smi", re.IGNORECASE)
_HOOK = re.compile(r"^(?:prolog|epilog)\b|batch job complete failure|prolog.{0,12}(?:error|fail|time)", re.IGNORECASE)


def _drained(nodes: SlurmNodes) -> list[SlurmNode]:
    return [n for n in nodes.nodes if n.state.drain or "FAIL" in n.state.flags]


def _why(nodes: list[SlurmNode]) -> str:
    return some(f"{n.name} ({n.reason})" for n in nodes)


@check(
    "slurm.drains.reason",
    category="reliability",
    severity="medium",
    why="A drained node without a reason is repaired by nobody, and resumed by somebody who should not.",
    fix="scontrol update nodename=NAME reason='what was seen, by whom, ticket'; health checks must always set one.",
)
def reason(nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Warns for drained or failing nodes whose reason is empty or says nothing."""
    drained = _drained(nodes)
    if not drained:
        return skip(_NONE)
    empty = [n for n in drained if (n.reason or "").strip().lower() in bar.empty_reasons.names]
    if empty:
        words = f"{len(empty)} of {len(drained)} drained nodes without a reason"
        return warn(f"{words}: {some(names(empty))}", seen=names(empty))
    return ok(f"{len(drained)} drained nodes say why: {_why(drained)}")


@check(
    "slurm.drains.age",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="A node drained for weeks is usually forgotten, not broken, and somebody pays for it.",
    fix="sinfo -R -o '%20H %9u %12n %E' lists who drained what and when; repair or resume.",
)
def age(nodes: SlurmNodes, config: SlurmConfig, bar: Slurm) -> Verdict:
    """Warns for nodes drained longer ago than a repair takes; both times are the cluster's own."""
    drained = _drained(nodes)
    if not drained:
        return skip(_NONE)
    dated = [(n, n.reason_at) for n in drained if n.reason_at]
    if not dated or not config.as_of:
        return unknown("Slurm does not say since when", "too-little")
    ages = {n.name: (epoch(config.as_of) - epoch(at)) / _DAY for n, at in dated}
    limit = bar.drain_days.bar(" days", "<= ")
    old = sorted((days, name) for name, days in ages.items() if days > bar.drain_days.value)
    if old:
        words = some(f"{name} for {days:.0f} days" for days, name in reversed(old))
        return warn(f"drained and still there: {words}", seen=dict(ages), bar=limit)
    return ok(f"{len(ages)} nodes are drained, the longest for {max(ages.values()):.1f} days", bar=limit)


@check(
    "slurm.drains.time-out",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="A test that did not finish says nothing about the node: it is slow beside a running job, and draining for "
    "that takes healthy nodes out one by one.",
    fix="Read a time-out as unknown: repeat the test on the idle node, and run load tests only where no job runs.",
)
def time_out(nodes: SlurmNodes) -> Verdict:
    """Looks at reasons: a check's time-out fails on a node with running jobs, and warns on an idle one."""
    drained = _drained(nodes)
    if not drained:
        return skip(_NONE)
    late = [n for n in drained if n.reason and _TIME_OUT.search(n.reason) and _OF_A_CHECK.search(n.reason)]
    if busy := [n for n in late if n.state.drain == "draining"]:
        return fail(f"drained under running jobs for a check's time-out: {_why(busy)}", seen=names(busy))
    if late:
        return warn(f"drained because a check did not finish: {_why(late)}", seen=names(late))
    return ok(f"none of {len(drained)} nodes is drained for a time-out of a check")


@check(
    "slurm.drains.storage",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="A node taken out for storage has sound GPUs: the cause is the storage, or a lock-up of the kernel when a job "
    "ends, and it will come again on other nodes.",
    fix="dmesg -T | grep -iE 'soft lockup|lustre|nfs' on the node; watch what epilog and control groups do.",
)
def storage(nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Warns for drained or down nodes whose reason speaks of storage, lock-ups or processes that did not end."""
    out = [n for n in nodes.nodes if n.reason and (n.state.drain or n.state.failed)]
    if not out:
        return skip("no node is drained or down for a reason")
    found = [n for n in out if any(word in (n.reason or "").lower() for word in bar.storage_reasons.names)]
    if found:
        return warn(f"out of service for storage, not for GPUs: {_why(found)}", seen=names(found))
    return ok(f"none of {len(out)} nodes is out of service for storage")


@check(
    "slurm.drains.hooks",
    category="reliability",
    severity="high",
    criteria=("orch-slurm-stack",),
    why="A prolog or epilog that fails drains the node and puts the job on hold: one bad script can empty a cluster.",
    fix="Read slurmd.log on the node; run the script by hand with SLURM_JOB_ID set; scontrol release the held jobs.",
)
def hooks(nodes: SlurmNodes) -> Verdict:
    """Fails for nodes that Slurm drained because a prolog or an epilog failed or took too long."""
    drained = _drained(nodes)
    if not drained:
        return skip(_NONE)
    found = [n for n in drained if n.reason and _HOOK.search(n.reason)]
    if found:
        return fail(f"drained by prolog or epilog: {_why(found)}", seen=names(found))
    return ok(f"none of {len(drained)} nodes was drained by a prolog or epilog")


@check(
    "slurm.drains.repeated",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="A node that goes out again and again was returned without being repaired, or its check is wrong; each time "
    "takes a job with it.",
    fix="Keep the node out; compare the reasons (sacctmgr show event nodes=NAME); validate under load.",
)
def repeated(history: NodeEvents, bar: Slurm) -> Verdict:
    """Counts in the history how often each node went down or was drained; warns from the third time on."""
    out = [e for e in history.events if _out_of_service(e)]
    if not history.events:
        return skip("accounting holds no event of these days")
    counts = Counter(e.node for e in out)
    often = {str(node): n for node, n in counts.most_common() if n > bar.repeated_drains.value}
    limit = bar.repeated_drains.bar(" times", "<= ")
    if often:
        last = {e.node: e.reason for e in out}
        words = some(f"{node} {n} times, last for {last[node] or 'no reason'}" for node, n in often.items())
        return warn(f"out of service again and again: {words}", seen=often, bar=limit)
    if odd := [e for e in history.events if e.node and strange(e.state)]:
        return unknown(f"{odd[0].node} was {odd[0].state_word}, whatever that is", seen=odd[0].state_word)
    most = max(counts.values(), default=0)
    return ok(f"{len(counts)} nodes went out of service in these days, none more than {most} times", bar=limit)


def _out_of_service(event: NodeEvent) -> bool:
    return bool(event.node and event.state and (event.state.drain or event.state.failed))


@check(
    "slurm.reservations.forgotten",
    category="reliability",
    severity="low",
    why="A reservation that nobody ended keeps nodes from everybody, and they look idle.",
    fix="scontrol delete reservationname=NAME, or end it: scontrol update reservationname=NAME endtime=now.",
)
def forgotten(found: SlurmReservations, nodes: SlurmNodes, config: SlurmConfig, bar: Slurm) -> Verdict:
    """Warns for maintenance that lasts for days, and for old reservations all of whose nodes are idle."""
    active = [r for r in found.reservations if r.state == "ACTIVE" and r.nodes]
    if not active or not config.as_of:
        return (
            skip("no reservation holds nodes now") if not active else unknown("Slurm's time is not told", "too-little")
        )
    now = epoch(config.as_of)
    old = {r.name: (now - epoch(r.start_at)) / _DAY for r in active if r.start_at}
    states = {n.name: n.state.base for n in nodes.nodes}
    idle = {r.name for r in active if all(states.get(node) == "IDLE" for node in hosts(r.nodes))}
    late = [r for r in active if r.maintenance and old.get(r.name, 0) > bar.maintenance_days.value]
    late += [r for r in active if r.name in idle and r not in late and old.get(r.name, 0) > bar.reservation_days.value]
    if late:
        words = some(f"{r.name} holds {r.nodes} for {old[r.name]:.0f} days" for r in late)
        return warn(
            f"reservations that look forgotten: {words}", seen=old, bar=bar.maintenance_days.bar(" days", "<= ")
        )
    return ok(f"{len(active)} reservations hold nodes, none for long without use")
