"""Collecting through a pretended Slurm in all its moods."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import LaunchError, NoVerdict
from assay.launch.answer import Answer, Hello, NodeDone
from assay.launch.errand import Errand
from assay.launch.fleet_wire import FleetWire
from assay.launch.outcome import End
from assay.launch.slurm import run
from assay.launch.slurm_batch import reattach
from assay.launch.slurm_script import Group
from assay.launch.slurm_words import lines_about, trouble, why_silent
from assay.model import Exec, Files, Job, Probe, RawFact, SlurmOptions, Target
from assay.node.framed import framed

PROBES = (
    Probe("big", (Exec("x", ("head", "-c", "300000", "/bin/sh")),)),
    Probe("small", (Files("x", ("/proc/sys/kernel/hostname",)),)),
)
SOURCE = Path(__file__).with_name("fake_slurm.py")


class Slurm:
    """A pretended Slurm on PATH."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("srun", "sbatch", "squeue", "scancel"):
            (place / name).write_text(f"#!{sys.executable}\n{SOURCE.read_text()}")
            (place / name).chmod(0o755)
        self.mood()

    def mood(self, *words: str) -> None:
        (self.place / "mood").write_text(" ".join(words))

    def calls(self, name: str) -> list[dict[str, Any]]:
        path = self.place / "calls"
        every = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [call for call in every if call["name"] == name]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    return Slurm(tmp_path / "bin")


def errand(**slurm: Any) -> Errand:
    return Errand(
        Target(name="c", kind="slurm", timeout_s=20, slurm=SlurmOptions(**slurm)), PROBES, {}, "slurmctld (h)"
    )


def ask(*nodes: str, **slurm: Any) -> list[Answer]:
    return list(run(errand(**slurm), [Group(nodes)]))


def ends(answers: list[Answer]) -> dict[str, NodeDone]:
    return {a.node: a for a in answers if isinstance(a, NodeDone)}


def states(answers: list[Answer]) -> list[tuple[str, str]]:
    return [(a.method, a.state) for a in answers if isinstance(a, Job)]


def test_answers_of_many_tasks_in_one_stream(slurm: Slurm) -> None:
    slurm.mood("noisy")
    answers = ask("n1", "n2", "n3")
    assert sorted(a.node for a in answers if isinstance(a, Hello)) == ["n1", "n2", "n3"]
    facts = [a for a in answers if isinstance(a, RawFact)]
    assert sorted((a.node, a.probe) for a in facts) == sorted((n, p.name) for n in ("n1", "n2", "n3") for p in PROBES)
    assert len({a.reads[0].out for a in facts if a.probe == "big"}) == 1
    assert all(end.ok and not end.garbage for end in ends(answers).values())
    assert states(answers) == [("srun", "planned"), ("srun", "ended")]
    assert slurm.calls("scancel"), "srun may end well without having told slurmctld"


def test_the_name_of_a_job_is_known_before_it_is_asked_for(slurm: Slurm) -> None:
    answers = run(errand(), [Group(("n1",))])
    job = next(answers)
    assert isinstance(job, Job)
    assert not slurm.calls("srun")
    list(answers)
    assert f"--job-name={job.name}" in slurm.calls("srun")[0]["args"]


def test_one_bad_node_costs_itself_only(slurm: Slurm) -> None:
    answers = ask("n1", "nopython1", "cut1")
    done = ends(answers)
    assert done["n1"].ok
    assert done["nopython1"].missing
    assert done["nopython1"].missing.reason.startswith("nopython1: cannot run Python there (slurmstepd-nopython1: ")
    assert done["cut1"].missing
    assert done["cut1"].missing.reason == "cut1: ended early (srun: error: cut1: task 0: Exited with exit code 2)"
    assert {a.probe for a in answers if isinstance(a, RawFact) and a.node == "cut1"} == {"big", "small"}
    assert slurm.calls("srun")


def test_busy_nodes_are_not_waited_for(slurm: Slurm) -> None:
    slurm.mood("busy")
    done = ends(ask("n1", "n2"))
    assert {end.missing.kind for end in done.values() if end.missing} == {"not-asked"}
    assert not slurm.calls("sbatch")


def test_a_controller_that_is_gone_is_no_verdict(slurm: Slurm) -> None:
    slurm.mood("down")
    with pytest.raises(NoVerdict, match=r"slurmctld \(h\) does not answer: .*Unable to contact"):
        ask("n1")


def test_a_controller_lost_at_the_end_is_no_verdict_and_answers_are_kept(slurm: Slurm) -> None:
    slurm.mood("forgets")
    answers: list[Answer] = []
    with pytest.raises(NoVerdict):
        keep(answers, run(errand(), [Group(("n1",))]))
    assert ends(answers)["n1"].ok
    assert states(answers) == [("srun", "planned")]


def keep(kept: list[Answer], answers: Iterator[Answer]) -> None:
    """Every answer until it goes wrong."""
    for answer in answers:
        kept += [answer]


@pytest.mark.parametrize("mood", ["refused", "account"])
def test_where_srun_is_refused_a_batch_job_is_tried(slurm: Slurm, mood: str, tmp_path: Path) -> None:
    slurm.mood(mood)
    answers = ask("n1", "n2", account="a1")
    assert all(end.ok for end in ends(answers).values())
    assert states(answers) == [
        ("srun", "planned"), ("srun", "ended"), ("sbatch", "planned"), ("sbatch", "submitted"), ("sbatch", "ended"),
    ]  # fmt: skip
    assert [a.id for a in answers if isinstance(a, Job)][-1] == "77"
    assert not list((tmp_path / ".assay-jobs").iterdir())
    assert (tmp_path / ".assay-jobs").stat().st_mode & 0o777 == 0o700


