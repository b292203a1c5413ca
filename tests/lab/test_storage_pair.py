"""`assay audit --load`: two nodes of a real Slurm cluster try what they share."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.lab import lifecycle
from assay.lab.control import Lab
from assay.lab.spec import Spec
from assay.run.store import Run
from on_lab import sh, started, until

pytestmark = pytest.mark.skipif(
    not os.environ.get("ASSAY_QUIET_MACHINE"),
    reason="two nodes that wait for each other miss their deadlines on a busy machine: set ASSAY_QUIET_MACHINE=1",
)

HOME = "/shared/home/alice"
ONLY = ("--only", "storage.pair.*", "--fail-on", "never")


@pytest.fixture(scope="module")
def cluster(own_name: str) -> Iterator[Lab]:
    """Three nodes and a spare; the third may pose."""
    up = started(Spec(name=f"{own_name}-pair", nodes=3))
    try:
        yield up
    finally:
        lifecycle.down(up.name)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HOME": str(tmp_path), "ASSAY_RUNS": str(tmp_path / "runs")}


def argv(lab: Lab, verb: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "assay", verb, f"lab:{lab.name}", *words]


def say(lab: Lab, env: dict[str, str], verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(lab, verb, *words), env=env, cwd=env["HOME"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=180,
    )  # fmt: skip


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str, str]]:
    judgement: dict[str, Any] = json.loads(done.stdout)
    return {f["check"]: (f["status"], f["subject"], f["message"]) for f in judgement["findings"]}


def left(lab: Lab) -> str:
    """What the trial left behind, in the directory and in the queue."""
    return "".join(sh(lab, node, f"ls -A {HOME}", "alice") for node in ("gpu01", "gpu03")) + sh(lab, "ctl", "squeue -h")


def test_two_nodes_of_a_sound_cluster_share_the_home(cluster: Lab, env: dict[str, str], tmp_path: Path) -> None:
    done = say(cluster, env, "audit", "--load", "--yes", "--json", *ONLY)
    found = verdicts(done)
    assert found.pop("storage.pair.import")[0] in ("pass", "warn")  # a bar for storage, not for a busy machine
    assert {name: (status, subject) for name, (status, subject, _) in found.items()} == dict.fromkeys(
        (f"storage.pair.{name}" for name in ("same-inode", "locks", "mkdir", "names", "visibility")),
        ("pass", "gpu[01,03]"),
    )
    assert f"{HOME}  (tmpfs of shared)" in done.stderr
    run = Run(next((tmp_path / "runs").iterdir()))
    assert [(job.method, job.state, job.nodes) for job in run.jobs()][-1] == ("srun", "ended", ("gpu01", "gpu03"))
    assert {raw.uid for _, raw in run.evidence(run.index.of_node("gpu01"))} == {1000}
    assert left(cluster) == ""


def test_a_plan_names_what_would_be_written_where(cluster: Lab, env: dict[str, str]) -> None:
    planned = say(cluster, env, "plan", "--load").stdout
    assert "effect   load: up to 16 MiB" in planned
    assert f"{HOME}  (tmpfs of shared)" in planned
    assert "load" not in say(cluster, env, "plan").stdout.split("plan id")[0]
    assert left(cluster) == ""


def test_nobody_to_ask_is_no_consent(cluster: Lab, env: dict[str, str], tmp_path: Path) -> None:
    done = say(cluster, env, "audit", "--load")
    assert done.returncode == 2
    assert "there is nobody to ask" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_audit_without_load_tries_nothing(cluster: Lab, env: dict[str, str]) -> None:
    judgement = json.loads(say(cluster, env, "audit", "--json", "--only", "time.*").stdout)
    assert not any("no two nodes tried" in why for why in judgement["unproven"])


def test_by_sbatch(cluster: Lab, env: dict[str, str], tmp_path: Path) -> None:
    sh(cluster, "login", "chmod 700 /usr/bin/srun")
    try:
        done = say(cluster, env, "audit", "--load", "--yes", "--json", *ONLY)
    finally:
        sh(cluster, "login", "chmod 755 /usr/bin/srun")
    assert verdicts(done)["storage.pair.same-inode"][0] == "pass"
    run = Run(next((tmp_path / "runs").iterdir()))
    assert {job.state for job in run.jobs()} == {"ended"}
    assert sh(cluster, "login", f"ls -A {HOME} ~/.assay-jobs", "alice").split() == [f"{HOME}:", ".assay-jobs",
        "/shared/home/alice/.assay-jobs:"]  # fmt: skip
    sh(cluster, "login", "rmdir ~/.assay-jobs", "alice")


@pytest.fixture(params=["srun", "sbatch"])
def method(request: pytest.FixtureRequest, cluster: Lab) -> Iterator[str]:
    """The only way in which jobs are taken."""
    if request.param == "sbatch":
        sh(cluster, "login", "chmod 700 /usr/bin/srun")
    yield request.param
    sh(cluster, "login", "chmod 755 /usr/bin/srun; rmdir ~alice/.assay-jobs 2>/dev/null || true")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_one_who_is_ended_leaves_nothing(cluster: Lab, env: dict[str, str], number: int, method: str) -> None:
    child = subprocess.Popen(
        argv(cluster, "audit", "--load", "--yes", *ONLY), env=env, cwd=env["HOME"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        sh(
            cluster,
            "gpu01",
            f"timeout 90 bash -c 'until ls -d {HOME}/.assay-pair-*/sync; do sleep 0.02; done'",
            "alice",
        )
    finally:
        child.send_signal(number)
        child.wait(60)
    until(lambda: left(cluster) in ("", ".assay-jobs.assay-jobs"), f"nothing left by {method}", 60)


def test_local_scratch_that_poses_as_shared_is_found(cluster: Lab, env: dict[str, str]) -> None:
    lifecycle.start_over(cluster.name, "local-scratch-posing-as-shared")
    done = say(cluster, env, "audit", "--load", "--yes", "--json", *ONLY)
    found = verdicts(done)
    status, subject, message = found.pop("storage.pair.same-inode")
    assert (status, subject) == ("fail", "gpu[01,03]")
    assert f"{HOME}: not shared: tmpfs of shared (inode" in message
    assert "tmpfs of scratch (inode" in message
    assert {status for status, _, _ in found.values()} == {"skip"}
    assert left(cluster) == ""
