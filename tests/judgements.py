"""Judgements made to measure."""

from typing import Any

import msgspec

from assay.audit.judgement import Judgement, counts, coverage
from assay.model import Finding, Status

EVIDENCE = "ab" * 32
"""A whole id; findings hold its beginning."""


def finding(status: Status = Status.FAIL, **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "check": "os.release.uniform", "category": "orchestration", "criteria": (), "subject": "n1", "nodes": 1,
        "status": status, "severity": "medium", "message": "what was seen", "evidence": (EVIDENCE[:16],),
        "fix": "do this",
    }  # fmt: skip
    return Finding(**(fields | changes))


def judgement(*findings: Finding, **changes: Any) -> Judgement:
    fields: dict[str, Any] = {
        "run": "20261201T000000Z-lab-0000", "target": "lab", "kind": "ssh", "tool": "0.1.0", "method": "1.0",
        "method_date": "2026-12-01", "profiles": {"method.toml": "00"}, "emulated": False, "access": "own",
        "started": 1796083200.0, "exit_reason": "complete", "nodes": 1, "answered": 1, "identities": {}, "system": "",
        "inventory": [], "coverage": coverage(findings), "counts": counts(findings), "findings": findings,
        "unproven": [], "not_looked_at": [], "not_granted": [], "problems": [], "evidence": 1, "head": "00",
    }  # fmt: skip
    return msgspec.convert(fields | changes, Judgement)
