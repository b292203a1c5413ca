"""Slurm's health check program: whether it runs, on which nodes, and whether its result does anything."""

from __future__ import annotations

import re

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.slurm_hooks import Hook, LoginHooks, SlurmHooks
from assay.facts.slurm_session import SlurmSession
from assay.facts.slurmd_log import SlurmdLog
from assay.model import Missing, Verdict
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig

_SLURMD = re.compile(r"\$\{SLURMD_NODENAME[^}]*\}?\)?\}?|\$SLURMD_NODENAME")
_SHORT = re.compile(r"\$\((?:/bin/|/usr/bin/)?hostname (?:-s|--short)\)|\$\{HOSTNAME%%\.\*\}|`hostname -s`")
_LONG = re.compile(r"\$\((?:/bin/|/usr/bin/)?hostname (?:-f|--fqdn|--long)\)|`hostname -f`")
_HOST = re.compile(r"\$\((?:/bin/|/usr/bin/)?(?:hostname|uname -n)\)|\$\{?HOSTNAME\}?|`hostname`|`uname -n`")


@check(
    "slurm.health.program",
    category="reliability",
    severity="high",
    criteria=("mon-dcgm-healthprogram", "exp-slurm-dcgm-health", "orch-slurm-stack", "mon-auto-health"),
    why="Without a health check program Slurm keeps giving jobs to nodes whose GPUs are dead.",
    fix="slurm.conf: HealthCheckProgram=/usr/sbin/nhc (or the provider's own), HealthCheckInterval=60, "
    "HealthCheckNodeState=ANY,CYCLE; scontrol reconfigure.",
)
def program(config: SlurmConfig, bar: Slurm) -> Verdict:
    """Fails for a program whose interval is 0, which never runs; warns without a program, and for a long interval."""
    path, interval = config.value("HealthCheckProgram"), config.seconds("HealthCheckInterval")
    if path is None:
        return warn("no HealthCheckProgram: Slurm itself looks for no fault")
    if interval == 0:
        return fail(f"HealthCheckInterval=0: {path} never runs", seen=0)
    if not isinstance(interval, int | float):
        return unknown(f"the interval of {path} is not told", "too-little")
    limit = bar.health_interval_s.bar(" s", "<= ")
    if interval > bar.health_interval_s.value:
        return warn(f"{path} runs every {interval} s only", seen=interval, bar=limit)
    return ok(f"{path} runs every {interval} s", seen=interval, bar=limit)


@check(
    "slurm.health.states",
    category="reliability",
    severity="medium",
    criteria=("mon-dcgm-healthprogram",),
    why="A check that runs on idle nodes only sees no fault of a node that trains for weeks.",
    fix="slurm.conf: HealthCheckNodeState=ANY,CYCLE; scontrol reconfigure.",
)
def states(config: SlurmConfig) -> Verdict:
    """Warns when HealthCheckNodeState leaves out nodes with running jobs."""
    if config.value("HealthCheckProgram") is None or config.seconds("HealthCheckInterval") == 0:
        return skip("no health check program runs")
    told = {word.upper() for word in config.listed("HealthCheckNodeState")}
    if not told or "ANY" in told or "ALLOC" in told:
        return ok(f"on {','.join(sorted(told)) or 'ANY'} nodes", seen=sorted(told))
    if unheard := sorted(told - {"IDLE", "MIXED", "NONDRAINED_IDLE", "CYCLE", "START_ONLY"}):
        return unknown(f"HealthCheckNodeState={some(unheard)}")
    return warn(f"HealthCheckNodeState={','.join(sorted(told))}: nodes full of jobs are not checked", seen=sorted(told))


@check(
    "slurm.health.consumed",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="slurmd logs a failed health check and goes on: a program that only exits with an error takes no node out.",
    fix="Let the program drain: scontrol update nodename=$SLURMD_NODENAME state=drain reason='...'; then exit 0.",
)
def consumed(hooks: SlurmHooks, log: SlurmdLog | Missing) -> Verdict:
    """Fails when slurmd's log has failures of the program and its text neither drains nor reports; warns when it does.

    Without failures in the log, fails when an exit code is all that the text gives.
    """
    programs = hooks.of("health")
    if not programs:
        return skip("no health check program in slurm.conf on this node")
    failed = log.health if isinstance(log, SlurmdLog) else {}
    acts = [p for p in programs if p.drains or p.nhc or p.tells]
    if failed:
        times = some(f"{ended} {n} times" for ended, n in failed.items())
        judge = warn if acts else fail
        return judge(f"slurmd's log: health check failed ({times}); slurmd itself does nothing about it", seen=failed)
    if acts:
        return ok(f"by its text {acts[0].path} {_deed(acts[0])}")
    if unread := [p.path for p in programs if not p.read]:
        return unknown(f"the text of {some(unread)} was not readable, or is no script", "too-little")
    if any(p.exits for p in programs):
        return fail(f"{programs[0].path} tells its result by exit code alone, and slurmd ignores that")
    return unknown(f"what {programs[0].path} does with its result is not in it", "too-little")


def _deed(hook: Hook) -> str:
    return "drains the node" if hook.drains else "marks nodes through NHC" if hook.nhc else "reports elsewhere"


