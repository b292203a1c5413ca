"""Streams closed, full or gone, odd encodings, Ctrl-C at any moment: a code and a message, never a traceback."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.model import RawFact, Read, RunInfo, Target
from assay.run.store import Run

ASSAY = f"{sys.executable} -m assay"
Env = dict[str, str]


@pytest.fixture
def env(tmp_path: Path) -> Env:
    """One recorded run with a finding, so that judging it ends with exit code 1."""
    info = RunInfo(id="r1", target=Target(name="x"), started=1796083200.0, tool_version="0", method="1", nodes=("n1",))
    run = Run.create(tmp_path / "runs", info)
    with run.writer("audit", "0") as writer:
        writer.fact(RawFact("os.release", "n1", (Read("release", files={"/etc/os-release": "ID=debian"}),), at=1e300))
        writer.finish("complete")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ASSAY_RUNS": str(tmp_path / "runs"),
        "LC_ALL": "C.UTF-8",
    }


def shell(line: str, env: Env, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, errors="replace", check=False, timeout=60, env=env | more
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert "fault of assay" not in done.stderr, done.stderr
    return done


JUDGE = f"{ASSAY} judge last --fail-on warn"


@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        ("<&-", 1), (">&-", 1), ("2>&-", 1), ("<&- >&- 2>&-", 1), ("2>/dev/full", 1), ("> >(true)", 1),
        ("2> >(true)", 1),
        (">/dev/full", 2), ("--json >/dev/full", 2), (">/dev/full 2>/dev/full", 2),
    ],
)  # fmt: skip
def test_streams_that_are_closed_full_or_gone(env: Env, redirection: str, code: int) -> None:
    done = shell(f"{JUDGE} {redirection}; echo $? >$HOME/code", env)
    assert (Path(env["HOME"]) / "code").read_text().strip() == str(code), done.stderr
    if redirection == ">/dev/full":
        assert "standard output: No space left" in done.stderr


@pytest.mark.parametrize("verb", ["--help", "explain", "show last"])
def test_output_that_is_full_is_said_by_every_verb(env: Env, verb: str) -> None:
    done = shell(f"{ASSAY} {verb} >/dev/full", env)
    assert done.returncode == 2
    assert "No space left" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_any_encoding(env: Env, encoding: str) -> None:
    for verb in ("judge last", "show last time.sync", "show last os.release", "explain"):
        assert "Error" not in shell(f"{ASSAY} {verb}", env, PYTHONIOENCODING=encoding).stderr
    assert json.loads(shell(f"{JUDGE} --json", env, PYTHONIOENCODING=encoding).stdout)["run"] == "r1"


def test_python_without_docstrings_is_refused(env: Env) -> None:
    done = shell(JUDGE, env, PYTHONOPTIMIZE="2")
    assert (done.returncode, "docstrings" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "verb",
    [
        "runs", "explain", "doctor", "facts", "plan local", "minimums", "show last", "show last os.release",
        "show last os.release.uniform", "report last", "judge last", "judge nothing", "audit", "nothing",
        "judge last -o /proc/x.json", "judge last -o /dev/full/x.json", "report last -o /proc/x.json",
    ],
)  # fmt: skip
def test_json_is_one_object_whatever_happens(env: Env, verb: str) -> None:
    assert isinstance(json.loads(shell(f"{ASSAY} {verb} --json", env).stdout), dict)


def test_interrupted_at_any_moment(env: Env) -> None:
    """From the first line of our code on; before that Python itself answers."""
    start = "import sys; from assay.cli.main import run; sys.stderr.write('.'); sys.stderr.flush(); run()"
    chance = random.Random(3)  # noqa: S311 - the same moments each time
    for _ in range(25):
        child = subprocess.Popen(
            [sys.executable, "-c", start, "judge", "last", "--json", "--fail-on", "warn"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stderr
        assert child.stderr.read(1) == b"."
        time.sleep(0.005 + chance.uniform(0, 0.4))
        for _ in range(3):
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert child.returncode in (130, 1), err
        assert b"Traceback" not in err, err.decode()
        assert isinstance(json.loads(out), dict)
        assert child.returncode == 1 or json.loads(out)["code"] == "interrupted"