def test_refused_both_ways_in_slurms_words(slurm: Slurm) -> None:
    slurm.mood("refused", "nobatch")
    with pytest.raises(LaunchError, match=r"interactive jobs are not taken.*Batch job submission failed"):
        ask("n1")
    slurm.mood("account")
    with pytest.raises(LaunchError, match=r"Slurm takes no job: .*Invalid account"):
        ask("n1", method="srun")


def test_closing_ends_srun_and_cancels_its_job(slurm: Slurm) -> None:
    slurm.mood("hang")
    answers = run(errand(), [Group(("n1",))])
    job = next(answers)
    assert isinstance(job, Job)
    interrupt_at(lambda: bool(slurm.calls("srun")), answers)
    assert slurm.calls("srun")[-1].get("ended"), "srun was asked to end"
    assert slurm.calls("scancel")[0]["args"] == [f"--name={job.name}"]


def interrupt_at(met: Callable[[], bool], answers: Any) -> None:
    """Close the generator from another thread's point of view: while it waits."""
    import threading
    from _thread import interrupt_main

    def later() -> None:
        until = time.monotonic() + 20
        while not met() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        interrupt_main()

    threading.Thread(target=later).start()
    with pytest.raises(KeyboardInterrupt):
        list(answers)


def test_a_batch_job_that_a_run_lost_is_found_by_its_name(slurm: Slurm, tmp_path: Path) -> None:
    answers = run(errand(method="sbatch"), [Group(("n1", "n2"))])
    jobs = [next(answers), next(answers)]
    lost = jobs[1]
    assert isinstance(lost, Job)
    assert (lost.state, lost.id) == ("submitted", "77")
    spool = tmp_path / ".assay-jobs" / lost.name
    wait_for(lambda: (spool / "out").read_bytes().count(b" . ") == 2 * (len(PROBES) + 2))
    again = list(reattach(errand(method="sbatch"), [lost]))
    assert {(a.node, a.probe) for a in again if isinstance(a, RawFact)} == {
        (n, p.name) for n in ("n1", "n2") for p in PROBES
    }
    assert states(again)[-1] == ("sbatch", "ended")
    assert not spool.exists()
    assert len(slurm.calls("sbatch")) == 1
    answers.close()


def wait_for(met: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not met():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_srun_job_that_a_run_lost_is_cancelled(slurm: Slurm) -> None:
    again = list(reattach(errand(), [Job(name="assay-x", method="srun", nodes=("n1",))]))
    assert states(again) == [("srun", "ended")]
    assert slurm.calls("scancel")[0]["args"] == ["--name=assay-x"]


# ---- frames ---------------------------------------------------------------------------------------------------


def wire(*nodes: str, **aliases: str) -> FleetWire:
    return FleetWire(Job(name="j", method="srun", nodes=nodes), PROBES, aliases, Group(nodes))


def test_frames_are_short_lines() -> None:
    lines = framed(b"n" * 64, bytes(range(256)) * 4000).split(b"\n")
    assert max(map(len, lines)) < 1000


def test_frames_in_any_chunks() -> None:
    data = framed(b"n1", b'{"hello":{"host":"h"}}') + framed(b"n2", b'{"hello":{"host":"i"}}')
    for size in (1, 7, 5000):
        listener = wire("n1", "n2")
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [a.node for piece in pieces for a in listener.feed(piece)] == ["n1", "n2"]  # type: ignore[union-attr]


def test_a_node_may_call_itself_by_its_host_name() -> None:
    listener = wire("n1", **{"host-1": "n1"})
    assert [type(a) for a in listener.feed(framed(b"host-1", b'{"hello":{}}'))] == [Hello]
    assert not list(listener.feed(framed(b"stranger", b'{"hello":{}}')))


@pytest.mark.parametrize(
    "line", [b"@assay:n1 . !!!!\n", b"@assay:n1 . eJwDAAAAAAE=\n", b"@assay:n1\n", b"@assay: . \n"]
)
def test_broken_frames_are_no_answers(line: bytes) -> None:
    listener = wire("n1")
    assert not list(listener.feed(line))
    (done, job) = listener.ended(End(1, "", timed_out=False, timeout_s=1))
    assert isinstance(done, NodeDone)
    assert done.missing
    assert isinstance(job, Job)


def test_what_is_no_frame_is_bounded() -> None:
    listener = wire("n1")
    for _ in range(100):
        list(listener.feed(b"x" * 100_000))
    assert len(listener.log) <= 64 << 10
    assert [type(a) for a in listener.feed(b"\n" + framed(b"n1", b'{"hello":{}}'))] == [Hello]


# ---- words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("srun: error: Unable to allocate resources: Requested nodes are busy", "busy"),
        ("srun: Required node not available (down, drained or reserved)\nsrun: job 3 queued and waiting", None),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", "down"),
        ("srun: error: Unable to allocate resources: Invalid qos specification", "refused"),
        ("srun: error: invalid partition specified: x", "refused"),
        ("assay: srun cannot be started: No such file or directory", "refused"),
        ("srun: error: gpu01: task 0: Exited with exit code 1", None),
    ],
)
def test_why_a_job_did_not_start(stderr: str, kind: str | None) -> None:
    found = trouble(stderr)
    assert (found.kind if found else None) == kind


def test_lines_about_a_node_also_in_hostlists() -> None:
    text = "srun: error: Node failure on gpu[02-03]\nsrun: error: gpu012: task 1: Killed\nslurmstepd-gpu01: error: x"
    assert len(lines_about("gpu03", text)) == 1
    assert lines_about("gpu01", text) == ["slurmstepd-gpu01: error: x"]
    assert why_silent("gpu03", text, greeted=True, left=3, timed_out=False).kind == "unreachable"
