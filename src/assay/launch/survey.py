"""What the scheduler says before anything is asked of its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from assay.errors import LaunchError, NoVerdict
from assay.facts.source import parse, sources
from assay.launch.answer import Answer, NodeDone
from assay.launch.collect import collect
from assay.launch.slurm_nodes import Cluster
from assay.model import SCHEDULER, Fact, Missing, Probe, RawFact, Target
from assay.slurm.node import SlurmNodes
from assay.slurm.partition import SlurmPartitions
from assay.slurm.sinfo import Sinfo
from assay.slurm.sources import SlurmControllers

F = TypeVar("F", bound=Fact)
NEEDED = ("slurm.nodes", "slurm.sinfo", "slurm.partitions", "slurm.controllers")


class Survey(Struct, frozen=True):
    """The scheduler's answers, verbatim, and the nodes and partitions in them. `controller` = who slurmctld is."""

    answers: tuple[Answer, ...]
    cluster: Cluster
    controller: str = "slurmctld"


def survey(target: Target, probes: Iterable[Probe]) -> Survey:
    """Ask the scheduler; NoVerdict when it, or its login node, does not answer, LaunchError when there is none."""
    known = sources()
    asked = {p.name: p for p in (*(known[name].probe for name in NEEDED), *probes) if p.place == "scheduler"}
    answers = tuple(collect(target, [SCHEDULER], asked.values()))
    facts = {
        known[a.probe].fact: parse(known[a.probe], a) for a in answers if isinstance(a, RawFact) and a.probe in known
    }
    done = next((a for a in answers if isinstance(a, NodeDone)), None)
    if done is None or (done.missing and not facts):
        reason = done.missing.reason if done and done.missing else "interrupted"
        raise NoVerdict(f"login node of {target.name}: {reason.removeprefix(f'{SCHEDULER}: ')}")
    controller = _controller(facts)
    return Survey(answers, _cluster(facts, controller), controller)


def _get(facts: dict[type[Fact], Fact | Missing], kind: type[F]) -> F | None:
    fact = facts.get(kind)
    return fact if isinstance(fact, kind) else None


def _cluster(facts: dict[type[Fact], Fact | Missing], controller: str) -> Cluster:
    nodes, table, parts = _get(facts, SlurmNodes), _get(facts, Sinfo), _get(facts, SlurmPartitions)
    found = nodes if nodes and nodes.nodes else table.nodes() if table else None
    if found and found.nodes:
        return Cluster(found.nodes, parts.partitions if parts else (), _defaults(table))
    gap = facts.get(Sinfo)
    if not isinstance(gap, Missing):
        raise NoVerdict(f"{controller} shows no node to this user", hint="PrivateData=nodes hides them")
    if gap.kind == "absent":
        raise LaunchError(f"no Slurm on the login node ({gap.reason})", hint="via = [...] says how to get to one")
    if gap.kind in ("unreachable", "timed-out"):
        raise NoVerdict(f"{controller} does not answer: {gap.reason}", hint="run the same command again once it does")
    raise NoVerdict(f"{controller} shows no node to this user: {gap.reason}")


def _defaults(table: Sinfo | None) -> tuple[str, ...]:
    """Default partitions by sinfo, for users who may not ask scontrol."""
    return tuple(dict.fromkeys(r.partition for r in (table.rows if table else ()) if r.default and r.partition))


def _controller(facts: dict[type[Fact], Fact | Missing]) -> str:
    answer = _get(facts, SlurmControllers)
    hosts = [c.host + ("" if c.up else ", DOWN") for c in (answer.controllers if answer else ())]
    return f"slurmctld ({'; '.join(hosts)})" if hosts else "slurmctld"
