"""Re-judge a run: raw evidence -> facts -> findings -> judgement. Reads only the run and the method."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from assay.audit.describe import fleet_words, node_identity, node_words
from assay.audit.gaps import UNREAD, by_reason, lost, said_missing, silent, untried
from assay.audit.grants import grants, refused
from assay.audit.inventory import inventory
from assay.audit.judgement import Judgement, NotLookedAt, Part, counts, coverage, to_json, unproven
from assay.audit.select import Selection, selected
from assay.checks.engine import NodeFacts, judge
from assay.checks.registry import Check, When, checks
from assay.errors import StoreError
from assay.facts.emulated import Emulated
from assay.facts.source import Source, parse, sources
from assay.model import CATEGORIES, SCHEDULER, Fact, Finding, Missing, RawFact
from assay.profiles import Profiles, shipped_names
from assay.profiles.criteria import Unserved
from assay.profiles.method import Method
from assay.run import chain
from assay.run.store import Run, write_whole

SHORT_ID = 16
"""Hexadecimal digits of an evidence id in findings: unique in a run, and every verb takes them."""
_EVERYTHING = Selection()
_ENVIRONMENTS = {"slurm": "slurm", "kubernetes": "k8s"}  # of targets; all others are hosts by themselves


class _Reading:
    """What is noted in passing while the nodes stream by."""

    def __init__(self) -> None:
        self.evidence = 0
        self.refused: dict[str, dict[str, tuple[str, ...]]] = {}
        self.identities: dict[str, str] = {}
        self.systems: Counter[str] = Counter()
        self.parts: dict[tuple[str, str], list[str]] = {}
        self.emulated = False


def judge_run(
    run: Run,
    profiles: Profiles,
    wanted: Selection = _EVERYTHING,
    fold: Callable[[list[str]], str] = ",".join,
) -> Judgement:
    """The judgement of everything in `run` under the method in `profiles`."""
    known = checks()
    chosen = selected(known, wanted, profiles.get(Method).without)
    reading = _Reading()
    answered = frozenset(run.index.nodes()) - {SCHEDULER}
    gaps = said_missing(run)
    mute = silent(run, answered, gaps)
    nodes = _nodes(run, sources(), reading, mute)
    findings = judge(nodes, chosen, profiles, When(run.info.started), fold)
    return Judgement(
        **_origin(run, profiles),
        emulated=run.info.emulated or reading.emulated,
        nodes=len(run.info.nodes),
        answered=len(answered),
        identities=reading.identities,
        system=fleet_words(reading.systems),
        inventory=tuple(Part(name, words, fold(nodes)) for (name, words), nodes in reading.parts.items()),
        coverage=coverage(findings),
        counts=counts(findings),
        findings=tuple(findings),
        unproven=(
            *_nobody(run),
            *untried(run),
            *lost(run, answered, chosen),
            *unproven(findings, frozenset(c.id for c in chosen if c.required), by_reason(mute | gaps, fold)),
        ),
        not_looked_at=(
            *_left_out(run),
            *_not_looked_at(known, wanted, by_reason(mute, fold), findings),
            *_unserved(run, profiles),
        ),
        not_granted=grants(reading.refused, findings, known, sources(), fold),
        evidence=reading.evidence,
    )


def _origin(run: Run, profiles: Profiles) -> dict[str, Any]:
    """What was judged, by which method, and whether the record of it is whole."""
    method = profiles.get(Method)
    return {
        "run": run.info.id,
        "target": run.info.target.name,
        "kind": run.info.target.kind,
        "access": run.info.target.access,
        "started": run.info.started,
        "tool": run.info.tool_version,
        "method": method.version,
        "method_date": method.date,
        "profiles": {name: hashlib.sha256(profiles.text(name).encode()).hexdigest()[:16] for name in shipped_names()},
        "exit_reason": run.exit_reason,
        "problems": tuple(run.problems()),
        "head": _head(run),
    }


def _head(run: Run) -> str:
    try:
        return chain.head(run.path)
    except StoreError:  # said in `problems`; the evidence is as good as it was
        return ""


def facts_of(
    node: str,
    answers: Iterable[tuple[str, RawFact]],
    known: Mapping[str, Source],
    planned: Mapping[type[Fact], Missing] = MappingProxyType({}),
) -> NodeFacts:
    """The facts in one node's raw answers, the newest of each probe; `planned` stands for what was not read."""
    newest = {raw.probe: (evidence, raw) for evidence, raw in answers}
    facts: dict[type[Fact], Fact | Missing] = dict(planned)
    ids: dict[type[Fact], str] = {}
    for probe, (evidence, raw) in newest.items():
        if source := known.get(probe):
            facts[source.fact] = parse(source, raw)
            ids[source.fact] = evidence[:SHORT_ID]
    return NodeFacts(node, facts, ids)