@check(
    "slurm.health.node-name",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="A drain under a name that Slurm does not know fails, is tried for ever, and the bad node keeps its jobs.",
    fix="Name the node as $SLURMD_NODENAME in the script.",
)
def drain_name(hooks: SlurmHooks, job: SlurmSession) -> Verdict:
    """Works out the name that the scripts give to scontrol on this node, and fails when it is not Slurm's."""
    used = {word: hook for hook in hooks.hooks if hook.drains or hook.resumes for word in hook.named}
    if not used:
        return skip("no script of Slurm's names a node to scontrol")
    if not job.node:
        return unknown("the job is not told the name of its node", "too-little")
    names = {word: _name(word, job) for word in used}
    wrong = [(word, name) for word, name in names.items() if name and name != job.node]
    if wrong:
        word, name = wrong[0]
        return fail(f"{used[word].path} drains {name}; Slurm calls this node {job.node}", seen=name, expected=job.node)
    if open_ := [word for word, name in names.items() if name is None]:
        return unknown(f"what {some(open_)} stands for is not known", "too-little")
    return ok(f"{next(iter(used.values())).path} names the node as Slurm does")


def _name(word: str, job: SlurmSession) -> str | None:
    """The word with what the node knows put in; None where something stays open."""
    text = _SLURMD.sub(job.node, word)
    text = _SHORT.sub(job.hostname.partition(".")[0], text)
    if _LONG.search(text):
        return None if "." not in job.hostname else _LONG.sub(job.hostname, text)
    text = _HOST.sub(job.hostname, text)
    return None if "$" in text or "`" in text or not text else text


@check(
    "slurm.health.gate",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="A script that returns a node only after a job on it has passed waits for ever: Slurm starts no job there.",
    fix="Validate from the script itself, or in a reservation on the node that only the validator may use.",
)
def gate(hooks: SlurmHooks) -> Verdict:
    """Warns for a script of Slurm's that drains or resumes nodes and submits jobs to find out whether it may."""
    if not hooks.hooks:
        return skip("slurm.conf on this node names no health check, prolog or epilog")
    found = [h.path for h in hooks.hooks if h.resumes and h.jobs]
    if found:
        return warn(f"{some(found)} resumes nodes and submits jobs to test them", seen=found)
    if not any(h.read for h in hooks.hooks):
        return unknown(f"the text of {some(h.path for h in hooks.hooks)} was not readable", "too-little")
    return ok("no script of Slurm's needs a job to return a node")


@check(
    "slurm.prolog.time",
    category="reliability",
    severity="high",
    criteria=("orch-slurm-stack",),
    why="A prolog that takes longer than MessageTimeout makes Slurm think that the node is gone: it is drained and the "
    "job requeued, or held.",
    fix="Move load tests from the prolog into an idle-time job; bound every command (timeout 20 ...); set "
    "PrologEpilogTimeout.",
)
def prolog_time(hooks: SlurmHooks, log: SlurmdLog | Missing, bar: Slurm) -> Verdict:
    """Warns for prologs and epilogs that sleep for long, and fails when slurmd's log holds failures of them."""
    ran = [*hooks.of("prolog"), *hooks.of("epilog")]
    if not ran:
        return skip("slurm.conf on this node names no prolog or epilog")
    if isinstance(log, SlurmdLog) and log.hooks:
        return fail(f"slurmd's log: {some(log.hooks)}", seen=list(log.hooks))
    slow = [h for h in ran if (h.longest_sleep_s or 0) > bar.prolog_s.value]
    if slow:
        words = f"{slow[0].path} sleeps for {slow[0].longest_sleep_s} s"
        return warn(words, seen=slow[0].longest_sleep_s, bar=bar.prolog_s.bar(" s", "<= "))
    if not all(h.read for h in ran):
        return unknown(f"the text of {some(h.path for h in ran if not h.read)} was not readable", "too-little")
    return ok(f"{some(h.path for h in ran)}: no long sleep, no failure in slurmd's log")


@check(
    "slurm.prolog.length",
    category="reliability",
    severity="high",
    criteria=("orch-slurm-stack",),
    why="A prolog that takes longer than MessageTimeout makes every start of a job look like a lost node.",
    fix="Take waits and network requests out of the prolog, or bound them: timeout 5 ...",
)
def prolog_length(hooks: LoginHooks, config: SlurmConfig) -> Verdict:
    """Reads prologs as they lie on the login node; fails when one sleeps for longer than MessageTimeout."""
    ran, limit = hooks.of("prolog"), config.seconds("MessageTimeout")
    if not ran:
        return skip("slurm.conf on the login node names no prolog")
    if not isinstance(limit, int | float):
        return unknown("MessageTimeout is not told", "too-little")
    slow = [h for h in ran if (h.longest_sleep_s or 0) > limit]
    if slow:
        words = f"{slow[0].path} sleeps for {slow[0].longest_sleep_s} s; MessageTimeout is {limit} s"
        return fail(words, seen=slow[0].longest_sleep_s, expected=limit)
    if unread := [h.path for h in ran if not h.read]:
        return unknown(f"the text of {some(unread)} was not readable", "too-little")
    return ok(f"{some(h.path for h in ran)} sleeps for no more than MessageTimeout ({limit} s)")
