"""Texts that must stay true: man pages, completion, the README's commands."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def assay(*argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *argv], capture_output=True, text=True, check=False, env=env, timeout=60
    )


def test_man_pages_are_what_the_help_says(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("man", ROOT / "scripts" / "man.py")
    assert spec is not None
    assert spec.loader is not None
    man = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(man)
    man.write(tmp_path)
    fresh = {p.name: p.read_text() for p in tmp_path.glob("*.1")}
    kept = {p.name: p.read_text() for p in (ROOT / "man").glob("*.1")}
    assert fresh == kept, "run `make man`"


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "#compdef assay"), ("fish", "complete")])
def test_completion(shell: str, word: str) -> None:
    assert word in assay("completion", shell).stdout


def test_completion_offers_verbs(tmp_path: Path) -> None:
    env = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": "assay ex", "COMP_CWORD": "1", "HOME": str(tmp_path)}
    assert re.findall(r"plain,(\w+)", assay(env=env).stdout) == ["explain", "export"]


def test_every_verb_says_what_it_does() -> None:
    from assay.cli.verbs import VERBS

    for verb in VERBS:
        done = assay(verb, "--help")
        assert done.returncode == 0, done.stderr
        assert "Usage: assay " + verb in done.stdout


def test_the_readme_fits_one_screen_and_names_real_verbs() -> None:
    from assay.cli.verbs import VERBS

    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 45
    assert set(re.findall(r"^    assay (\w+)", text, re.MULTILINE)) <= set(VERBS)
    for check in re.findall(r"assay explain (\S+)", text):
        assert assay("explain", check).returncode == 0, check