def _nodes(
    run: Run, known: Mapping[str, Source], reading: _Reading, silent: Mapping[str, Missing]
) -> Iterator[NodeFacts]:
    asked = [known[name] for name in run.info.probes if name in known]
    planned = {s.fact: UNREAD for s in asked if s.probe.place == "node"}
    of_scheduler = {s.fact: UNREAD for s in asked if s.probe.place == "scheduler"}
    for node, answers in run.nodes():
        facts = facts_of(node, answers, known, of_scheduler if node == SCHEDULER else planned)
        reading.evidence += len(answers)
        _note(reading, answers, facts, known)
        yield facts
    for node, gap in silent.items():
        yield NodeFacts(node, dict.fromkeys(planned, gap))


def _note(
    reading: _Reading,
    answers: Iterable[tuple[str, RawFact]],
    facts: NodeFacts,
    known: Mapping[str, Source],
) -> None:
    for _, raw in answers:
        if raw.probe in known and (paths := refused(known[raw.probe].probe, raw)):
            reading.refused.setdefault(raw.probe, {})[facts.node] = paths
    if facts.node == SCHEDULER:
        return
    reading.emulated = reading.emulated or isinstance(facts.facts.get(Emulated), Emulated)
    reading.systems[node_words(facts)] += 1
    for part in inventory(facts).items():
        reading.parts.setdefault(part, []).append(facts.node)
    if identity := node_identity(facts):
        reading.identities[facts.node] = identity


def _left_out(run: Run) -> Iterator[NotLookedAt]:
    for left in run.info.left_out:
        yield NotLookedAt(f"nodes {left.nodes}", left.why)


def _nobody(run: Run) -> Iterator[str]:
    if run.info.target.kind == "slurm" and not run.info.nodes:
        yield "no node could be looked at: " + "; ".join(f"{left.nodes} {left.why}" for left in run.info.left_out)


def _not_looked_at(
    known: Mapping[str, Check],
    wanted: Selection,
    silent: Mapping[str, Missing],
    findings: Iterable[Finding],
) -> Iterator[NotLookedAt]:
    for node, gap in silent.items():
        yield NotLookedAt(f"no answer: {node}", gap.reason)
    if left_out := len(known) - len(selected(known, wanted)):
        yield NotLookedAt(f"{left_out} of {len(known)} checks", "left out by --only, --skip or --category")
    have = {check.category for check in known.values()}
    if others := [category for category in CATEGORIES if category not in have]:
        yield NotLookedAt(", ".join(others), "judged from measurements, documents and interviews, not from a host")
    said = {finding.check for finding in findings}
    if unasked := [check.id for check in selected(known, wanted) if check.id not in said]:
        yield NotLookedAt(
            f"{len(unasked)} checks ({', '.join(unasked[:3])} ...)", "this run holds no evidence for them"
        )
    for finding in findings:
        if finding.reason == "not-asked":
            yield NotLookedAt(finding.check, finding.message)


def _unserved(run: Run, profiles: Profiles) -> Iterator[NotLookedAt]:
    environment = _ENVIRONMENTS.get(run.info.target.kind, "standalone")
    for entry in profiles.get(Unserved).unserved:
        if entry.environment == environment:
            yield NotLookedAt(f"{entry.what} ({', '.join(entry.criteria)})", entry.why)


def keep(run: Run, judgement: Judgement) -> None:
    """Store the judgement beside the evidence it was made from; it is derived and may be made again."""
    try:
        write_whole(run.path / "judgement.json", to_json(judgement))
    except OSError as e:
        raise StoreError(
            f"cannot keep the judgement in {run.path}: {e.strerror}", hint="assay judge RUN makes it again"
        ) from e
