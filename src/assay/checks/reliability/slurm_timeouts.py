"""Slurm's time limits and its controllers: how soon a dead node is noticed, and what happens then."""

from __future__ import annotations

import re

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.model import Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes
from assay.slurm.sacct import Sacct
from assay.slurm.sources import SlurmControllers
from assay.slurm.state import JOB_STATES

_EXPIRE = re.compile(r"cred_expire=(\d{1,6})", re.IGNORECASE)
_CRED_EXPIRE_S = 120  # Slurm's default
_NEVER = 65534


@check(
    "slurm.timeouts.unkillable",
    category="reliability",
    severity="medium",
    why="A process that hangs in a file system for a moment is given up too early and drains its node.",
    fix="slurm.conf: UnkillableStepTimeout=180; scontrol reconfigure.",
)
def unkillable(config: SlurmConfig, bar: Slurm) -> Verdict:
    """Warns when UnkillableStepTimeout is less than a few times MessageTimeout, as Slurm's manual asks."""
    kill, message = config.seconds("UnkillableStepTimeout"), config.seconds("MessageTimeout")
    if not isinstance(kill, int | float) or not isinstance(message, int | float):
        return unknown("UnkillableStepTimeout or MessageTimeout is not told", "too-little")
    words = f"UnkillableStepTimeout is {kill} s, MessageTimeout {message} s"
    limit = bar.unkillable_factor.bar(" x MessageTimeout", ">= ")
    return (ok if kill >= message * bar.unkillable_factor.value else warn)(words, seen=kill, bar=limit)


@check(
    "slurm.timeouts.node",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="Until SlurmdTimeout has passed a dead node keeps its jobs, and the other nodes of each job wait for it.",
    fix="slurm.conf: SlurmdTimeout=120; scontrol reconfigure.",
)
def node(config: SlurmConfig, bar: Slurm) -> Verdict:
    """Fails for SlurmdTimeout=0, with which a dead node is never noticed; warns when it is longer than the default."""
    limit_s = config.seconds("SlurmdTimeout")
    if not isinstance(limit_s, int | float):
        return unknown("SlurmdTimeout is not told", "too-little")
    if limit_s == 0:
        return fail("SlurmdTimeout=0: a node that dies is never set down", seen=0)
    limit = bar.slurmd_timeout_s.bar(" s", "<= ")
    verdict = warn if limit_s > bar.slurmd_timeout_s.value else ok
    return verdict(f"a silent node is set down after {limit_s} s", seen=limit_s, bar=limit)


@check(
    "slurm.timeouts.prolog",
    category="reliability",
    severity="medium",
    criteria=("orch-slurm-stack",),
    why="A prolog that hangs, mostly in nvidia-smi on a dying GPU, holds the node and its job for ever.",
    fix="slurm.conf: PrologEpilogTimeout=60, BatchStartTimeout at least as long; PrologFlags=Alloc.",
)
def prolog(config: SlurmConfig) -> Verdict:
    """Where a prolog or epilog is set, warns without PrologEpilogTimeout, and for a BatchStartTimeout below it."""
    programs = [p for key in ("Prolog", "Epilog") if (p := config.value(key) or config.value(f"{key}[0]"))]
    if not programs:
        return skip("neither Prolog nor Epilog is set")
    limit, batch = config.seconds("PrologEpilogTimeout"), config.seconds("BatchStartTimeout")
    if not isinstance(limit, int | float) or limit >= _NEVER:
        return warn(f"no PrologEpilogTimeout: {some(programs)} may run for ever", seen=programs)
    if isinstance(batch, int | float) and batch < limit and config.value("Prolog"):
        return warn(f"BatchStartTimeout ({batch} s) is shorter than PrologEpilogTimeout ({limit} s)", seen=batch)
    return ok(f"{some(programs)} may run for {limit} s", seen=limit)


@check(
    "slurm.return-to-service",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="With 2 a node that crashed takes jobs as soon as it is back; with 0 a moment of silence costs a node "
    "until somebody looks.",
    fix="slurm.conf: ReturnToService=1, and a health check program; scontrol reconfigure.",
)
def return_to_service(config: SlurmConfig) -> Verdict:
    """Passes for 1; warns for 2 without a health check program, and for 0."""
    value = config.value("ReturnToService")
    if value == "1":
        return ok("a node that was silent comes back by itself, one that rebooted by hand (ReturnToService=1)")
    if value == "2":
        if config.value("HealthCheckProgram") and config.seconds("HealthCheckInterval"):
            return ok("every node comes back by itself, and a health check looks at it (ReturnToService=2)")
        return warn("ReturnToService=2 without a health check: a crashed node takes jobs again, unchecked", seen=value)
    if value == "0":
        return warn("ReturnToService=0: a node that was silent for a moment stays down until somebody resumes it")
    return unknown(f"ReturnToService={value}") if value else unknown("ReturnToService is not told", "too-little")


