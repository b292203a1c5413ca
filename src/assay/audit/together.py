"""Two nodes try together what they should share: prepared from what a run holds, and recorded in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

from msgspec import structs

from assay import __version__
from assay.audit.task import Task
from assay.audit.trial import Place, Seen, Trial, pair, places
from assay.errors import NoVerdict
from assay.facts.mounts import Mounts, mountinfo
from assay.facts.slurm_login import LoginNode
from assay.facts.slurm_session import SlurmSession
from assay.facts.source import Source, parse, sources
from assay.launch.answer import Answer
from assay.launch.slurm_nodes import aliases, choose
from assay.launch.slurm_pair import EACH_S, EXTRA_S, PairErrand, try_directories
from assay.launch.survey import Survey, survey
from assay.model import SCHEDULER, RawFact
from assay.profiles.host import FileSystems
from assay.run.store import Run


def on_login(answers: Iterable[Answer], known: FileSystems) -> tuple[Place, ...]:
    """The directories as far as the login node shows them."""
    found = {a.probe: a for a in answers if isinstance(a, RawFact)}
    raw = found.get("slurm.login")
    fact = parse(sources()["slurm.login"], raw) if raw else None
    if not raw or not isinstance(fact, LoginNode):
        return ()
    return places({"login": Seen(mountinfo(raw.out("mountinfo")), fact.home)}, known)


def prepared(run: Run, task: Task, known: FileSystems) -> tuple[Trial, Survey]:
    """What to try and on which two nodes; NoVerdict where there are no two, or nothing to try."""
    nodes = dict(_seen(run, sources()))
    wanted = places(nodes, known)
    ssh = task.target.slurm.try_ssh
    if not wanted and not ssh:
        raise NoVerdict("nothing to try: no home and no shared file system that this user can write was seen")
    now = survey(task.target, ())
    choice = choose(task.target, now.cluster, wait=task.wait_s > 0, only=list(nodes))
    group = pair(choice.groups, nodes, wanted)
    if group is None:
        raise NoVerdict("no two nodes that one job can take are free", hint="--wait SECONDS waits for them")
    return Trial(group, wanted, ssh), now


def _seen(run: Run, known: Mapping[str, Source]) -> Iterator[tuple[str, Seen]]:
    for node, answers in run.nodes():
        found = {raw.probe: raw for _, raw in answers}
        mounts, session = (
            parse(known[name], found[name]) if name in found else None for name in ("storage.mounts", "slurm.session")
        )
        if node != SCHEDULER and isinstance(mounts, Mounts):
            yield node, Seen(mounts, session.home if isinstance(session, SlurmSession) else "")


def try_together(run: Run, task: Task, trial: Trial, now: Survey) -> None:
    """Have two nodes try it, and keep what they say in the run. As the user, never as root by sudo."""
    directories = tuple(place.path for place in trial.places)
    limit_s = EACH_S * len(directories) + EXTRA_S
    errand = PairErrand(
        structs.replace(task.target, sudo=False, timeout_s=limit_s),
        task.at("pair"),
        aliases(now.cluster.nodes),
        now.controller,
        task.wait_s,
        directories,
        trial.group.nodes if trial.ssh else (),
    )
    with run.writer("load", __version__) as writer:
        try:
            with closing(try_directories(errand, trial.group)) as answers:
                for answer in answers:
                    writer.fact(answer) if isinstance(answer, RawFact) else writer.submitted(answer)
        except (KeyboardInterrupt, NoVerdict):
            writer.finish("interrupted")
            raise
        writer.finish("complete")
    run.refresh()
