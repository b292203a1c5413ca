"""What an audit says: findings, coverage and what was not looked at. The JSON of `assay audit` and `assay judge`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.model import CATEGORIES, SEVERITIES, Category, Finding, Missing, Status

NOT_APPLICABLE = frozenset({"not-applicable", "absent"})


class Coverage(Struct, frozen=True):
    """Questions that apply in one category, one per check and node (or fleet), and how they ended."""

    judged: int = 0
    unknown: int = 0
    denied: int = 0
    not_asked: int = 0
    total: int = 0
    not_applicable: int = 0


class NotLookedAt(Struct, frozen=True):
    """Something this run says nothing about, and why."""

    what: str
    why: str


class Grant(Struct, frozen=True):
    """Evidence that was refused: the probe, on which nodes, why it wants the right, and what it would read."""

    probe: str
    why: str
    subject: str
    reads: tuple[str, ...]


class Part(Struct, frozen=True):
    """One part of the machines, what was seen of it, and on which nodes."""

    name: str
    words: str
    subject: str


class Judgement(Struct, frozen=True, kw_only=True):
    """A run judged by one method."""

    run: str
    target: str
    kind: str
    tool: str
    method: str
    method_date: str
    profiles: dict[str, str]
    emulated: bool
    access: str
    started: float
    exit_reason: str
    nodes: int
    answered: int
    identities: dict[str, str]
    system: str
    inventory: tuple[Part, ...]
    coverage: dict[Category, Coverage]
    counts: dict[str, int]
    findings: tuple[Finding, ...]
    unproven: tuple[str, ...]
    not_looked_at: tuple[NotLookedAt, ...]
    not_granted: tuple[Grant, ...]
    problems: tuple[str, ...]
    evidence: int
    head: str


def coverage(findings: Iterable[Finding]) -> dict[Category, Coverage]:
    """Coverage of each of the ten categories."""
    tally: dict[str, Counter[str]] = {name: Counter() for name in CATEGORIES}
    for finding in findings:
        tally[finding.category][_kind(finding)] += finding.nodes if finding.seen_nodes is None else 1
    return {
        name: Coverage(
            judged=t["judged"],
            unknown=t["unknown"],
            denied=t["denied"],
            not_asked=t["not-asked"],
            total=t["judged"] + t["unknown"] + t["denied"] + t["not-asked"],
            not_applicable=t["n/a"],
        )
        for name, t in zip(CATEGORIES, tally.values(), strict=True)
    }


def _kind(finding: Finding) -> str:
    if finding.status.judged:
        return "judged"
    if finding.status is Status.SKIP:
        return "n/a" if finding.reason in NOT_APPLICABLE else finding.reason
    return "unknown"


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """Findings by status, every status named."""
    tally = Counter(f.status.value for f in findings)
    return {status.value: tally[status.value] for status in Status}


def exit_code(judgement: Judgement, fail_on: str) -> int:
    """0 nothing at or above `fail_on` (fail, warn, never); 1 findings; 2 our own error; 3 no verdict."""
    seen = {status for status, n in judgement.counts.items() if n}
    if fail_on != "never" and seen & ({"fail"} if fail_on == "fail" else {"fail", "warn"}):
        return 1
    if "error" in seen:
        return 2
    return 3 if judgement.unproven else 0


def unproven(
    findings: Iterable[Finding], required: frozenset[str], unreachable: Mapping[str, Missing]
) -> tuple[str, ...]:
    """Why there is no verdict: nodes that did not answer, required checks without one, or nothing judged at all."""
    findings = list(findings)
    reasons = [f"{node}: {gap.reason}" for node, gap in unreachable.items()]
    reasons += [
        f"{f.check} on {f.subject}: {f.message}"
        for f in findings
        if f.check in required and _kind(f) in ("unknown", "denied", "not-asked")
    ]
    if not any(f.status.judged for f in findings):
        reasons.append("not one check could be judged")
    return tuple(reasons)


def to_json(value: Any) -> bytes:
    """A judgement, or anything else made of evidence, as JSON: free of NaN and of half characters."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a tool's own JSON may hold lone surrogates
        text = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return msgspec.json.format(text, indent=1)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(part) for name, part in value.items()}
    return [_encodable(part) for part in value] if isinstance(value, (list, tuple)) else value


def from_json(text: bytes) -> Judgement:
    """The judgement of a `to_json` text."""
    return msgspec.json.decode(text, type=Judgement)


def severity_rank(finding: Finding) -> int:
    """0 = gravest."""
    return SEVERITIES.index(finding.severity)


def schema() -> dict[str, Any]:
    """JSON Schema of a judgement."""
    return msgspec.json.schema(Judgement)
