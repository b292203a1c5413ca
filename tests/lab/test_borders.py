"""Nobody learns from the lab what is wrong: not by importing it, not by reading what it keeps."""

import re
from pathlib import Path

from assay.lab.control import Lab
from assay.lab.scenarios import SCENARIOS
from assay.profiles import tomllib

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/assay"
OWN = {"lab"}
MAY_IMPORT = OWN | {"cli", "__main__"}
# where a lab keeps the state of its hardware, its settings and its sockets, and where hosts see them
KEPT = re.compile(r"/run/lab\b|/run/assay-lab|usr/lib/assay-lab|\bstate\.json|\bspec\.json|\bkernel-log\b")


def test_the_contract_names_every_package_but_the_command_line() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contract = next(c for c in linter["contracts"] if "assay.lab" in c.get("forbidden_modules", ()))
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name.removeprefix("assay.") for name in contract["source_modules"]} == modules - MAY_IMPORT - {"__init__"}


def test_nothing_outside_the_lab_reads_what_it_keeps() -> None:
    texts = {p: p.read_text() for p in SOURCE.rglob("*") if p.suffix in {".py", ".toml", ".sh"}}
    strangers = {path: text for path, text in texts.items() if path.relative_to(SOURCE).parts[0] not in OWN}
    assert len(strangers) > 100
    found = {str(path): match.group() for path, text in strangers.items() if (match := KEPT.search(text))}
    assert not found


def test_no_rule_knows_a_scenario_by_name() -> None:
    names = re.compile("|".join(name for name in SCENARIOS if "-" in name and name != "no-health-checks"))
    rules = [p for part in ("checks", "facts", "audit", "slurm", "profiles") for p in (SOURCE / part).rglob("*.*")]
    texts = {p: p.read_text() for p in rules if p.suffix in {".py", ".toml"}}
    assert not {str(path): match.group() for path, text in texts.items() if (match := names.search(text))}


def test_the_paths_are_those_that_a_lab_has() -> None:
    site = Lab("any").site
    for path in (site.control, site.host("gpu01").state):
        assert KEPT.search(str(path))
