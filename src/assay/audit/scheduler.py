"""Fill a run through a scheduler: its own evidence, jobs that an earlier try left, then the nodes that are free."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from assay.audit.task import Task
from assay.launch.answer import Answer, NodeDone
from assay.launch.errand import Errand
from assay.launch.slurm import run
from assay.launch.slurm_batch import reattach
from assay.launch.slurm_nodes import Choice, aliases, choose
from assay.launch.survey import Survey, survey
from assay.model import Job, Missing, Probe, RawFact
from assay.slurm.hostlist import expand

TRIES = 3  # nodes may be taken by others between the look at them and the job


def ask_slurm(task: Task, have: Iterable[tuple[str, str]], jobs: Sequence[Job]) -> Generator[Answer, None, None]:
    """Everything the run does not have yet; (node, probe) is in `have` where it does. `jobs` had no end so far.

    Raises NoVerdict when slurmctld does not answer, LaunchError when it takes no job.
    """
    seen = task.survey or survey(task.target, task.at("scheduler"))
    yield from seen.answers
    got = set(have)
    if jobs:
        yield from _new(reattach(_errand(task, seen, task.at("node")), jobs), got)
    yield from _ask_nodes(task, seen, got)


def _ask_nodes(task: Task, seen: Survey, got: set[tuple[str, str]]) -> Generator[Answer, None, None]:
    held: dict[str, Answer] = {}
    choice = Choice()
    for number in range(TRIES):
        todo = [node for node in task.nodes if open_probes(task, node, got)]
        if number:
            seen = survey(task.target, ())
        choice = choose(task.target, seen.cluster, wait=task.wait_s > 0, strict=number > 0, only=todo)
        wanted = {probe.name: probe for node in choice.nodes for probe in open_probes(task, node, got)}
        held = {}
        for answer in _new(run(_errand(task, seen, tuple(wanted.values())), choice.groups), got):
            if isinstance(answer, NodeDone) and answer.missing and answer.missing.kind == "not-asked":
                held[answer.node] = answer
            else:
                yield answer
        if not held or task.wait_s:
            break
    yield from held.values()
    yield from _left_out(choice)


def open_probes(task: Task, node: str, got: Iterable[tuple[str, str]]) -> list[Probe]:
    """What a node has not answered yet."""
    return [probe for probe in task.at("node") if (node, probe.name) not in got]


def _new(answers: Iterable[Answer], got: set[tuple[str, str]]) -> Generator[Answer, None, None]:
    """Answers without those that are there already."""
    for answer in answers:
        if isinstance(answer, RawFact):
            if (answer.node, answer.probe) in got:
                continue
            got.add((answer.node, answer.probe))
        yield answer


def _left_out(choice: Choice) -> Generator[Answer, None, None]:
    for left in choice.left_out:
        for node in expand(left.nodes):
            yield NodeDone(node, ok=False, missing=Missing("not-asked", f"{node}: {left.why}"))


def _errand(task: Task, seen: Survey, probes: tuple[Probe, ...]) -> Errand:
    return Errand(task.target, probes, aliases(seen.cluster.nodes), seen.controller, task.wait_s)
