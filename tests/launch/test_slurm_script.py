"""What Slurm is asked for: commands and scripts as kept in golden/, and which nodes they name."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import ConfigError
from assay.launch.config import load
from assay.launch.slurm_nodes import Choice, Cluster, aliases, choose
from assay.launch.slurm_script import Group, sbatch, srun
from assay.model import SlurmOptions, Target
from assay.slurm.gres import gres
from assay.slurm.node import SlurmNode, show_node
from assay.slurm.partition import SlurmPartition
from assay.slurm.state import node_state

GOLDEN = Path(__file__).parent / "golden"
NODES = Group(("gpu01", "gpu02", "gpu04"), "train", "gpu:h100:8")
PLAIN = SlurmOptions(account="lab1", qos="high", reservation="test", time="15", extra=("--constraint=ib&h100",))
PYXIS = SlurmOptions(
    container_image="registry.example#cuda:13.0",
    container_mounts="/etc/slurm:/etc/slurm:ro,/dev:/dev",
    container_writable=True,
)


def target(slurm: SlurmOptions) -> Target:
    return Target(name="c", kind="slurm", slurm=slurm)


def held(name: str, text: str) -> None:
    """Compare with a golden file; GOLDEN=1 writes it anew."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(("name", "options"), [("plain", PLAIN), ("pyxis", PYXIS)])
def test_srun_is_as_kept(name: str, options: SlurmOptions) -> None:
    held(
        f"{name}.srun", " \\\n    ".join(shlex.quote(word) for word in srun(target(options), NODES, "NAME", 30)) + "\n"
    )


@pytest.mark.parametrize(("name", "options"), [("plain", PLAIN), ("pyxis", PYXIS)])
def test_sbatch_is_as_kept(name: str, options: SlurmOptions) -> None:
    held(f"{name}.sbatch", sbatch(target(options), NODES, "NAME", b"print('hello')\n"))


def test_the_script_hands_its_program_to_srun(tmp_path: Path) -> None:
    (tmp_path / "srun").write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -B -\n")
    (tmp_path / "srun").chmod(0o755)
    program = b"import os\nprint('\\'\"$HOME`id`\\\\', 6 * 7)\n"
    script = sbatch(target(PLAIN), NODES, "NAME", program * 300)
    done = subprocess.run(["sh"], input=script, env={"PATH": f"{tmp_path}:/bin"}, capture_output=True, text=True)  # noqa: PLW1510
    assert done.stdout.splitlines() == ["'\"$HOME`id`\\ 42"] * 300, done.stderr


@pytest.mark.parametrize(
    "bad",
    [
        {"account": "-A x"}, {"account": "a b"}, {"partition": "--x"}, {"qos": "q\n#SBATCH --wrap=x"}, {"time": "soon"},
        {"extra": ["--comment=a b"]}, {"extra": ["rm"]}, {"extra": ["--x='"]}, {"container_image": "a\\b"},
        {"workdir": "/jobs/%j"}, {"workdir": "jobs"}, {"gres": "gpu:8 --x"}, {"method": "salloc"}, {"nodes": 3},
    ],
)  # fmt: skip
def test_options_that_slurm_would_take_for_something_else(
    bad: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (key, value), *_ = bad.items()
    text = f'[targets.c]\nkind = "slurm"\n[targets.c.slurm]\n{key} = {json.dumps(value)}\n'
    (tmp_path / "assay.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"targets\.c"):
        load(tmp_path)


@pytest.mark.parametrize("line", ['user = "me"', 'ssh_options = ["-v"]', 'via = ["-x"]', 'via = ["ssh", ""]'])
def test_ways_in_that_are_none(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / "assay.toml").write_text(f'[targets.c]\nkind = "slurm"\n{line}\n')
    with pytest.raises(ConfigError, match=r"targets\.c"):
        load(tmp_path)


# ---- nodes ----------------------------------------------------------------------------------------------------


def node(name: str, state: str = "IDLE", **more: object) -> SlurmNode:
    fields = {"gres": gres("gpu:h100:8(S:0-1),shard:32"), "partitions": ("train",), **more}
    return SlurmNode(name=name, state=node_state(state), **fields)  # type: ignore[arg-type]


def chosen(*nodes: SlurmNode, nodeset: str = "", wait: bool = False, strict: bool = False, **slurm: str) -> Choice:
    parts = (SlurmPartition(name="train", default=True), SlurmPartition(name="debug", default=False))
    wanted = Target(name="c", kind="slurm", nodes=nodeset, slurm=SlurmOptions(**slurm))  # type: ignore[arg-type]
    return choose(wanted, Cluster(nodes, parts), wait=wait, strict=strict)


def why(choice: Choice) -> dict[str, str]:
    return {left.nodes: left.why for left in choice.left_out}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("IDLE+DRAIN", "drained (IDLE+DRAIN): bad fan"), ("MIXED+DRAIN", "draining (MIXED+DRAIN): bad fan"),
        ("DOWN+NOT_RESPONDING", "down (DOWN+NOT_RESPONDING): bad fan"), ("IDLE*", "down (IDLE+NOT_RESPONDING): "),
        ("IDLE+CLOUD+POWERED_DOWN", "powered down (IDLE+CLOUD+POWERED_DOWN)"), ("idle~", "powered down ("),
        ("IDLE+MAINTENANCE+RESERVED", "reserved (IDLE+MAINTENANCE+RESERVED)"), ("FUTURE", "not in service (FUTURE): "),
        ("ALLOCATED", "busy: ALLOCATED"), ("MIXED+PLANNED", "busy: MIXED+PLANNED"), ("UNKNOWN", "not in service"),
        ("IDLE+REBOOT_ISSUED", "not in service"), ("IDLE+NEVER_HEARD_OF", ""), ("IDLE+COMPLETING", ""), ("idle-", ""),
    ],
)  # fmt: skip
def test_states_decide(state: str, words: str) -> None:
    found = chosen(node("a1", state, reason="bad fan"))
    assert found.nodes == (() if words else ("a1",))
    assert why(found).get("a1", "").startswith(words)


