"""Collect evidence from a target into a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from assay import __version__
from assay.launch.answer import Answer, Hello, NodeDone
from assay.launch.collect import collect
from assay.model import Probe, RawFact, Target
from assay.run.record import Answered
from assay.run.store import Run, Writer

Progress = Callable[[int, int, int], None]


def fill(run: Run, target: Target, nodes: Sequence[str], probes: Sequence[Probe], progress: Progress) -> str:
    """Ask every node for what the run does not have yet; returns `complete`, or raises after recording why not."""
    have = run.index.seen()
    wanted = {p.name for p in probes}
    todo = [node for node in nodes if any((node, name) not in have for name in wanted)]
    missing = [p for p in probes if any((node, p.name) not in have for node in todo)]
    with run.writer("audit", __version__) as writer:
        try:
            with closing(collect(target, todo, missing)) as answers:
                _record(answers, writer, len(todo) * len(missing), len(todo), progress)
        except KeyboardInterrupt:
            writer.finish("interrupted")
            raise
        writer.finish("complete")
    run.refresh()
    return "complete"


def _record(answers: Iterable[Answer], writer: Writer, total: int, nodes: int, progress: Progress) -> None:
    uids: dict[str, int] = {}
    facts = done = 0
    for answer in answers:
        if isinstance(answer, RawFact):
            writer.fact(answer)
            facts += 1
        elif isinstance(answer, Hello):
            uids[answer.node] = answer.uid
        elif isinstance(answer, NodeDone):
            done += 1
            writer.answered(Answered(answer.node, time.time(), answer.missing, uids.get(answer.node, -1), answer.log))
        progress(facts, total, nodes - done)
