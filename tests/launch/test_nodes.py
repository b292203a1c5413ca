"""Node sets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.errors import UsageError
from assay.launch.nodes import describe, expand, fold, folder


def test_expand() -> None:
    assert expand("gpu[01-03],login1") == ["gpu01", "gpu02", "gpu03", "login1"]
    assert expand("a, b,,a") == ["a", "b"]
    assert expand("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand("gpu[1,3,5-6]") == ["gpu1", "gpu3", "gpu5", "gpu6"]
    assert expand("") == []
    assert expand("fe80::1,node.example.org") == ["fe80::1", "node.example.org"]


@pytest.mark.parametrize(
    "text", ["gpu[1-", "gpu[x-y]", "a b", "-x", "a;b", "gpu[1-2];x", "@group[1-2]", "gpu[1-999999999]"]
)
def test_what_is_no_node_set(text: str) -> None:
    with pytest.raises(UsageError):
        expand(text)


def test_fold() -> None:
    assert fold(["gpu01", "gpu02"]) == "gpu[01-02]"
    assert fold(["gpu01", "login", "gpu02"]) == "gpu[01-02],login"
    assert fold(["one"]) == "one"
    assert fold([]) == ""
    assert fold(["odd name", "b"]) == "odd name,b"


def test_describe() -> None:
    names = [f"gpu{n:02}" for n in range(1, 11)]
    assert describe(names, "slurm") == "gpu[01-10]"
    assert describe(names, "ssh") == "10 nodes: gpu01,gpu02,gpu03,gpu04,gpu05,gpu06,gpu07,gpu08,..."
    assert describe(names[:8], "ssh") == "gpu01,gpu02,gpu03,gpu04,gpu05,gpu06,gpu07,gpu08"
    assert folder("slurm")(names) == "gpu[01-10]"


def test_plain_names_do_not_load_clustershell() -> None:
    program = (
        "import sys; from assay.launch.nodes import *; expand('a,b'); fold(['a']); describe(['a', 'b'], 'ssh');"
        "sys.exit('ClusterShell' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
