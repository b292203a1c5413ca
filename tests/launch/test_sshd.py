"""The system's own ssh against a real sshd on the loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.launch.collect import Hello, NodeDone, collect
from assay.model import Exec, Probe, RawFact, Target
from on_node import gone, pid_in

SSHD = "/usr/sbin/sshd"
PROBES = [Probe("p", (Exec("x", ("uname", "-s")),))]
pytestmark = pytest.mark.skipif(
    not (Path(SSHD).exists() and shutil.which("ssh") and shutil.which("ssh-keygen")), reason="no sshd on this machine"
)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _keys(directory: Path, name: str) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    return (directory / f"{name}.pub").read_text()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """This machine as a node reached by ssh."""
    directory, port = tmp_path_factory.mktemp("sshd"), _free_port()
    host_key, key = _keys(directory, "host"), _keys(directory, "me")
    (directory / "authorized").write_text(key)
    (directory / "known").write_text(f"[127.0.0.1]:{port} {host_key}")
    (directory / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd wants to lock itself in
    with subprocess.Popen([SSHD, "-D", "-e", "-f", directory / "config"], stderr=subprocess.DEVNULL) as sshd:
        try:
            _wait_for(port)
            yield Target(
                kind="ssh", nodes="127.0.0.1", user=getpass.getuser(), python=sys.executable, timeout_s=10,
                ssh_options=(
                    "-F", "none", "-p", str(port), "-i", str(directory / "me"), "-o", "IdentitiesOnly=yes",
                    "-o", f"UserKnownHostsFile={directory}/known", "-o", "GlobalKnownHostsFile=none",
                ),
            )  # fmt: skip
        finally:
            sshd.terminate()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 4
    while time.monotonic() < until:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.skip("sshd does not start here")


def test_collect(target: Target) -> None:
    said = list(collect(target, ["127.0.0.1"], PROBES))
    done = said[-1]
    assert isinstance(done, NodeDone)
    assert done.ok, done
    assert isinstance(said[0], Hello)
    assert [a.out("x") for a in said if isinstance(a, RawFact)] == ["Linux\n"]


def test_login_refused(target: Target, tmp_path: Path) -> None:
    _keys(tmp_path, "other")
    options = tuple(str(tmp_path / "other") if o.endswith("/me") else o for o in target.ssh_options)
    *_, done = collect(_with(target, options), ["127.0.0.1"], PROBES)
    assert isinstance(done, NodeDone)
    assert done.missing
    assert done.missing.kind == "denied"
    assert "login refused" in done.missing.reason


def test_host_key_unknown(target: Target) -> None:
    options = tuple("UserKnownHostsFile=none" if "/known" in o else o for o in target.ssh_options)
    *_, done = collect(_with(target, options), ["127.0.0.1"], PROBES)
    assert isinstance(done, NodeDone)
    assert done.missing
    assert (done.missing.kind, "host key is not trusted" in done.missing.reason) == ("unreachable", True)


def test_nobody_listens(target: Target) -> None:
    options = tuple(str(_free_port()) if o.isdigit() else o for o in target.ssh_options)
    *_, done = collect(_with(target, options), ["127.0.0.1"], PROBES)
    assert isinstance(done, NodeDone)
    assert done.missing
    assert (done.missing.kind, "Connection refused" in done.missing.reason) == ("unreachable", True)


def test_losing_the_connection_ends_what_runs_there(target: Target, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    tool.chmod(0o755)
    said = collect(target, ["127.0.0.1"], [Probe("p", (Exec("x", (str(tool),), timeout_s=60),), timeout_s=60)])
    assert isinstance(next(said), Hello)
    pid = pid_in(tmp_path / "pid")
    said.close()
    assert gone(pid)


def _with(target: Target, options: tuple[str, ...]) -> Target:
    return Target(
        kind="ssh", nodes=target.nodes, user=target.user, python=target.python, timeout_s=10, ssh_options=options
    )
