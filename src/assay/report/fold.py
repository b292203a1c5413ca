"""Many findings with one cause are one line: a silent node is said once, with the number of questions it left open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from assay.model import Finding, Status

_FEW = 3
_OPEN = (Status.UNKNOWN, Status.ERROR)


def by_cause(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings in order; more than three unknown for the same reason on the same nodes become one."""
    findings = list(findings)
    causes: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        causes.setdefault(_cause(finding), []).append(finding)
    for finding in findings:
        same = causes[_cause(finding)]
        if finding.status not in _OPEN or len(same) <= _FEW:
            yield finding
        elif finding is same[0]:
            yield msgspec.structs.replace(
                finding, check=f"{len(same)} checks", seen_nodes=None, evidence=_evidence(same)
            )


def _cause(finding: Finding) -> tuple[str, ...]:
    return finding.status.value, finding.subject, finding.reason, finding.message


def _evidence(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e for f in findings for e in f.evidence))[:4]
