"""Collect evidence from a target into a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress

from assay import __version__
from assay.audit.scheduler import ask_slurm, open_probes
from assay.audit.task import Task
from assay.errors import NoVerdict, StoreError
from assay.launch.answer import Answer, Hello, NodeDone
from assay.launch.collect import collect
from assay.model import SCHEDULER, Job, RawFact
from assay.run.record import Answered
from assay.run.store import Run, Writer

Progress = Callable[[int, int, int], None]


def fill(run: Run, task: Task, progress: Progress) -> None:
    """Ask every node for what the run does not have yet. Whatever ends it early, what came is kept."""
    have = run.index.seen()
    jobs = [job for job in run.jobs() if job.state != "ended"]
    open_ = {node: len(open_probes(task, node, have)) for node in task.nodes}
    with run.writer("audit", __version__) as writer:
        try:
            with closing(_answers(task, have, jobs)) as answers:
                _record(answers, writer, sum(open_.values()), sum(map(bool, open_.values())), progress)
        except (KeyboardInterrupt, NoVerdict):
            with suppress(StoreError):  # without a last word it counts as interrupted too
                writer.finish("interrupted")
            raise
        writer.finish("complete")
    run.refresh()


def _answers(task: Task, have: set[tuple[str, str]], jobs: Sequence[Job]) -> Generator[Answer, None, None]:
    if task.target.kind == "slurm":
        return ask_slurm(task, have, jobs)
    todo = [node for node in task.nodes if open_probes(task, node, have)]
    missing = {probe.name: probe for node in todo for probe in open_probes(task, node, have)}
    return collect(task.target, todo, missing.values())


def _record(answers: Iterable[Answer], writer: Writer, total: int, nodes: int, progress: Progress) -> None:
    uids: dict[str, int] = {}
    facts = done = 0
    for answer in answers:
        if isinstance(answer, RawFact):
            writer.fact(answer)
            facts += answer.node != SCHEDULER
        elif isinstance(answer, Hello):
            uids[answer.node] = answer.uid
        elif isinstance(answer, Job):
            writer.submitted(answer)
        elif isinstance(answer, NodeDone):
            done += answer.node != SCHEDULER
            writer.answered(Answered(answer.node, time.time(), answer.missing, uids.get(answer.node, -1), answer.log))
        progress(facts, total, nodes - done)
