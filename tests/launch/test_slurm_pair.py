"""The lines of two nodes that try directories together, and what is kept of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from assay.errors import LaunchError
from assay.facts.source import parse, sources
from assay.facts.storage_pair import StoragePair
from assay.launch import slurm_pair
from assay.launch.answer import Answer, Hello, NodeDone
from assay.launch.outcome import End
from assay.launch.slurm_pair import PairErrand, PairWire, try_directories
from assay.launch.slurm_script import Group
from assay.model import Job, Missing, RawFact, Target

PROBE = sources()["storage.pair"].probe
GROUP = Group(("gpu1", "gpu2"))
JOB = Job(name="assay-1", method="srun", nodes=GROUP.nodes)


def wire() -> PairWire:
    return PairWire(JOB, PROBE, {"host-b": "gpu2"}, GROUP, ("/home/alice", "/data"))


def line(node: str, **said: Any) -> bytes:
    return b"@assay " + json.dumps({**said, "node": node, "rank": int(node != "gpu1")}).encode() + b"\n"


def hello(node: str) -> bytes:
    return line(node, hello={"host": node, "uid": 1000, "at": 5.0})


def step(node: str, directory: int = 0, name: str = "colon") -> bytes:
    return line(node, dir=directory, step=name, ok=True, seconds=0.5, detail={})


def facts(answers: list[Answer]) -> dict[str, RawFact]:
    return {answer.node: answer for answer in answers if isinstance(answer, RawFact)}


def test_mixed_lines_become_one_fact_of_each_node() -> None:
    listener = wire()
    text = [hello("gpu1"), hello("host-b"), step("gpu1"), step("host-b"), step("gpu1", 1), line("gpu1", bye=True)]
    data = b"a prolog speaks\n" + b"".join([*text, line("host-b", bye=True)])
    answers = [a for at in range(0, len(data), 7) for a in listener.feed(data[at : at + 7])]
    assert listener.complete
    assert [a.node for a in answers if isinstance(a, Hello)] == ["gpu1", "gpu2"]
    assert {a.node: a.ok for a in answers if isinstance(a, NodeDone)} == {"gpu1": True, "gpu2": True}
    first = facts(answers)["gpu1"]
    assert [(r.key, r.argv, r.took_s) for r in first.reads] == [
        ("colon", ("storage_pair", "/home/alice"), 0.5), ("colon", ("storage_pair", "/data"), 0.5),
    ]  # fmt: skip
    assert (first.uid, first.at) == (1000, 5.0)
    fact = parse(sources()["storage.pair"], facts(answers)["gpu2"])
    assert isinstance(fact, StoragePair)
    assert not fact.first
    assert fact.directories[0].colon
    assert b"a prolog speaks" in listener.log


def test_what_was_said_before_the_end_is_kept() -> None:
    listener = wire()
    answers = list(listener.feed(hello("gpu1") + step("gpu1") + hello("gpu2")))
    answers += list(listener.ended(End(137, "slurmstepd: error: gpu2: task 1: Killed", timed_out=False, timeout_s=60)))
    assert [r.key for r in facts(answers)["gpu1"].reads] == ["colon"]
    assert {r.state for r in facts(answers)["gpu2"].reads} == {"error"}
    assert answers[-1] == Job(name="assay-1", method="srun", nodes=GROUP.nodes, state="ended")


@pytest.mark.parametrize(
    "odd",
    [
        b"@assay \n", b"@assay {\n", b"@assay []\n", b'@assay {"node":1}\n', b"@assay \xff\n", line("gpu9", bye=True),
        line("gpu1", step="colon", dir="x"),
    ],
)  # fmt: skip
def test_lines_that_are_none_change_nothing(odd: bytes) -> None:
    listener = wire()
    answers = list(listener.feed(hello("gpu1") + odd + step("gpu1") + odd + line("gpu1", bye=True) + step("gpu1")))
    assert [len(fact.reads) for fact in facts(answers).values()] == [1]
    assert set(listener.open) == {"gpu2"}


def test_a_bye_without_a_word_is_no_answer() -> None:
    listener = wire()
    answers = facts(list(listener.feed(line("gpu1", bye=True))))
    assert isinstance(parse(sources()["storage.pair"], answers["gpu1"]), Missing)


def errand() -> PairErrand:
    return PairErrand(Target(kind="slurm"), (PROBE,), {}, directories=("/home/alice",))


def test_a_job_that_is_refused_is_a_gap_of_both_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Iterator[Answer]:
        yield JOB
        raise LaunchError("Slurm takes no job: Invalid account")

    monkeypatch.setattr(slurm_pair, "run", refused)
    answers = list(try_directories(errand(), GROUP))
    assert answers[0] == JOB
    gaps = [parse(sources()["storage.pair"], a) for a in answers if isinstance(a, RawFact)]
    assert len(gaps) == 2
    assert all(isinstance(gap, Missing) and "Invalid account" in gap.reason for gap in gaps)


def test_every_job_has_a_program_with_a_token_of_its_own() -> None:
    assert errand().program() != errand().program()
    compile(errand().program(), "program", "exec")
