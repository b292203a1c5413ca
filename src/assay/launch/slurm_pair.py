"""Has two nodes of a Slurm cluster try directories together: one job, one program, one raw fact of each node."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from assay.errors import LaunchError
from assay.facts.storage_pair import PROGRAM
from assay.launch.answer import Answer, NodeDone, unanswered
from assay.launch.errand import TIDY_S, Errand
from assay.launch.fleet_wire import FleetWire
from assay.launch.outcome import End
from assay.launch.payload import storage_pair
from assay.launch.slurm import run
from assay.launch.slurm_script import Group
from assay.launch.wire import SENTINEL
from assay.model import Job, Missing, Probe, RawFact, Read

EACH_S = 60.0  # for one directory
EXTRA_S = 20.0  # for ssh, and for the start of Python
_ENCODER = msgspec.json.Encoder()


class _Line(Struct, frozen=True):
    node: str
    hello: dict[str, str | int | float] | None = None
    bye: bool = False
    step: str = ""
    dir: int = -1
    seconds: float = 0.0


_DECODER = msgspec.json.Decoder(_Line)


class PairErrand(Errand, frozen=True):
    """What two nodes are to try; `ssh` = their names, where they are also to go to each other."""

    directories: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ()

    @property
    def tidy_s(self) -> float:
        """Time to take away what was written."""
        return TIDY_S

    def wire(self, group: Group, method: Literal["srun", "sbatch"]) -> FleetWire:
        """A new job for the two nodes, and who listens to it."""
        name = f"assay-{secrets.token_hex(6)}"
        job = Job(name=name, method=method, nodes=group.nodes)
        return PairWire(job, self.probes[0], self.aliases, group, self.directories)

    def program(self) -> bytes:
        """The program that each of the two gets."""
        return storage_pair(token=secrets.token_hex(8), directories=self.directories, ssh=self.ssh)


class PairWire(FleetWire):
    """The lines of both nodes, made one raw fact of each."""

    def __init__(
        self, job: Job, probe: Probe, aliases: Mapping[str, str], group: Group, directories: tuple[str, ...]
    ) -> None:
        super().__init__(job, (probe,), aliases, group)
        self.probe, self.directories = probe, directories
        self._reads: dict[str, list[Read]] = {}
        self._hello: dict[str, dict[str, str | int | float]] = {}

    def _line(self, line: bytes) -> Iterator[Answer]:
        before, sentinel, body = line.partition(SENTINEL)
        if before or not sentinel:
            self._note(before)
        try:
            said = _DECODER.decode(body) if sentinel else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            said = None
            self._note(line)
        node = self._node(said.node) if said else ""
        if said and node in self.open:
            yield from self._said(node, said, body)

    def _said(self, node: str, said: _Line, body: bytes) -> Iterator[Answer]:
        if said.hello is not None:
            self._hello[node] = said.hello
            yield from self.wires[node].feed(SENTINEL + _ENCODER.encode({"hello": said.hello}) + b"\n")
        elif said.step:
            argv = (PROGRAM, *self.directories[said.dir : said.dir + 1])
            self._reads.setdefault(node, []).append(
                Read(key=said.step, argv=argv, out=body.decode("utf-8", "replace"), took_s=said.seconds)
            )
        elif said.bye:
            yield from self._close(node)

    def _close(self, node: str) -> Iterator[Answer]:
        hello = self._hello.get(node, {})
        fact: dict[str, object] = {name: hello[name] for name in ("at", "uid") if name in hello}
        fact |= {"probe": self.probe.name, "reads": self._reads.pop(node, [])}
        lines: tuple[dict[str, object], ...] = (fact, {"bye": {}})
        for line in lines:
            yield from self.wires[node].feed(SENTINEL + _ENCODER.encode(line) + b"\n")
        del self.open[node]
        yield NodeDone(node, ok=True)

    def ended(self, end: End) -> Iterator[Answer]:
        """What was said before a node said no more, and the ends."""
        for node in [node for node in self.open if node in self._reads]:
            yield from self._close(node)
        yield from super().ended(end)


def try_directories(errand: PairErrand, group: Group) -> Generator[RawFact | Job, None, None]:
    """The raw fact of each of the two nodes, the job before that; a node that says nothing says why.

    Raises NoVerdict when slurmctld stops answering.
    """
    answered: set[str] = set()
    gaps: dict[str, Missing] = {}
    try:
        for answer in run(errand, (group,)):
            if isinstance(answer, RawFact):
                answered.add(answer.node)
            if isinstance(answer, RawFact | Job):
                yield answer
            elif isinstance(answer, NodeDone) and answer.missing:
                gaps[answer.node] = answer.missing
    except LaunchError as e:
        gaps = dict.fromkeys(group.nodes, Missing("failed", e.message))
    silent = Missing("failed", "its task said nothing")
    for node in (node for node in group.nodes if node not in answered):
        yield from unanswered(node, errand.probes, gaps.get(node, silent))
