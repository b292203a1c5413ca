"""Two processes of one machine try directories together, as two nodes of a cluster would."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.facts.storage_pair import STEPS
from assay.launch.payload import storage_pair
from assay.workloads.storage_pair import DIRECTORIES, INCREMENTS, MODULES

NAMED = "c0ffee"
Lines = list[dict[str, Any]]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Begins one of the two processes; whatever still runs ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(rank: int, *directories: Path, path: str = os.environ["PATH"], **asked: Any) -> "subprocess.Popen[bytes]":
        env = {"SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"n{rank}", "PATH": path}
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        running.append(child)
        assert child.stdin
        child.stdin.write(storage_pair(token=NAMED, directories=list(map(str, directories)), **asked))
        child.stdin.close()
        return child

    yield begin
    for child in running:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def said(child: "subprocess.Popen[bytes]") -> Lines:
    assert child.stdout
    text = child.stdout.read()
    child.wait(60)
    assert all(len(line) < 1000 for line in text.splitlines())
    return [json.loads(line.removeprefix(b"@assay ")) for line in text.splitlines() if line.startswith(b"@assay ")]


def step(lines: Lines, name: str, directory: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = next(x for x in lines if x.get("step") == name and x["dir"] == directory)
    return found


def steps(lines: Lines) -> list[str]:
    return [line["step"] for line in lines if "step" in line]


def test_two_processes_share_a_directory(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("stays")
    first, second = start(0, tmp_path), start(1, tmp_path)
    one, other = said(first), said(second)
    assert steps(one) == [*STEPS[:8], "clean"]
    assert steps(other) == [*STEPS[:8]]
    assert [line for line in (*one, *other) if line.get("ok") is False and line["step"] != "import"] == []
    assert one[-1]["bye"]
    assert other[-1]["bye"]
    for key in ("inode", "private"):
        assert step(one, "same-inode")["detail"][key] == step(other, "same-inode")["detail"][key]
    assert step(one, "checksum")["detail"] == step(other, "checksum")["detail"]
    for kind in ("flock", "fcntl"):
        assert step(one, kind)["detail"] == {"lock": "ok", "done": INCREMENTS, "total": 2 * INCREMENTS}
        assert step(other, kind)["detail"] == {"lock": "busy", "done": INCREMENTS, "total": 2 * INCREMENTS}
    won = [int(step(lines, "mkdir")["detail"]["won"], 16) for lines in (one, other)]
    assert won[0] ^ won[1] == won[0] | won[1] == (1 << DIRECTORIES) - 1
    assert step(one, "import")["detail"]["written"] == step(other, "import")["detail"]["modules"] <= MODULES
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_of_the_same_name_is_not_the_same(start: Start, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    first, second = start(0, ours, patience_s=1), start(1, theirs, patience_s=1)
    for lines in (said(first), said(second)):
        assert step(lines, "same-inode")["detail"]["met"] is False
        assert not step(lines, "same-inode")["ok"]
        assert "checksum" not in steps(lines)
        assert lines[-1]["bye"]
    assert [*ours.iterdir(), *theirs.iterdir()] == []


def test_directories_are_tried_one_after_the_other(start: Start, tmp_path: Path) -> None:
    gone, there = tmp_path / "gone", tmp_path / "there"
    there.mkdir()
    first, second = start(0, gone, there, patience_s=8), start(1, gone, there, patience_s=8)
    for lines in (said(first), said(second)):
        assert step(lines, "same-inode", 0)["detail"] == {"error": "ENOENT"}
        assert step(lines, "mkdir", 1)["ok"]


def met(directory: Path) -> None:
    """Wait until both nodes work in the directory."""
    end = time.monotonic() + 30
    while not list(directory.glob(".assay-pair-*/sync/checksum.*")):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_nobody_else_may_look_in(start: Start, tmp_path: Path) -> None:
    start(0, tmp_path, patience_s=1)
    end = time.monotonic() + 30
    while not (found := list(tmp_path.iterdir())):
        assert time.monotonic() < end
    assert stat.S_IMODE(found[0].stat().st_mode) == 0o700


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_partner_ends_the_other_by_deadline_and_leaves_nothing(
    start: Start, tmp_path: Path, killed: int
) -> None:
    children = [start(rank, tmp_path, patience_s=1) for rank in (0, 1)]
    met(tmp_path)
    children[killed].kill()
    began = time.monotonic()
    lines = said(children[1 - killed])
    assert time.monotonic() - began < 20
    assert "the other node did not come" in step(lines, "together")["detail"]["error"]
    assert step(lines, "clean")["ok"]
    assert list(tmp_path.iterdir()) == []


def test_a_partner_that_never_comes_is_not_waited_for(start: Start, tmp_path: Path) -> None:
    lines = said(start(0, tmp_path, patience_s=0.5))
    assert step(lines, "same-inode")["detail"]["met"] is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_and_leaves_nothing(start: Start, tmp_path: Path, number: int) -> None:
    children = [start(rank, tmp_path) for rank in (0, 1)]
    met(tmp_path)
    for child in children:
        child.send_signal(number)
    for child in children:
        assert "bye" not in said(child)[-1]
        assert child.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_all_of_it_has_a_deadline(start: Start, tmp_path: Path) -> None:
    children = [start(rank, tmp_path, seconds=0.5) for rank in (0, 1)]
    began = time.monotonic()
    for child in children:
        said(child)
    assert time.monotonic() - began < 20
    assert list(tmp_path.iterdir()) == []


SSH = """#!/bin/sh
case "$*" in *' -- n0 true') exit 0;; esac
echo 'Host key verification failed.' >&2
exit 255
"""


def test_each_goes_to_the_other_by_ssh_where_asked(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    own = f"{tmp_path}:{os.environ['PATH']}"
    first, second = (said(start(rank, path=own, ssh=["n0", "n1"])) for rank in (0, 1))
    assert step(first, "ssh", -1)["detail"] == {"to": "n1", "rc": 255, "said": "Host key verification failed."}
    assert step(second, "ssh", -1)["ok"]
    assert not [line for line in steps(said(start(0, path=own))) if line == "ssh"]
