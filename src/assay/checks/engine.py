"""Runs the rules over nodes as they stream in and folds equal verdicts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.registry import Check, Fleet, When
from assay.checks.verdict import missing
from assay.model import WORST_FIRST, Fact, Finding, Missing, Status, Verdict
from assay.profiles import Profiles

EVIDENCE_LIMIT = 16
_ABSENT = Missing("not-asked", "no source was asked for it")


class NodeFacts(Struct, frozen=True):
    """What is known of one node: fact or Missing by type, and the evidence id each came from."""

    node: str
    facts: Mapping[type[Fact], Fact | Missing]
    evidence: Mapping[type[Fact], str] = msgspec.field(default_factory=dict)


class _Group:
    """Nodes that got the same verdict from the same rule."""

    __slots__ = ("evidence", "nodes", "verdict")

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.nodes: list[str] = []
        self.evidence: list[str] = []

    def add(self, node: str, evidence: Iterable[str]) -> None:
        self.nodes.append(node)
        if len(self.evidence) < EVIDENCE_LIMIT:
            self.evidence.extend(e for e in evidence if e not in self.evidence)


def judge(
    nodes: Iterable[NodeFacts],
    rules: Iterable[Check],
    profiles: Profiles,
    when: When,
    fold: Callable[[list[str]], str] = ",".join,
) -> list[Finding]:
    """Every rule's findings over every node, worst first. `fold` writes a list of nodes as one subject.

    A rule is asked only of nodes that were asked for one of its facts: a scheduler has no disks, a node no queue. A
    rule that reads no fact (it looks at the method itself) is asked once.
    """
    rules = list(rules)
    per_node = [r for r in rules if r.scope == "node" and r.needs]
    fleet = [r for r in rules if r.scope == "fleet"]
    wanted = dict.fromkeys(kind for r in fleet for kind in r.needs)
    fixed = {r.id: _fixed(r, profiles, when) for r in rules}
    groups: dict[str, dict[tuple[Any, ...], _Group]] = {r.id: {} for r in per_node}
    kept: dict[type[Fact], dict[str, Fact | Missing]] = {t: {} for t in wanted}
    sources: dict[type[Fact], list[str]] = {t: [] for t in wanted}
    for facts in nodes:
        for rule in per_node:
            if any(kind in facts.facts for kind in rule.needs):
                _add(groups[rule.id], rule, facts, _node_verdict(rule, facts, fixed[rule.id]))
        for kind in wanted:
            if kind in facts.facts:
                kept[kind][facts.node] = facts.facts[kind]
            if kind in facts.evidence:
                sources[kind].append(facts.evidence[kind])
    findings = [_finding(r, g, fold) for r in per_node for g in groups[r.id].values()]
    findings += [_build(r, _ask(r, list(fixed[r.id].values())), "this run", 1, ()) for r in rules if not r.needs]
    asked = (r for r in fleet if any(kept[kind] for kind in r.needs))
    findings += [_fleet_finding(r, kept, sources, fixed[r.id], fold) for r in asked]
    return sorted(findings, key=_worst_first)


def _worst_first(finding: Finding) -> tuple[int, int, str, str]:
    severity = ("critical", "high", "medium", "low").index(finding.severity)
    return WORST_FIRST.index(finding.status), severity, finding.check, finding.subject


def _fixed(rule: Check, profiles: Profiles, when: When) -> dict[int, Any]:
    """The arguments of a rule that are the same for all nodes, by position."""
    return {
        i: when if p.kind == "when" else profiles.get(p.type)
        for i, p in enumerate(rule.parameters)
        if p.kind in ("when", "profile")
    }


def _node_verdict(rule: Check, node: NodeFacts, fixed: dict[int, Any]) -> Verdict:
    arguments: list[Any] = []
    gap: Missing | None = None
    for i, parameter in enumerate(rule.parameters):
        if i in fixed:
            arguments.append(fixed[i])
            continue
        fact = node.facts.get(parameter.type, _ABSENT)
        if type(fact) is Missing and parameter.kind == "fact" and (gap is None or gap.status is Status.SKIP):
            gap = fact
        arguments.append(fact)
    return missing(gap) if gap else _ask(rule, arguments)


def _ask(rule: Check, arguments: list[Any]) -> Verdict:
    try:
        verdict = rule.rule(*arguments)
    except Exception as e:  # noqa: BLE001 - a rule that breaks is our fault and must not hide the other verdicts
        return Verdict(Status.ERROR, f"the rule broke: {type(e).__name__}: {e}"[:300], "bug")
    return verdict


def _add(groups: dict[tuple[Any, ...], _Group], rule: Check, node: NodeFacts, verdict: Verdict) -> None:
    key = (verdict.status, verdict.reason, verdict.message)
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group(verdict)
    group.add(node.node, (node.evidence[t] for t in rule.needs if t in node.evidence))


def _finding(rule: Check, group: _Group, fold: Callable[[list[str]], str]) -> Finding:
    return _build(rule, group.verdict, fold(group.nodes), len(group.nodes), tuple(group.evidence[:EVIDENCE_LIMIT]))


def _fleet_finding(
    rule: Check,
    kept: Mapping[type[Fact], Mapping[str, Fact | Missing]],
    sources: Mapping[type[Fact], list[str]],
    fixed: dict[int, Any],
    fold: Callable[[list[str]], str],
) -> Finding:
    arguments: list[Any] = []
    gap: Missing | None = None
    nodes = list(dict.fromkeys(n for kind in rule.needs for n in kept[kind]))
    seen = len(nodes)
    for i, parameter in enumerate(rule.parameters):
        if i in fixed:
            arguments.append(fixed[i])
            continue
        facts = kept[parameter.type]
        there = {n: f for n, f in facts.items() if not isinstance(f, Missing)}
        gaps = {n: f for n, f in facts.items() if isinstance(f, Missing)}
        seen = min(seen, len(there))
        if not there:
            gap = max(gaps.values(), key=lambda m: m.status is Status.UNKNOWN, default=_ABSENT)
        arguments.append(Fleet(there, gaps))
    verdict = missing(gap) if gap else _ask(rule, arguments)
    evidence = tuple(e for kind in rule.needs for e in sources[kind])[:EVIDENCE_LIMIT]
    finding = _build(rule, verdict, fold(nodes), len(nodes), evidence)
    return msgspec.structs.replace(finding, seen_nodes=seen, expected_nodes=len(nodes))


def _build(rule: Check, verdict: Verdict, subject: str, nodes: int, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        check=rule.id,
        category=rule.category,
        criteria=rule.criteria,
        subject=subject,
        nodes=nodes,
        status=verdict.status,
        severity=rule.severity,
        message=verdict.message,
        reason=verdict.reason,
        seen=verdict.seen,
        expected=verdict.expected,
        bar=verdict.bar,
        evidence=evidence,
        fix=rule.fix if verdict.status in (Status.FAIL, Status.WARN) else "",
    )
