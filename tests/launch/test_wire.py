"""Bytes in, answers out; and evidence that is already there."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, strategies as st

from assay.launch import wire as wires
from assay.launch.answer import Hello, NodeDone, unanswered
from assay.launch.payload import payload
from assay.launch.replay import replay
from assay.launch.wire import Wire
from assay.model import Env, Exec, Missing, Probe, RawFact, Read

PROBES = (Probe("a", (Exec("x", ("true",)),)), Probe("b", (Env("y", ("Z",)), Env("z", ("Z",)))))
LINES = (
    b'@assay {"hello":{"host":"h","uid":7}}\n'
    b"noise\n"
    b'@assay {"probe":"a","reads":[{"key":"x","rc":0,"out":"\\u0000\\n"}],"at":1.5,"took_s":0.1,"uid":7}\n'
    b'@assay {"probe":"b","reads":[]}\n'
    b'@assay {"bye":{"probes":2}}\n'
)
SAID = [
    Hello("n", "h", 7),
    RawFact("a", "n", (Read("x", rc=0, out="\0\n"),), 1.5, 0.1, 7),
    RawFact("b", "n", ()),
]


@given(st.lists(st.integers(0, len(LINES)), max_size=6).map(sorted))
def test_however_the_bytes_arrive(cuts: list[int]) -> None:
    wire = Wire("n", PROBES)
    said = [a for low, high in zip([0, *cuts], [*cuts, len(LINES)], strict=True) for a in wire.feed(LINES[low:high])]
    assert said == SAID
    assert (wire.open, wire.greeted, wire.complete, wire.garbage, bytes(wire.log)) == ({}, True, True, 0, b"noise\n")


def test_a_last_line_without_an_end_counts() -> None:
    wire = Wire("n", PROBES)
    assert list(wire.feed(LINES.rstrip(b"\n"))) == SAID
    assert not wire.complete
    assert list(wire.close()) == []
    assert wire.complete


@given(st.binary(max_size=60))
def test_garbage_is_counted_and_survived(junk: bytes) -> None:
    wire = Wire("n", PROBES)
    said = [a for chunk in (b"@assay " + junk.replace(b"\n", b"") + b"\n", LINES) for a in wire.feed(chunk)]
    assert said == SAID
    assert wire.garbage == 1


def test_an_answer_counts_once_and_only_when_asked() -> None:
    wire = Wire("n", PROBES[:1])
    assert [a for _ in range(2) for a in wire.feed(LINES)] == SAID[:2]
    assert wire.garbage == 4, "b was not asked; and everything but the end came twice"


def test_endless_lines_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "LINE_CAP", 1000)
    wire = Wire("n", PROBES)
    for _ in range(20):
        assert list(wire.feed(b"@assay " + b"x" * 100)) == []
    assert list(wire.feed(b"tail\n" + LINES)) == SAID
    assert wire.garbage == 1


def test_the_log_is_bounded() -> None:
    wire = Wire("n", PROBES)
    for _ in range(10_000):
        assert list(wire.feed(b"motd motd motd\n")) == []
    assert len(wire.log) == wires.LOG_CAP


@pytest.mark.parametrize(("kind", "state"), [("timed-out", "timed-out"), ("denied", "denied"), ("failed", "error")])
def test_silence_is_evidence(kind: str, state: str) -> None:
    first, second = unanswered("n", PROBES, Missing(kind, "why"))  # type: ignore[arg-type]
    assert first.reads == (Read("x", state, ("true",), err="why"),)  # type: ignore[arg-type]
    assert [read.key for read in second.reads] == ["y", "z"]


def test_replay() -> None:
    facts = [RawFact("a", "n", (), at=1.0, uid=7), RawFact("a", "m", ()), RawFact("b", "n", ())]
    assert list(replay(facts)) == [
        Hello("n", "n", 7, at=1.0), facts[0], Hello("m", "m", -1), facts[1], facts[2],
        NodeDone("n", ok=True), NodeDone("m", ok=True),
    ]  # fmt: skip


def test_the_payload_is_plain_ascii_and_carries_any_request() -> None:
    odd = Probe("p", (Exec("x", ("'\"\\\n\0\N{SNOWMAN}\u2028",)),))
    program = payload([odd], root="/a'b")
    program.decode("ascii")
    calls: list[str] = []
    modules = dict(sys.modules)
    try:
        exec(program.replace(b"\nsys.modules['assay.node.collector'].main(", b"\nCALLS.append("), {"CALLS": calls})  # noqa: S102
    finally:
        sys.modules.clear()
        sys.modules.update(modules)
    request = json.loads(calls[0])
    assert request["probes"][0]["steps"][0]["argv"] == list(odd.steps[0].argv)  # type: ignore[union-attr]
    assert request["root"] == "/a'b"
