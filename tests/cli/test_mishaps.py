"""What was lost, closed or mistyped is said, and never ends as if all were well."""

import json
import os
from pathlib import Path

import pytest

from assay.audit.judge import judge_run
from assay.audit.judgement import exit_code, to_json
from assay.audit.plan import make_plan
from assay.audit.select import Selection
from assay.cli.target import method_profiles
from assay.cli.where import run_paths
from assay.errors import ConfigError, LaunchError, NoVerdict, UsageError
from assay.launch.nodes import folder
from assay.model import Missing, RawFact, Read, RunInfo, Target
from assay.profiles import Profiles, decode, shipped_names
from assay.profiles.host import Host
from assay.profiles.method import Method
from assay.run.record import Answered
from assay.run.store import Run

NODES = ("n1", "n2", "n3")
ONLY = Selection(only=("os.release.uniform",))


def release(node: str, text: str = "ID=debian") -> RawFact:
    return RawFact("os.release", node, (Read("release", files={"/etc/os-release": text}),), at=1796083200.0)


def recorded(directory: Path, *facts: RawFact, missing: tuple[Answered, ...] = (), end: str = "complete") -> Run:
    info = RunInfo(
        id="r1", target=Target(name="x", kind="ssh", nodes="n[1-3]"), started=1796083200.0, tool_version="0",
        method="1", nodes=NODES, probes=("os.release",),
    )  # fmt: skip
    run = Run.create(directory, info)
    with run.writer("audit", "0") as writer:
        for fact in facts:
            writer.fact(fact)
        for answer in missing:
            writer.answered(answer)
        writer.finish(end)
    run.refresh()
    return run


def judged(run: Run) -> tuple[int, str]:
    judgement = judge_run(run, Profiles(), ONLY, folder("ssh"))
    return exit_code(judgement, "fail"), " | ".join((*judgement.unproven, *(n.what for n in judgement.not_looked_at)))


def test_a_whole_run_is_judged(tmp_path: Path) -> None:
    assert judged(recorded(tmp_path, *map(release, NODES)))[0] == 0


def test_nodes_that_an_interrupted_run_never_reached_leave_no_verdict(tmp_path: Path) -> None:
    code, words = judged(recorded(tmp_path, release("n1"), end="interrupted"))
    assert code == 3
    assert "n2,n3: the run ended before it was read" in words
    assert "no answer: n2,n3" in words


def test_answers_cut_off_leave_no_verdict(tmp_path: Path) -> None:
    run = recorded(tmp_path, *map(release, NODES))
    segment = next((run.path / "segments").iterdir())
    whole = segment.read_bytes()
    seen = set()
    for cut in range(0, len(whole), 7):
        segment.write_bytes(whole[:cut])
        (run.path / "index.sqlite").unlink(missing_ok=True)
        seen.add(judged(Run(run.path))[0])
    assert seen == {3}


def test_evidence_changed_after_it_was_sealed_leaves_no_verdict(tmp_path: Path) -> None:
    run = recorded(tmp_path, *map(release, NODES))
    segment = next((run.path / "segments").iterdir())
    segment.write_bytes(segment.read_bytes().replace(b'"verb":"audit"', b'"verb":"other"'))
    code, words = judged(Run(run.path))
    assert (code, "not as it was sealed" in words) == (3, True)


def test_a_thousand_silent_nodes_are_one_line(tmp_path: Path) -> None:
    gap = Missing("unreachable", "ssh cannot connect")
    silent = tuple(Answered(f"n{i}", 0.0, gap) for i in range(1000))
    judgement = judge_run(recorded(tmp_path, missing=silent), Profiles(), fold=folder("ssh"))
    assert len([f for f in judgement.findings if f.check == "os.release.uniform"]) == 1
    assert len(judgement.unproven) < 10
    assert len(to_json(judgement)) < 1_000_000


def test_lone_surrogates_do_not_cost_the_report() -> None:
    assert json.loads(to_json({"a\ud800": ["\udfff", {"b": ("\ud800",)}], "n": float("nan")})) == {
        "a?": ["?", {"b": ["?"]}], "n": None,
    }  # fmt: skip


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_run_that_is_closed_to_us_hides_no_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "b").chmod(0)
    tmp_path.chmod(0o755)
    for directory in tmp_path.parents:
        if directory.stat().st_uid == os.getuid() and not directory.stat().st_mode & 1:
            pytest.skip("the test's own directory is closed to others")
    os.seteuid(65534)
    try:
        assert [p.name for p in run_paths(tmp_path)] == ["a"]
    finally:
        os.seteuid(0)


def test_a_method_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no profile"):
        method_profiles(str(tmp_path))
    (tmp_path / "minimum_versions.toml").symlink_to("/nowhere")
    with pytest.raises(ConfigError, match="cannot read"):
        method_profiles(str(tmp_path)).text("minimum_versions.toml")


@pytest.mark.parametrize("name", [n for n in shipped_names() if n not in ("criteria.toml", "unserved.toml")])
@pytest.mark.parametrize("text", ["", "garbage[", "x = 1", "x = " + "[" * 9000])
def test_a_spoilt_profile_ends_an_audit_before_it_begins(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(NoVerdict, match=name):
        make_plan(Target(name="local"), Selection(), Profiles(tmp_path))


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
def test_a_bar_is_a_number(number: str) -> None:
    with pytest.raises(ConfigError, match="is no bar"):
        decode(Host, f"x = {number}", Host.file)
    with pytest.raises(ConfigError, match="is no bar"):
        decode(Method, f"version = 'x'\ndate = 'x'\nwithout = [{number}]", Method.file)


@pytest.mark.parametrize("kind", ["kubernetes", "replay"])
def test_a_target_that_cannot_be_reached_begins_no_run(kind: str) -> None:
    with pytest.raises(LaunchError):
        make_plan(Target(name="x", kind=kind, nodes="a"), Selection(), Profiles())  # type: ignore[arg-type]


def test_an_endless_glob_is_refused() -> None:
    with pytest.raises(UsageError, match="longer than any"):
        make_plan(Target(name="local"), Selection(only=("[a" * 20_000,)), Profiles())
