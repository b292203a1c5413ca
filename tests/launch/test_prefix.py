"""The command that reaches a node: what a shell or ssh could misread never gets into it."""

from __future__ import annotations

import sys

import pytest

from assay.errors import ConfigError, LaunchError
from assay.launch.prefix import prefix
from assay.model import Target


def ssh(**kwargs: object) -> Target:
    return Target(kind="ssh", nodes="n", **kwargs)  # type: ignore[arg-type]


def test_local() -> None:
    assert prefix(Target(), "here") == (sys.executable, "-I", "-S", "-B", "-")
    assert prefix(Target(python="python3.9"), "here")[0] == "python3.9"
    assert prefix(Target(sudo=True), "here")[:3] == ("sudo", "-n", sys.executable)


def test_ssh() -> None:
    argv = prefix(ssh(user="me", ssh_options=("-J", "bastion")), "gpu01")
    assert argv[0] == "ssh"
    assert "BatchMode=yes" in argv
    assert argv[-5:] == ("-J", "bastion", "--", "me@gpu01", "python3 -I -S -B -")
    assert prefix(ssh(sudo=True), "gpu01")[-2:] == ("gpu01", "sudo -n python3 -I -S -B -")
    assert prefix(ssh(), "fe80::1%eth0")[-2] == "fe80::1%eth0"


@pytest.mark.parametrize("node", ["-oX=y", "", "a b", "a;b", "$(x)", "a\nb", "a@b", "'a'", "a/b", "\N{SNOWMAN}"])
def test_odd_nodes_are_refused(node: str) -> None:
    with pytest.raises(ConfigError):
        prefix(ssh(), node)


@pytest.mark.parametrize("python", ["-c", "python3; x", "python3 -c", "$HOME/py", "a'b", "", "a\nb", "~/python", "a|b"])
def test_odd_pythons_are_refused(python: str) -> None:
    with pytest.raises(ConfigError):
        prefix(ssh(python=python), "gpu01")


@pytest.mark.parametrize("user", ["-l", "a b", "a;b", "$(x)"])
def test_odd_users_are_refused(user: str) -> None:
    with pytest.raises(ConfigError):
        prefix(ssh(user=user), "gpu01")


def test_other_targets_have_no_prefix() -> None:
    with pytest.raises(LaunchError):
        prefix(Target(kind="kubernetes"), "gpu01")
