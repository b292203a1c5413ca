"""However a lab ends, nothing of it is left; and one that cannot start says why."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from assay.errors import AssayError
from assay.lab import cgroups, lifecycle
from assay.lab.control import Lab
from assay.lab.spec import Spec
from lab.conftest import started

GONE_S = 20


@pytest.fixture
def name(own_name: str) -> Iterator[str]:
    yield f"{own_name}-x"
    lifecycle.down(f"{own_name}-x")


def left(name: str) -> list[str]:
    """Processes in the lab's mounts, its control groups, its directory, and mounts of this machine."""
    site = Lab(name).site
    found = [
        str(path)
        for path in (site.directory, *(cgroups.group(p, name) for p in cgroups.usable().values()))
        if path.exists()
    ]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mounts, command = (entry / "mountinfo").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"/{name}/private" in mounts or f"/assay-lab/{name}".encode() in command:
                found.append(f"{entry.name}: {command!r}")
    return found


def gone(name: str) -> list[str]:
    """What is still left when it should be gone."""
    end = time.monotonic() + GONE_S
    while (found := left(name)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def janitor_of(supervisor: int) -> int:
    status = Path(f"/proc/{supervisor}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def test_down_leaves_nothing(name: str) -> None:
    before = links()
    lab = started(Spec(name=name, nodes=1, accounting=False))
    assert left(name)
    lab.run("login", ["srun", "sleep", "0"], user="alice")
    assert lifecycle.down(name)
    assert left(name) == []
    assert links() == before
    assert not lifecycle.down(name)


def test_a_killed_supervisor_leaves_nothing(name: str) -> None:
    lab = started(Spec(name=name, nodes=1))
    supervisor = lab.supervisor()
    assert supervisor
    argv = [sys.executable, "-m", "assay.lab.enter", name, "gpu01", "root", "sh", "-c", "echo in; sleep 100"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as inside:
        assert inside.stdout
        assert inside.stdout.readline() == b"in\n"
        os.kill(supervisor, signal.SIGKILL)
        assert gone(name) == []
        assert inside.wait(10) == 128 + signal.SIGKILL


def test_a_killed_janitor_is_made_good_by_down(name: str) -> None:
    supervisor = started(Spec(name=name, nodes=1)).supervisor()
    assert supervisor
    os.kill(janitor_of(supervisor), signal.SIGKILL)
    assert lifecycle.down(name)
    assert gone(name) == []


def test_a_supervisor_and_a_janitor_killed_at_once_are_made_good_by_up(name: str) -> None:
    supervisor = started(Spec(name=name, nodes=1)).supervisor()
    assert supervisor
    for pid in (janitor_of(supervisor), supervisor):
        os.kill(pid, signal.SIGKILL)
    until_free = time.monotonic() + GONE_S
    while Lab(name).supervisor() and time.monotonic() < until_free:
        time.sleep(0.05)
    assert started(Spec(name=name, nodes=1)).run("gpu01", ["hostname"]).stdout == "gpu01\n"


def test_an_up_that_is_killed_on_the_way_leaves_nothing(name: str) -> None:
    started(Spec(name=name, nodes=1))  # packages are here now
    lifecycle.down(name)
    with subprocess.Popen(
        [sys.executable, "-m", "assay", "lab", "up", "--name", name, "--nodes", "20"], stderr=subprocess.DEVNULL
    ) as up:
        end = time.monotonic() + GONE_S
        while not Lab(name).supervisor() and time.monotonic() < end:
            time.sleep(0.01)
        up.kill()
    assert gone(name) == []


def test_a_lab_that_cannot_start_says_why_and_leaves_nothing(name: str) -> None:
    impossible = msgspec.structs.replace(Spec(name=name, nodes=1), uptime_s=-(10**9))
    with pytest.raises(AssayError, match="did not start: ctl did not start") as error:
        started(impossible)
    assert "timens_offsets" in error.value.hint or "Numerical result out of range" in error.value.hint
    assert gone(name) == []


def test_with_accounting_every_job_names_its_account(name: str) -> None:
    lab = started(Spec(name=name, nodes=1, accounting=True))

    def run(user: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return lab.run("login", ["srun", *argv, "hostname"], user=user)

    assert run("alice", "--account=research").stdout == "gpu01\n"
    assert "name the account" in run("alice").stderr
    assert "Invalid account" in run("alice", "--account=acme").stderr
    assert run("bob", "-A", "acme").returncode == 0
    assert lab.run("login", ["cat", "/etc/slurmdbd/slurmdbd.conf"]).returncode != 0
    end = time.monotonic() + GONE_S  # records are written every few seconds
    while "COMPLETED" not in lab.run("login", ["sacct", "-P", "-a"]).stdout:
        assert time.monotonic() < end
        time.sleep(0.5)
