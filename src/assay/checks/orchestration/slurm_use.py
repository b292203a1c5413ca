"""Whether people can use the scheduler: commands, accounting, jobs that wait for something that never comes."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.model import Missing, Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.hostlist import hosts
from assay.slurm.job import SlurmJob, SlurmJobs
from assay.slurm.node import SlurmNodes
from assay.slurm.partition import SlurmPartitions
from assay.slurm.sacct import Sacct
from assay.slurm.sinfo import Sinfo
from assay.slurm.sources import SlurmClient
from assay.slurm.state import JOB_STATES


@check(
    "slurm.commands",
    category="orchestration",
    severity="high",
    criteria=("orch-slurm-commands", "exp-slurm-commands", "orch-slurm-stack"),
    why="A user who cannot ask or submit cannot work, and each missing command breaks somebody's script.",
    fix="Install slurm-client on the login node; take nodes and jobs out of PrivateData if users should see them.",
)
def commands(
    client: SlurmClient,
    nodes: SlurmNodes | Missing,
    table: Sinfo | Missing,
    jobs: SlurmJobs | Missing,
    bar: Slurm,
) -> Verdict:
    """Fails when one of the usual commands is not on the login node; warns when sinfo, squeue or scontrol refuse."""
    if lacking := sorted(bar.commands.names.difference(client.programs)):
        return fail(f"not on the login node: {some(lacking)}", seen=lacking)
    asked = {"scontrol show node": nodes, "sinfo": table, "squeue": jobs}
    refused = [f"{name}: {gap.reason}" for name, gap in asked.items() if isinstance(gap, Missing)]
    if refused:
        return warn(some(refused), seen=refused)
    return ok(f"Slurm {client.version}: {len(bar.commands.names)} commands are there; those asked answer")


@check(
    "slurm.accounting",
    category="orchestration",
    severity="medium",
    criteria=("orch-sacct", "exp-slurm-sacct", "mon-sacct"),
    why="Without accounting nobody can tell who used what, and a finished job leaves no trace a few minutes later.",
    fix="Run slurmdbd; slurm.conf: AccountingStorageType=accounting_storage/slurmdbd, AccountingStorageHost=HOST.",
)
def accounting(config: SlurmConfig | Missing, sacct: Sacct | Missing) -> Verdict:
    """Passes when sacct answers; fails when accounting is switched off or sacct cannot reach it."""
    kind = None if isinstance(config, Missing) else config.value("AccountingStorageType")
    if isinstance(sacct, Sacct):
        return ok(f"sacct answers: {len(sacct.jobs())} jobs failed or timed out in the last day")
    if isinstance(config, SlurmConfig) and (kind is None or kind.endswith("none")):
        return fail("accounting is switched off (AccountingStorageType)", seen=kind)
    if sacct.kind == "absent" and kind is None:
        return fail(f"sacct: {sacct.reason}")
    if sacct.kind in ("absent", "unreachable", "failed"):
        return fail(f"{kind or 'accounting'} is configured; {sacct.reason}")
    return missing(sacct)


@check(
    "slurm.accounts",
    category="orchestration",
    severity="low",
    criteria=("exp-slurm-rbac", "orch-rbac-compute-storage"),
    why="Where anyone may submit to everything, one person can take the cluster, and budgets cannot be kept.",
    fix="slurm.conf: AccountingStorageEnforce=associations,limits,qos; sacctmgr add account / add user.",
)
def accounts(config: SlurmConfig, parts: SlurmPartitions) -> Verdict:
    """Passes when jobs need an association, or partitions name who may use them; warns otherwise."""
    enforced = config.listed("AccountingStorageEnforce")
    if enforced:
        return ok(f"AccountingStorageEnforce={','.join(enforced)}", seen=list(enforced))
    closed = [p.name for p in parts.partitions if (set(p.allow_accounts) | set(p.allow_groups)) - {"ALL"}]
    if closed:
        return ok(f"partitions name who may use them: {some(closed)}", seen=closed)
    return warn("any account may use every partition: neither associations nor AllowAccounts or AllowGroups")


@check(
    "slurm.jobs.stuck",
    category="orchestration",
    severity="medium",
    criteria=("orch-slurm-commands",),
    why="These jobs never start, whatever becomes free; their owners wait and blame the queue.",
    fix="scontrol show job ID says why; give the user an association, or scancel / scontrol release ID.",
)
def stuck(jobs: SlurmJobs, bar: Slurm) -> Verdict:
    """Warns for waiting jobs whose reason no waiting cures: no account or QOS, a closed partition, a failed launch."""
    waiting = [j for j in jobs.jobs if j.state and j.state.base == "PENDING"]
    hopeless = {r: j for j in reversed(waiting) if (r := _hopeless(j, bar))}
    if odd := [j for j in jobs.jobs if not j.state or j.state.base not in JOB_STATES]:
        return unknown(f"job {odd[0].label} is {odd[0].state}, whatever that is")
    if not hopeless:
        return ok(f"{len(waiting)} waiting jobs, none for a reason that lasts")
    count = sum(1 for j in waiting if _hopeless(j, bar))
    words = some(f"job {j.label or j.job_id}: {reason}" for reason, j in hopeless.items())
    return warn(f"{count} of {len(waiting)} waiting jobs can never start: {words}", seen=count)


def _hopeless(job: SlurmJob, bar: Slurm) -> str:
    plain = (job.reason or "").replace(" ", "_").lower()
    return next((name for name in bar.hopeless_reasons.names if plain.startswith(name.lower())), "")


@check(
    "slurm.gate.circular",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="A drained node that may only return after a job has run on it never returns: Slurm starts no job there.",
    fix="Validate outside the scheduler, or in a reservation on the node: set it to state=resume inside a maintenance "
    "reservation that only the validator may use.",
)
def circular(jobs: SlurmJobs, nodes: SlurmNodes, bar: Slurm) -> Verdict:
    """Looks for waiting jobs that need a drained node: fails when such a job tests nodes, warns for any other."""
    closed = {n.name for n in nodes.nodes if n.state.drain or n.state.failed}
    if not closed:
        return skip("no node is drained or down")
    waiting = [(j, gone) for j in jobs.jobs if (gone := sorted(closed.intersection(_wanted(j))))]
    tests = [(j, gone) for j, gone in waiting if _tests(j, bar)]
    for job, gone in tests:
        return fail(
            f"job {job.label or job.job_id} ({job.name}) is to test {some(gone)}, which take no jobs", seen=gone
        )
    for job, gone in waiting:
        return warn(f"job {job.label or job.job_id} ({job.name}) waits for {some(gone)}, which take no jobs", seen=gone)
    return ok(f"no job waits for the {len(closed)} nodes that take none")


def _wanted(job: SlurmJob) -> tuple[str, ...]:
    """The nodes a waiting job names and cannot get."""
    if job.state is None or job.state.base != "PENDING":
        return ()
    _, named, text = (job.reason or "").partition("UnavailableNodes:")
    return (*hosts(text.strip() if named else None), *hosts(job.required_nodes))


def _tests(job: SlurmJob, bar: Slurm) -> bool:
    name = (job.name or "").lower()
    return any(word in name for word in bar.validating.names)


@check(
    "slurm.jobs.configuring",
    category="reliability",
    severity="high",
    criteria=("orch-slurm-stack",),
    why="A job that hangs in its prolog holds its GPUs, and the node is drained or the job requeued without a word.",
    fix="Give every command of the prolog a time limit; set PrologEpilogTimeout; look at slurmd.log on the node.",
)
def configuring(jobs: SlurmJobs, config: SlurmConfig) -> Verdict:
    """Warns for jobs that are still being set up after MessageTimeout: their prolog runs longer than Slurm waits."""
    limit = config.seconds("MessageTimeout")
    if not isinstance(limit, int | float):
        return unknown("MessageTimeout is not told", "too-little")
    held = [j for j in jobs.jobs if j.state and j.state.base == "CONFIGURING" and (j.run_time_s or 0) > limit]
    if not held:
        return ok("no job hangs in its prolog")
    first = held[0]
    words = f"job {first.label or first.job_id} is being set up for {first.run_time_s:.0f} s on {first.nodes}"
    return warn(f"{words}; MessageTimeout is {limit} s", seen=len(held), expected=limit)
