"""Collection from many nodes at once, with everything between here and there going wrong."""

from __future__ import annotations

import resource
import selectors
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError, LaunchError
from assay.launch.collect import Answer, Hello, NodeDone, collect
from assay.launch.session import Session
from assay.launch.wire import Wire
from assay.model import Exec, Files, Missing, Probe, RawFact, Target
from on_node import gone

PROBES = (
    Probe("first", (Exec("x", ("echo", "1")),)),
    Probe("second", (Files("y", ("/proc/sys/kernel/ostype",)), Exec("x", ("echo", "2")))),
)
SSH = Target(kind="ssh", nodes="x", timeout_s=10)


def answers(nodes: Iterable[str], target: Target = SSH, **kwargs: Any) -> list[Answer]:
    return list(collect(target, nodes, PROBES, **kwargs))


def facts(said: Iterable[Answer]) -> dict[tuple[str, str], RawFact]:
    return {(a.node, a.probe): a for a in said if isinstance(a, RawFact)}


def ends(said: Iterable[Answer]) -> dict[str, NodeDone]:
    return {a.node: a for a in said if isinstance(a, NodeDone)}


def pids(calls: Path) -> list[int]:
    return [int(line.split()[1]) for line in calls.read_text().splitlines()]


def until_called(calls: Path, count: int = 1) -> list[int]:
    limit = time.monotonic() + 4
    while time.monotonic() < limit:
        if calls.exists() and len(found := pids(calls)) >= count:
            return found
        time.sleep(0.01)
    pytest.fail("ssh was not called")


def test_this_machine() -> None:
    said = answers(["here"], Target())
    assert isinstance(said[0], Hello)
    assert facts(said)["here", "first"].out("x") == "1\n"
    assert facts(said)["here", "second"].files("y") == {"/proc/sys/kernel/ostype": "Linux\n"}
    done = ends(said)["here"]
    assert (done.ok, done.missing, done.stderr, done.log, done.garbage) == (True, None, "", "", 0)
    assert said[-1] is done


def test_many_nodes(ssh: Path) -> None:
    nodes = [f"ok{number}" for number in range(8)]
    notes: list[str] = []
    said = answers(nodes, on_note=notes.append)
    assert sorted({node for node, _ in facts(said)}) == nodes
    assert len(facts(said)) == 16
    assert all(done.ok for done in ends(said).values())
    assert len(notes) == 8
    assert all(gone(pid) for pid in pids(ssh))


@pytest.mark.usefixtures("ssh")
def test_fanout_is_a_limit() -> None:
    nodes = [a.node for a in answers(["ok1", "ok2", "ok3"], Target(kind="ssh", nodes="x", fanout=1))]
    assert nodes == sorted(nodes), "one after the other"


@pytest.mark.usefixtures("ssh")
def test_what_nodes_print_besides_is_kept_apart() -> None:
    said = answers(["banner", "garbage"])
    assert len(facts(said)) == 4
    done = ends(said)
    assert done["banner"].ok
    assert done["banner"].log == "Welcome to the cluster\nno newline at the end: \n"
    assert done["banner"].stderr == "known hosts added\n"
    assert done["garbage"].ok
    assert done["garbage"].garbage == 3


FAILURES = [
    (
        "refused",
        "unreachable",
        "ssh cannot connect (ssh: connect to host <node> port 22: Conn",
    ),
    ("unknown", "unreachable", "the name does not resolve"),
    ("login", "denied", "login refused (me@<node>: Permission denied (publickey,password).)"),
    ("hostkey", "unreachable", "its host key is not trusted"),
    ("changed", "unreachable", "its host key has changed"),
    ("nopython", "failed", "cannot run Python there (bash: line 1: python3: command not found)"),
    ("oldpython", "failed", "the collector did not start, exit status 1 (SyntaxError: invalid syntax)"),
    ("sudo", "denied", "sudo needs a password (<node>: a password is required)"),
    ("slurm", "denied", "only users with a job there are let in"),
    (
        "nologin",
        "denied",
        "the account cannot log in (This account is currently not available.)",
    ),
    ("odd", "failed", "the collector did not start, exit status 42"),
    ("killed", "failed", "the collector did not start, killed by signal 9"),
]


@pytest.mark.usefixtures("ssh")
def test_each_failure_has_its_own_words() -> None:
    said = answers([node for node, _, _ in FAILURES])
    done = ends(said)
    assert not facts(said)
    for node, kind, reason in FAILURES:
        missing = done[node].missing
        assert missing
        assert (missing.kind, missing.reason[: len(reason)]) == (kind, reason)
        assert not done[node].ok


