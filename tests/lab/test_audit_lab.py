"""`assay audit` of a real Slurm cluster as its users run it: uid 1000 on the login node, no root, no ssh."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.facts.source import parse, sources
from assay.lab import lifecycle
from assay.lab.control import Lab
from assay.lab.spec import Spec
from assay.model import SCHEDULER, Missing
from assay.run.store import Run
from on_lab import sh, started, until

SLOW = '#!/bin/sh\n[ "$1" != -q ] || sleep 5\n'
SMI = "/usr/local/sbin/nvidia-smi"
NODES = ("gpu01", "gpu02", "gpu03")


@pytest.fixture(scope="module")
def cluster(own_name: str) -> Iterator[Lab]:
    """Three nodes and a spare."""
    up = started(Spec(name=f"{own_name}-audit", nodes=len(NODES)))
    try:
        yield up
    finally:
        lifecycle.down(up.name)


class User:
    """Someone who audits a lab from outside, through a user of its login node."""

    def __init__(self, lab: Lab, tmp_path: Path) -> None:
        self.lab, self.home = lab, tmp_path
        self.env = os.environ | {"HOME": str(tmp_path), "ASSAY_RUNS": str(tmp_path / "runs")}
        self.options = ""

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "assay", *words]

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), env=self.env, cwd=self.home, capture_output=True, text=True, check=False, timeout=120
        )

    def configure(self, slurm: str) -> None:
        own = [sys.executable, "-m", "assay", "lab", "exec", "--name", self.lab.name, "-u", "alice", "login", "--"]
        head = f'[targets.mine]\nkind = "slurm"\nemulated = true\nvia = {json.dumps(own)}\n'
        (self.home / "assay.toml").write_text(f"{head}[targets.mine.slurm]\n{slurm}\n")

    def audit(self, *words: str, target: str = "") -> dict[str, Any]:
        done = self.say("audit", target or f"lab:{self.lab.name}", "--json", *words)
        assert done.returncode in (0, 1, 3), done.stderr
        judgement: dict[str, Any] = json.loads(done.stdout)
        assert judgement["emulated"]
        return judgement

    def begin(self, *words: str, target: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv("audit", target or f"lab:{self.lab.name}", "--json", *words),
            env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self) -> Run:
        return Run(max((self.home / "runs").iterdir()))


@pytest.fixture
def user(cluster: Lab, tmp_path: Path) -> User:
    idle(cluster)
    return User(cluster, tmp_path)


def queue(lab: Lab) -> str:
    return sh(lab, "ctl", "squeue -h -o '%i %j %T %N'")


def idle(lab: Lab) -> None:
    words = "sinfo -h -N -p batch -o %T | sort -u"
    until(lambda: sh(lab, "ctl", words) == "idle" and not queue(lab), "an idle cluster")


@contextmanager
def closed(lab: Lab, program: str) -> Iterator[None]:
    """A program of Slurm that users of the login node may not run."""
    sh(lab, "login", f"chmod 700 /usr/bin/{program}")
    try:
        yield
    finally:
        sh(lab, "login", f"chmod 755 /usr/bin/{program}")


@pytest.fixture
def slow(cluster: Lab) -> Iterator[str]:
    """A node on which nvidia-smi takes its time."""
    slow_down(cluster, "gpu02")
    yield "gpu02"
    sh(cluster, "gpu02", f"rm {SMI}")


def slow_down(lab: Lab, node: str) -> None:
    assert not lab.run(node, ["tee", SMI], stdin=SLOW).returncode
    sh(lab, node, f"chmod 755 {SMI}")


def left_out(judgement: dict[str, Any]) -> dict[str, str]:
    return {n["what"]: n["why"] for n in judgement["not_looked_at"] if n["what"].startswith("node")}


def reads(run: Run, node: str) -> set[str]:
    return {raw.probe for _, raw in run.evidence(run.index.of_node(node))}


# ---- ways in --------------------------------------------------------------------------------------------------


def test_by_srun(user: User) -> None:
    judgement = user.audit()
    assert (judgement["nodes"], judgement["answered"]) == (3, 3)
    assert not judgement["counts"]["error"]
    assert left_out(judgement) == {"nodes gpu04": "not in partition batch"}
    run = user.run()
    assert {raw.uid for node in NODES for _, raw in run.evidence(run.index.of_node(node))} == {1000}
    assert [(job.method, job.state, job.nodes) for job in run.jobs()] == [("srun", "ended", NODES)]
    assert {len(reads(run, node)) for node in NODES} == {sum(p.place == "node" for p in probes())}
    assert queue(user.lab) == ""


def probes() -> list[Any]:
    return [source.probe for source in sources().values()]


def test_by_sbatch_where_srun_is_not_for_users(user: User) -> None:
    with closed(user.lab, "srun"):
        judgement = user.audit()
    assert judgement["answered"] == 3
    jobs = {job.method: job for job in user.run().jobs()}
    assert jobs["sbatch"].state == jobs["srun"].state == "ended"
    assert jobs["sbatch"].id.isdigit()
    assert sh(user.lab, "login", "ls -A ~/.assay-jobs; stat -c %a ~/.assay-jobs", "alice") == "700"
    idle(user.lab)


def test_without_rights_to_scontrol(user: User) -> None:
    with closed(user.lab, "scontrol"):
        judgement = user.audit()
    assert judgement["answered"] == 3
    found = facts(user.run())
    assert {found[name].kind for name in ("slurm.nodes", "slurm.config")} == {"denied"}
    assert [node.name for node in found["slurm.sinfo"].nodes().nodes] == list(NODES)


def facts(run: Run) -> dict[str, Any]:
    known = sources()
    return {raw.probe: parse(known[raw.probe], raw) for _, raw in run.evidence(run.index.of_node(SCHEDULER))}


def test_without_accounting(user: User) -> None:
    user.audit("--only", "time.*")
    found = facts(user.run())
    assert {type(found[name]) for name in ("slurm.nodes", "slurm.partitions", "slurm.sinfo")} & {Missing} == set()


def test_with_accounting_every_job_names_its_account(own_name: str, tmp_path: Path) -> None:
    lab = started(Spec(name=f"{own_name}-acct", nodes=1, accounting=True))
    try:
        user = User(lab, tmp_path)
        user.configure('account = "nobodys"')
        refused = user.say("audit", "mine")
        assert refused.returncode == 2
        assert "Slurm takes no job" in refused.stderr
        assert "Invalid account" in refused.stderr
        assert user.audit()["answered"] == 1
        assert not isinstance(facts(user.run())["slurm.events"], Missing)
    finally:
        lifecycle.down(lab.name)


def test_a_plan_starts_nothing(user: User) -> None:
    before = sh(user.lab, "ctl", "scontrol show config | grep NEXT_JOB_ID")
    done = user.say("plan", f"lab:{user.lab.name}")
    assert "gpu[01-03]: IDLE" in done.stdout
    assert "left out gpu04: not in partition batch" in done.stdout
    assert "effect   job: reads only" in done.stdout
    assert "'--nodelist=gpu[01-03]' --account=research --time=00:10:00 --gres=gpu:h100:8" in done.stdout
    assert sh(user.lab, "ctl", "scontrol show config | grep NEXT_JOB_ID") == before


# ---- nodes that are not free ----------------------------------------------------------------------------------


def test_busy_and_drained_nodes_are_named_not_waited_for(user: User) -> None:
    sh(user.lab, "ctl", "scontrol update nodename=gpu02 state=drain reason='gpu 3 | fell off'")
    job = sh(user.lab, "login", "sbatch --parsable -w gpu03 --gres=gpu:8 --wrap 'sleep 8'", "alice")
    try:
        until(lambda: f"{job} wrap RUNNING gpu03" in queue(user.lab), "a busy node")
        named = left_out(user.audit())
        assert named["nodes gpu02"] == "drained (IDLE+DRAIN): gpu 3 | fell off"
        assert named["nodes gpu03"] == "busy: ALLOCATED, 8 of 8 GPUs in use"
        assert user.run().info.nodes == ("gpu01",)
        assert user.audit("--wait", "60")["answered"] == 2
    finally:
        sh(user.lab, "ctl", "scontrol update nodename=gpu02 state=resume")
    idle(user.lab)


def test_a_cluster_without_a_free_node_is_no_verdict(user: User) -> None:
    sh(user.lab, "ctl", "scontrol update nodename=gpu[01-03] state=drain reason=move")
    try:
        done = user.say("audit", f"lab:{user.lab.name}", "--json", "--fail-on", "never")
    finally:
        sh(user.lab, "ctl", "scontrol update nodename=gpu[01-03] state=resume")
    assert done.returncode == 3
    assert "no node could be looked at: " in json.loads(done.stdout)["unproven"][0]
    idle(user.lab)


# ---- mishaps --------------------------------------------------------------------------------------------------


def answering(user: User, hosts: int = len(NODES) + 1) -> bool:
    """So many hosts have said something, the scheduler among them."""
    return (user.home / "runs").exists() and len(user.run().index.nodes()) == hosts


def interrupted(user: User, slow: str, number: int, **how: str) -> subprocess.CompletedProcess[str]:
    """An audit that is ended while one node still works."""
    child = user.begin(**how)
    until(lambda: answering(user), "answers of all nodes")
    assert (slow, "nvidia.smi") not in user.run().index.seen()
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def test_interrupted_in_the_middle_of_a_fan_out(user: User, slow: str) -> None:
    done = interrupted(user, slow, signal.SIGINT)
    assert done.returncode == 130, done.stderr
    assert queue(user.lab) == ""
    before = user.run().index.seen()
    assert (slow, "nvidia.smi") not in before
    assert user.run().exit_reason == "interrupted"
    again = user.say("resume", "--json")
    assert json.loads(again.stdout)["answered"] == 3, again.stderr
    assert before < user.run().index.seen()
    assert user.run().exit_reason == "complete"
    idle(user.lab)


def test_killed_in_the_middle_of_a_fan_out(user: User, slow: str) -> None:
    interrupted(user, slow, signal.SIGKILL)
    until(lambda: queue(user.lab) == "", "no stray job", 15)
    before = user.run().index.seen()
    assert before
    assert user.audit()["answered"] == 3
    assert before < user.run().index.seen()
    assert len(list((user.home / "runs").iterdir())) == 1
    assert {job.state for job in user.run().jobs()} == {"ended"}
    idle(user.lab)


def test_a_batch_job_outlives_its_controller_and_is_found_again(user: User, slow: str) -> None:
    user.configure('account = "research"\nmethod = "sbatch"')
    interrupted(user, slow, signal.SIGKILL, target="mine")
    assert " assay-" in queue(user.lab)
    done = user.say("resume", "--json")
    assert json.loads(done.stdout)["answered"] == 3, done.stderr
    assert len({job.name for job in user.run().jobs()}) == 1
    assert sh(user.lab, "login", "ls -A ~/.assay-jobs", "alice") == ""
    idle(user.lab)


def test_an_interruption_cancels_a_batch_job(user: User, slow: str) -> None:
    user.configure('account = "research"\nmethod = "sbatch"')
    assert interrupted(user, slow, signal.SIGINT, target="mine").returncode == 130
    until(lambda: queue(user.lab) == "", "no stray job", 15)
    assert user.audit(target="mine")["answered"] == 3
    idle(user.lab)


@contextmanager
def stopped(lab: Lab) -> Iterator[None]:
    sh(lab, "ctl", "pkill slurmctld; while pgrep -x slurmctld; do sleep 0.1; done >/dev/null")
    try:
        yield
    finally:
        sh(lab, "ctl", "slurmctld")
        until(lambda: not lab.run("ctl", ["scontrol", "ping"]).returncode, "slurmctld", 30)


def test_slurmctld_stopped_before(user: User) -> None:
    with stopped(user.lab):
        done = user.say("audit", f"lab:{user.lab.name}")
    assert done.returncode == 3
    assert "slurmctld (ctl, DOWN) does not answer" in done.stderr
    idle(user.lab)


def test_slurmctld_stopped_in_the_middle(own_name: str, tmp_path: Path) -> None:
    lab = started(Spec(name=f"{own_name}-stop", nodes=1))
    try:
        slow_down(lab, "gpu01")
        user = User(lab, tmp_path)
        child = user.begin()
        until(lambda: answering(user, 2), "answers")
        with stopped(lab):
            _, err = child.communicate(timeout=90)
        assert child.returncode == 3, err
        assert "slurmctld (ctl) does not answer: " in err
        assert "assay resume" in err
        before = user.run().index.seen()
        again = user.say("resume", "--json")
        assert json.loads(again.stdout)["answered"] == 1, again.stderr
        assert before <= user.run().index.seen()
        assert sh(lab, "ctl", "squeue -h -t PENDING,RUNNING") == ""
        assert {job.state for job in user.run().jobs()} == {"ended"}
    finally:
        lifecycle.down(lab.name)
