"""assay.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import AssayError, ConfigError, UsageError
from assay.launch.config import check_name, find, load, user_profiles
from assay.model import Target


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own configuration directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "xdg/assay").mkdir(parents=True)
    (tmp_path / "project/deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project/deep/er")
    return tmp_path / "xdg/assay"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def test_nothing_configured() -> None:
    config = load()
    assert set(config.targets) == {"local", "slurm", "lab"}
    assert config.targets["local"] == Target(name="local")
    assert config.runs_directory is None
    assert find("local").kind == "local"


def test_nearest_file_up_the_tree_and_then_the_users_own(project: Path, own: Path) -> None:
    (own / "assay.toml").write_text('[targets.mine]\n[targets.lab]\npython = "python3.9"\n[runs]\ndirectory = "/own"\n')
    (project / "assay.toml").write_text(
        '[targets.lab]\nkind = "ssh"\nnodes = "gpu[01-02]"\nuser = "me"\nssh_options = ["-J", "b"]\ntimeout_s = 30\n'
    )
    config = load()
    assert set(config.targets) == {"local", "slurm", "mine", "lab"}
    assert config.targets["lab"] == Target(
        name="lab", kind="ssh", nodes="gpu[01-02]", user="me", ssh_options=("-J", "b"), timeout_s=30
    )
    assert config.runs_directory == Path("/own")
    assert config.origin == {
        "targets.local": "built in",
        "targets.slurm": "built in",
        "targets.mine": str(own / "assay.toml"),
        "targets.lab": str(project / "assay.toml"),
        "runs.directory": str(own / "assay.toml"),
    }
    (project / "deep/assay.toml").write_text('[runs]\ndirectory = "runs"\n')
    assert load().runs_directory == project / "deep/runs"
    assert load().targets["lab"].python == "python3.9", "the file further up is not read"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("targets = 1", "targets: must be a table"),
        ("[targets]\nlab = 1", "targets.lab"),
        ("[targets.lab]\nusr = 'x'", "targets.lab: Object contains unknown field `usr`"),
        ("[targets.lab]\nfanout = 'x'", "targets.lab: Expected `int`, got `str` - at `$.fanout`"),
        ("[targets.lab]\nfanout = 0", "targets.lab: fanout"),
        ("[targets.lab]\ntimeout_s = nan", "targets.lab: fanout"),
        ("[targets.lab]\ntimeout_s = inf", "targets.lab: fanout"),
        ("[targets.lab]\ntimeout_s = 1e300", "targets.lab: fanout"),
        ("[targets.lab]\nnodes = 'a,b'", "targets.lab.nodes: a local target"),
        ("[targets.lab]\nkind = 'ssh'\nnodes = ','", "targets.lab.nodes"),
        ("[runs]\ndirectory = '~nobody-of-this-name/x'", "runs.directory"),
        ("x = " + "[" * 9000, "assay.toml: "),
        ("[targets.lab]\nkind = 'telnet'", "targets.lab: Invalid enum value 'telnet'"),
        ("[targets.lab]\nkind = 'ssh'", "targets.lab.nodes"),
        ("[targets.lab]\nnodes = 'gpu[1-'", "targets.lab.nodes"),
        ("[targets.lab]\nname = 'other'", "targets.lab.name"),
        ("[targets.'a b']", "targets.a b"),
        ("[target.lab]", "target: no such table"),
        ("[runs]\ndir = 'x'", "runs: has one key"),
        ("[runs]\ndirectory = 1", "runs: has one key"),
        ("[targets.lab", "assay.toml: "),
        ("\xff\xfe", "assay.toml: "),
    ],
)
def test_mistakes_name_file_and_key(project: Path, text: str, words: str) -> None:
    (project / "assay.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load()
    assert words in caught.value.message
    assert str(project / "assay.toml") in caught.value.message


def test_a_file_that_others_can_write_is_refused(project: Path) -> None:
    (project / "assay.toml").write_text("")
    (project / "assay.toml").chmod(0o646)
    with pytest.raises(ConfigError, match="somebody else"):
        load()


@pytest.mark.parametrize(
    ("text", "user", "nodes"),
    [("me@gpu01", "me", "gpu01"), ("ssh:gpu[01-04]", "", "gpu[01-04]"), ("ssh:me@a,b", "me", "a,b")],
)
def test_targets_on_the_command_line(text: str, user: str, nodes: str) -> None:
    target = find(text)
    assert (target.kind, target.user, target.nodes) == ("ssh", user, nodes)


@pytest.mark.parametrize("text", ["gpu01", "me@", "ssh:", "ssh:-oProxyCommand=x", "me@gpu[1-", ""])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(AssayError):
        find(text)


def test_names() -> None:
    check_name("lab-1.a_b")
    for name in ("", "-x", "a b", "a/b"):
        with pytest.raises(UsageError):
            check_name(name)


def test_own_profiles(own: Path) -> None:
    assert user_profiles() == own / "profiles"


def test_a_working_directory_that_is_gone_holds_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find("local").kind == "local"