def test_waiting_takes_busy_nodes_in_a_job_of_their_own() -> None:
    found = chosen(node("a1"), node("a2", "ALLOCATED"), node("a3", "DOWN"), wait=True)
    assert [(group.nodes, group.wait) for group in found.groups] == [(("a1",), False), (("a2",), True)]
    assert "a3" in why(found)


def test_a_second_try_is_stricter() -> None:
    assert chosen(node("a1", "IDLE+COMPLETING"), strict=True).nodes == ()


def test_all_gpus_of_a_node_and_nothing_else() -> None:
    mig = node("a3", gres=gres("gpu:a100:6(S:0-1),gpu:1g.10gb:14(S:0-1)"))
    found = chosen(node("a1"), node("a2", gres=()), mig)
    assert {group.nodes: group.gres for group in found.groups} == {
        ("a1",): "gpu:h100:8", ("a2",): "", ("a3",): "gpu:a100:6,gpu:1g.10gb:14",
    }  # fmt: skip
    assert {group.gres for group in chosen(node("a1"), gres="none").groups} == {""}


def test_nodes_named_by_the_target_and_nodes_of_its_partition() -> None:
    other = node("b1", partitions=("debug",))
    spare = node("s1", partitions=())
    assert chosen(node("a1"), other, spare).nodes == ("a1",)
    assert why(chosen(node("a1"), other, spare)) == {"b1,s1": "not in partition train"}
    named = chosen(node("a1"), other, spare, nodeset="b1,s1,x9")
    assert [(g.nodes, g.partition) for g in named.groups] == [(("b1",), "debug")]
    assert why(named) == {"s1": "in no partition", "x9": "Slurm knows no node of this name"}
    both = chosen(node("a1"), other, partition="debug,train")
    assert {g.nodes: g.partition for g in both.groups} == {("a1",): "train", ("b1",): "debug"}


def test_reserved_nodes_are_taken_with_their_reservation() -> None:
    held_ = node("a1", "IDLE+RESERVED", reservation="repair")
    assert why(chosen(held_)) == {"a1": "reserved (IDLE+RESERVED) for repair"}
    assert chosen(held_, reservation="repair").nodes == ("a1",)
    assert chosen(held_, reservation="other").nodes == ()


def test_host_names_that_differ_from_node_names() -> None:
    text = (
        "NodeName=a1 NodeHostName=ip-10-0-0-1.example\n   State=IDLE\n\nNodeName=a2 NodeHostName=x\n   State=IDLE\n\n"
    )
    twice = "NodeName=a3 NodeHostName=x\n   State=IDLE\n\n"
    assert aliases(show_node(text + twice).nodes) == {"ip-10-0-0-1.example": "a1", "ip-10-0-0-1": "a1"}
