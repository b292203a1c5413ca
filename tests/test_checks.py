"""Every check ships three recorded cases in tests/checks/<check>.json: pass, fail and missing.

A case is {"facts": {FactType: {field: value} or {"missing": kind}}} for a rule over one node, or
{"fleet": {node: {FactType: ...}}}; optional "status" and "message"; "at" is the clock the rule sees.
Further cases under any other name need a "status".
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.checks.engine import NodeFacts, judge
from assay.checks.registry import When, checks
from assay.facts.source import sources
from assay.model import Fact, Finding, Missing
from assay.profiles import Profiles

HERE = Path(__file__).parent / "checks"
FACTS = {s.fact.__name__: s.fact for s in sources().values()}
DEFAULT = {"pass": ("pass",), "fail": ("fail", "warn"), "missing": ("skip", "unknown")}
NOW = 1796083200.0  # 2026-12-01


def _fact(name: str, value: dict[str, Any]) -> Fact | Missing:
    if "missing" in value:
        return Missing(value["missing"], value.get("reason", "recorded"))
    return msgspec.convert(value, FACTS[name])


def node_facts(name: str, facts: dict[str, Any]) -> NodeFacts:
    return NodeFacts(name, {FACTS[k]: _fact(k, v) for k, v in facts.items()})


def findings(check: str, case: dict[str, Any]) -> list[Finding]:
    fleet = case.get("fleet") or {"n1": case["facts"]}
    nodes = [node_facts(name, facts) for name, facts in fleet.items()]
    return judge(nodes, [checks()[check]], Profiles(), When(case.get("at", NOW)))


CASES = [(p.stem, name, case) for p in sorted(HERE.glob("*.json")) for name, case in json.loads(p.read_text()).items()]


@pytest.mark.parametrize(("check", "name", "case"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_recorded_case(check: str, name: str, case: dict[str, Any]) -> None:
    got = findings(check, case)
    allowed = (case["status"],) if "status" in case else DEFAULT[name]
    assert got[0].status.value in allowed, got
    if "message" in case:
        assert case["message"] in got[0].message, got
    if name == "missing":
        assert "pass" not in {f.status.value for f in got}


@pytest.mark.parametrize("check", sorted(checks()))
def test_check_ships_its_three_cases(check: str) -> None:
    path = HERE / f"{check}.json"
    assert path.exists(), f"{check} has no recorded cases"
    assert {"pass", "fail", "missing"} <= set(json.loads(path.read_text()))
