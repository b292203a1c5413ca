"""Collects through Slurm: one job for all nodes that are alike, the collector on its input, answers as they come."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence

from assay.errors import LaunchError
from assay.launch.answer import Answer
from assay.launch.collect import Start, drive
from assay.launch.errand import END_S, START_S, TIDY_S, Errand, after
from assay.launch.fleet_wire import FleetWire
from assay.launch.payload import relay
from assay.launch.prefix import login
from assay.launch.session import Session
from assay.launch.slurm_batch import by_sbatch
from assay.launch.slurm_script import Group, srun

POLITE_S = 10.0  # for srun to give its nodes back
LINGER_S = 45.0  # for srun and scancel to find out that slurmctld is gone


class _Srun(Session):
    """An srun behind its relay."""

    polite_s, linger_s = POLITE_S, LINGER_S


class _Tidy(_Srun):
    """One whose tasks have something to tidy up."""

    polite_s = TIDY_S + POLITE_S


def run(errand: Errand, groups: Sequence[Group]) -> Generator[Answer, None, None]:
    """What the nodes answer, and every job before it is asked for. Nodes that stay busy end as `not-asked`.

    Raises NoVerdict when slurmctld stops answering, LaunchError when no job is accepted.
    """
    method = errand.target.slurm.method
    refused = [] if method == "sbatch" else (yield from _by_srun(errand, groups))
    if method == "sbatch" or (refused and method == "auto"):
        again = [wire.group for wire in refused] or groups
        earlier = [wire.words for wire in refused]
        refused = yield from by_sbatch(errand, again)
        for wire in refused:
            wire.earlier = "; ".join(dict.fromkeys(earlier))
    if refused and len(refused) == len(groups):
        raise LaunchError(
            f"Slurm takes no job: {refused[0].words}", hint="account, partition, qos and time: [targets.NAME.slurm]"
        )
    for wire in refused:
        yield from wire.refused()


def _by_srun(errand: Errand, groups: Sequence[Group]) -> Generator[Answer, None, list[FleetWire]]:
    wires = [errand.wire(group, "srun") for group in groups]
    data = errand.program()
    for wire in wires:
        yield wire.job
    yield from drive([_start(errand, wire, data) for wire in wires], len(wires))
    return (yield from after(errand, wires))


def _start(errand: Errand, wire: FleetWire, data: bytes) -> Start:
    wait_s = errand.queue_s(wire.group)
    limit_s = wait_s + START_S + errand.target.timeout_s
    argv = srun(errand.target, wire.group, wire.job.name, wait_s)
    if errand.tidy_s:
        argv = (argv[0], "--disable-status", *argv[1:])  # one SIGINT is passed on, not answered with a count of tasks
    source = relay(argv, data, ("scancel", f"--name={wire.job.name}"), limit_s, errand.tidy_s)
    kind = _Tidy if errand.tidy_s else _Srun
    return functools.partial(kind, login(errand.target), source, wire, limit_s + END_S)
