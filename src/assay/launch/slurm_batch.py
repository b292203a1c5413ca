"""Collects through batch jobs: submitted under a known name, followed by their output, found again after a crash."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Sequence

from msgspec import structs

from assay.launch.answer import Answer, NodeDone
from assay.launch.collect import Start, drive
from assay.launch.errand import END_S, START_S, Errand, after, ask_login, lost
from assay.launch.fleet_wire import FleetWire
from assay.launch.payload import batch
from assay.launch.prefix import login
from assay.launch.session import Session
from assay.launch.slurm_script import Group, sbatch
from assay.launch.slurm_words import Trouble, said, trouble
from assay.model import Job
from assay.slurm.times import limit_or_none

SPOOLED_S = 0.5  # for a follower whose job has said everything
SPARE_S = 60.0  # beyond the time limit of a job


class _Follower(Session):
    """A follower of a job's output."""

    linger_s = SPOOLED_S


def by_sbatch(errand: Errand, groups: Sequence[Group]) -> Generator[Answer, None, list[FleetWire]]:
    """What the nodes answer; returns the wires whose job was refused. An interruption cancels the jobs."""
    wires = [errand.wire(group, "sbatch") for group in groups]
    data = errand.program()
    done = False
    try:
        for wire in wires:
            yield wire.job
            yield from _submit(errand, wire, data)
        yield from _follow(errand, [wire for wire in wires if not wire.trouble])
        done = True
    finally:
        for wire in wires:
            ended = done and not wire.lost
            _end(errand, wire.job.name, "tidy" if ended else "cancel", tidy=ended)
    return (yield from after(errand, wires))


def _submit(errand: Errand, wire: FleetWire, data: bytes) -> Generator[Answer, None, None]:
    script = sbatch(errand.target, wire.group, wire.job.name, data)
    workdir = errand.target.slurm.workdir
    program = batch(do="submit", name=wire.job.name, workdir=workdir, script=script)
    answer = ask_login(errand.target, program)
    if answer.returncode:
        stderr = answer.stderr.decode("utf-8", "replace")
        wire.trouble = trouble(stderr) or Trouble("refused", "; ".join(said(stderr)[-2:]) or "sbatch failed")
        if wire.trouble.kind == "down":
            wire.lost = wire.trouble.words
        return
    words = answer.stdout.decode("utf-8", "replace").split()
    wire.job = structs.replace(wire.job, state="submitted", id=words[-1].partition(";")[0] if words else "")
    yield wire.job


def _follow(errand: Errand, wires: Sequence[FleetWire]) -> Generator[Answer, None, None]:
    yield from drive([_start(errand, wire) for wire in wires], len(wires))


def _start(errand: Errand, wire: FleetWire) -> Start:
    limit = limit_or_none(errand.target.slurm.time)
    wait_s = errand.queue_s(wire.group)
    limit_s = wait_s + SPARE_S + (limit if isinstance(limit, int | float) else START_S)
    workdir = errand.target.slurm.workdir
    source = batch(do="follow", name=wire.job.name, workdir=workdir, wait_s=wait_s, deadline_s=limit_s)
    return functools.partial(_Follower, login(errand.target), source, wire, limit_s + END_S)


def _end(errand: Errand, name: str, do: str, *, tidy: bool) -> bool:
    program = batch(do=do, name=name, workdir=errand.target.slurm.workdir, tidy=tidy)
    return ask_login(errand.target, program).returncode == 0


def reattach(errand: Errand, jobs: Iterable[Job]) -> Generator[Answer, None, None]:
    """What became of jobs that a run asked for and did not see the end of: what they said, and their end."""
    for job in jobs:
        if job.method == "srun":
            if not _end(errand, job.name, "cancel", tidy=False):
                raise lost(errand, f"job {job.name} could not be cancelled")
        else:
            wire = FleetWire(job, errand.probes, errand.aliases, Group(job.nodes))
            yield from (a for a in _follow(errand, [wire]) if not isinstance(a, Job | NodeDone) or _good(a))
            if wire.lost:
                raise lost(errand, wire.lost)
            _end(errand, job.name, "cancel", tidy=True)
        yield structs.replace(job, state="ended")


def _good(answer: Answer) -> bool:
    return isinstance(answer, NodeDone) and answer.missing is None