@pytest.mark.usefixtures("ssh")
def test_a_node_that_answers_in_part() -> None:
    said = answers(["partial"])
    assert facts(said)["partial", "first"].reads
    states = {read.state for fact in facts(said).values() for read in fact.reads}
    assert states == {"ok", "error"}
    missing = ends(said)["partial"].missing
    assert missing
    assert missing.kind == "failed"
    assert "ended before it answered this" in missing.reason


def test_a_node_that_stops_answering(ssh: Path) -> None:
    said = answers(["stops"], Target(kind="ssh", nodes="x", timeout_s=1.0))
    unanswered = next(fact for fact in facts(said).values() if fact.reads[0].state != "ok")
    assert {read.state for read in unanswered.reads} == {"timed-out"}
    assert ends(said)["stops"].missing == Missing("timed-out", "no answer to this within 1 s")
    assert all(gone(pid) for pid in pids(ssh))


def test_nodes_that_hang_or_talk_without_end(ssh: Path) -> None:
    began = time.monotonic()
    said = answers(["hangs", "floods"], Target(kind="ssh", nodes="x", timeout_s=0.5))
    assert time.monotonic() - began < 4
    done = ends(said)
    assert {end.missing.kind for end in done.values() if end.missing} == {"timed-out"}
    assert len(done["floods"].log) <= 64 << 10
    assert all(gone(pid) for pid in pids(ssh))


def test_nothing_said_last_is_lost(tmp_path: Path) -> None:
    line = b'@assay {"probe":"first","reads":[{"key":"x","out":"' + b"1" * 100_000 + b'"}]}'
    (tmp_path / "said").write_bytes(b'@assay {"hello":{}}\n' + line)
    with selectors.DefaultSelector() as selector:
        argv = ("head", "-c", "60000", str(tmp_path / "said"))
        session = Session(argv, b"", Wire("n", PROBES), 5, selector)
        while not session.over(idle=True):
            time.sleep(0.01)
        said = list(session.finish())
    assert isinstance(said[0], Hello)
    assert len(said) == 4, "a greeting, the evidence of two silent probes, and the end"
    assert ends(said)["n"].garbage == 1


def test_closing_ends_everything(ssh: Path) -> None:
    said = collect(SSH, ["ok1", "hangs", "stubborn"], PROBES)
    assert isinstance(next(said), Hello)
    running = until_called(ssh, 3)
    said.close()
    assert all(gone(pid, 2) for pid in running)


def test_interrupting_ends_everything(ssh: Path) -> None:
    def consume(said: Iterator[Answer]) -> None:
        for answer in said:
            if isinstance(answer, NodeDone):
                raise KeyboardInterrupt

    said = collect(SSH, ["refused", "hangs"], PROBES)
    with pytest.raises(KeyboardInterrupt):
        consume(said)
    said.close()
    assert all(gone(pid, 2) for pid in pids(ssh))


def test_stopping_ends_everything(ssh: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    assert answers(["hangs"], stop=stop) == []
    assert time.monotonic() - began < 3
    assert all(gone(pid) for pid in pids(ssh))


def test_local_tools_end_with_the_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mytool").write_text(
        f"#!/bin/sh\ntrap '' TERM\necho x $$ >> {tmp_path}/calls\nwhile :; do sleep 60; done\n"
    )
    (tmp_path / "mytool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said = collect(Target(), ["here"], [Probe("p", (Exec("x", ("mytool",), timeout_s=60),), timeout_s=60)])
    assert isinstance(next(said), Hello)
    pid = until_called(tmp_path / "calls")[0]
    said.close()
    assert gone(pid)


def test_what_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="ssh cannot be started"):
        answers(["ok"])


@pytest.mark.usefixtures("ssh")
def test_many_that_fail_alike_say_the_same() -> None:
    missing = {end.missing for end in ends(answers(["refused1", "refused2"])).values()}
    assert len(missing) == 1


def test_few_descriptors_make_it_slower_and_cost_no_node(ssh: Path) -> None:
    names = [f"ok{i}" for i in range(30)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 24, hard))
    try:
        done = ends(answers(names))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(done) == set(names)
    assert all(end.ok for end in done.values())
    assert len(pids(ssh)) == len(names)


def test_a_wrong_name_starts_nothing(ssh: Path) -> None:
    with pytest.raises(ConfigError):
        answers(["ok", "-oProxyCommand=true"])
    assert not ssh.exists()