@check(
    "slurm.requeue",
    category="reliability",
    severity="low",
    why="After a node failed, the job must be submitted again by hand, or waits for its old credential to expire.",
    fix="slurm.conf: JobRequeue=1; AuthInfo=cred_expire=120; scontrol reconfigure.",
)
def requeue(config: SlurmConfig, bar: Slurm) -> Verdict:
    """Warns when jobs are not requeued after a node failure, or wait long for it (cred_expire)."""
    value = config.value("JobRequeue")
    if value not in ("0", "1"):
        return unknown(f"JobRequeue={value}" if value else "JobRequeue is not told", "too-little")
    if value == "0":
        return warn("JobRequeue=0: a job whose node fails is lost unless it asked for --requeue", seen=value)
    found = _EXPIRE.search(config.value("AuthInfo") or "")
    wait_s = int(found[1]) if found else _CRED_EXPIRE_S
    verdict = warn if wait_s > bar.cred_expire_s.value else ok
    words = f"a job whose node fails is requeued, and waits {wait_s} s (cred_expire)"
    return verdict(words, seen=wait_s, bar=bar.cred_expire_s.bar(" s", "<= "))


@check(
    "slurm.controller.answers",
    category="reliability",
    severity="critical",
    criteria=("orch-slurm-commands",),
    why="While no slurmctld answers nothing starts; with the backup down the next failure stops the cluster.",
    fix="systemctl status slurmctld on the host named; scontrol ping; look at slurmctld.log.",
)
def answers(found: SlurmControllers) -> Verdict:
    """Fails when no controller answers, warns when one of several does not."""
    up = [c.host for c in found.controllers if c.up]
    down = [f"{c.role} at {c.host}" for c in found.controllers if not c.up]
    if not found.controllers:
        return unknown("scontrol ping names no controller", "too-little")
    if not up:
        return fail(f"no slurmctld answers: {some(down)}", seen=down)
    if down:
        return warn(f"slurmctld does not answer: {some(down)}", seen=down)
    return ok(f"slurmctld answers at {some(up)}", seen=up)


@check(
    "slurm.controller.placement",
    category="reliability",
    severity="high",
    why="A slurmctld on a worker shares CPU, memory and reboots with jobs: one runaway job stops the whole scheduler.",
    fix="Move slurmctld and slurmdbd to machines that run no jobs.",
)
def placement(config: SlurmConfig, nodes: SlurmNodes) -> Verdict:
    """Fails when a controller's host, by name or address, is one of the nodes that run jobs."""
    if not config.hosts:
        return unknown("the controllers' hosts are not told", "too-little")
    workers = {alias.partition(".")[0] for n in nodes.nodes for alias in (n.name, n.hostname or "") if alias}
    addresses = {n.address for n in nodes.nodes if n.address}
    shared = [h for h in config.hosts if h.partition(".")[0] in workers or h in addresses]
    if shared:
        return fail(f"slurmctld runs on a worker: {some(shared)}", seen=shared)
    return ok(f"slurmctld at {some(config.hosts)}, which runs no jobs", seen=list(config.hosts))


@check(
    "slurm.jobs.node-fail",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="Every such job lost its work since the last checkpoint, on all of its nodes.",
    fix="sacct -a -X -s NODE_FAIL,BOOT_FAIL -S now-1days -o JobID,NodeList,End; look at the nodes that come up often.",
)
def node_fail(failures: Sacct) -> Verdict:
    """Warns when jobs of the last day ended because a node failed or did not boot."""
    jobs = failures.jobs()
    lost = [j for j in jobs if j.state and j.state.base in ("NODE_FAIL", "BOOT_FAIL")]
    if lost:
        words = some(f"{j.job} on {j.nodes or 'no node'}" for j in lost)
        return warn(f"{len(lost)} jobs of the last day lost a node: {words}", seen=len(lost))
    if failures.rows and not jobs:
        return unknown("sacct shows steps without their jobs", "too-little")
    if odd := [j for j in jobs if not j.state or j.state.base not in JOB_STATES]:
        return unknown(f"job {odd[0].job} ended as {odd[0].state}, whatever that is")
    return ok(f"no job of the last day lost a node; {len(jobs)} failed otherwise")
