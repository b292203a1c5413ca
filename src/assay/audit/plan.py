"""What an audit would do, resolved before it does it. The plan's id names exactly this."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct, structs

from assay.audit.select import Selection, probes, selected
from assay.audit.together import on_login
from assay.audit.trial import Place
from assay.checks.registry import checks
from assay.facts.source import sources
from assay.launch.errand import Errand
from assay.launch.nodes import expand
from assay.launch.prefix import prefix
from assay.launch.slurm_nodes import Choice, choose, scope
from assay.launch.slurm_script import Group, sbatch, srun
from assay.launch.survey import Survey, survey
from assay.model import LeftOut, Probe, Target
from assay.profiles import Profiles
from assay.profiles.host import Host
from assay.profiles.method import Method


class Plan(Struct, frozen=True):
    """Target, nodes and probes of one audit. `id` = hash over target, probes, checks, method and the nodes meant.

    Through a scheduler, `nodes` are those that are free, `states` theirs, `launches` the commands that start jobs.
    They change from minute to minute and are no part of the id. `trial` = what two nodes will try together, as far as
    the login node shows it.
    """

    id: str
    target: Target
    nodes: tuple[str, ...]
    probes: tuple[Probe, ...]
    checks: tuple[str, ...]
    method: str
    wait_s: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    states: dict[str, str] = {}
    launches: tuple[tuple[str, ...], ...] = ()
    trial: tuple[Place, ...] = ()


def make_plan(
    target: Target, wanted: Selection, profiles: Profiles, wait_s: float = 0.0, *, load: bool = False
) -> tuple[Plan, Survey | None]:
    """The plan of an audit of `target`, and what its scheduler said of its nodes. Elsewhere it touches nothing."""
    method = profiles.get(Method)
    rules = selected(checks(), wanted, method.without)
    for parameter in (p for rule in rules for p in rule.parameters if p.kind == "profile"):
        profiles.get(parameter.type)
    reads = tuple(probes(rules, sources(), target.kind, everything=wanted.everything, load=load))
    draft = Plan("", target, (), reads, tuple(r.id for r in rules), method.version, wait_s)
    if target.kind != "slurm":
        nodes = tuple(expand(target.nodes)) if target.nodes else (target.name or "local",)
        for node in nodes:
            prefix(target, node)  # raises now what would be raised with a run begun
        return _named(structs.replace(draft, nodes=nodes)), None
    seen = survey(target, reads)
    named = _named(structs.replace(draft, nodes=tuple(scope(target, seen.cluster)), wait_s=0.0))
    choice = choose(target, seen.cluster, wait=wait_s > 0)
    launches = tuple(_launch(named, group, seen, wait_s) for group in choice.groups)
    plan = _resolved(named, choice, launches, wait_s)
    return structs.replace(plan, trial=on_login(seen.answers, profiles.get(Host).filesystems)) if load else plan, seen


def _named(draft: Plan) -> Plan:
    digest = hashlib.sha256(msgspec.json.encode(draft)).hexdigest()[:12]
    return structs.replace(draft, id=digest)


def _resolved(plan: Plan, choice: Choice, launches: tuple[tuple[str, ...], ...], wait_s: float) -> Plan:
    return structs.replace(
        plan, nodes=choice.nodes, left_out=choice.left_out, states=choice.states, launches=launches, wait_s=wait_s
    )


def _launch(plan: Plan, group: Group, seen: Survey, wait_s: float) -> tuple[str, ...]:
    """The command of a job; its name will be another one."""
    name = f"assay-{plan.id}"
    if plan.target.slurm.method == "sbatch":
        return ("sbatch", sbatch(plan.target, group, name, b""))
    errand = Errand(plan.target, (), {}, seen.controller, wait_s)
    return srun(plan.target, group, name, errand.queue_s(group))
