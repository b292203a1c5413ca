"""The report in a terminal: worst first, passes and skips folded, unknowns never."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from assay.audit.judgement import Judgement
from assay.model import Finding, Status
from assay.report.clean import one_line
from assay.report.fold import by_cause
from assay.report.words import ASCII_GLYPHS, GLYPHS, answered, plural, request_text, tally, when

Paint = Callable[[str, str], str]


def plain(text: str, _style: str) -> str:
    """No colour."""
    return text


def render(
    judgement: Judgement, *, width: int | None = None, verbose: int = 0, paint: Paint = plain, ascii_only: bool = False
) -> str:
    """The whole report. `width` wraps messages under their column; None leaves lines whole, as for a pipe."""
    glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
    findings = judgement.findings if verbose else by_cause(judgement.findings)
    shown = [f for f in findings if _shown(f, verbose)]
    lines = [*_head(judgement), ""]
    if judgement.emulated:
        lines.insert(0, paint("EMULATED hardware: nothing here measures a real machine", "warn"))
    column = min(max((len(f.check) for f in shown), default=0), 40)
    subjects = min(max((len(f.subject) for f in shown), default=0), 24) if judgement.nodes > 1 else 0
    for finding in shown:
        lines += _finding(finding, glyphs[finding.status], column, subjects, width, verbose, paint)
    lines += [*([""] if shown else []), *_tail(judgement, verbose, paint)]
    return "\n".join(lines) + "\n"


def _shown(finding: Finding, verbose: int) -> bool:
    quiet = Status.PASS if verbose < 1 else None
    return finding.status is not quiet and (
        finding.status is not Status.SKIP or verbose >= 1 or finding.reason == "denied"
    )


def _head(judgement: Judgement) -> Iterator[str]:
    system = f", {judgement.system}" if judgement.system else ""
    nodes = f"{plural(judgement.nodes, 'node')} ({judgement.kind})"
    yield f"{one_line(judgement.target)}: {nodes}{system}, {when(judgement.started)}"
    if judgement.exit_reason != "complete":
        yield f"The run is not complete ({judgement.exit_reason}); this is judged from what it has."
    for problem in judgement.problems:
        yield f"Damaged: {one_line(problem)}"


def _finding(  # noqa: PLR0913, PLR0917 - the columns of one row
    finding: Finding, glyph: str, column: int, subjects: int, width: int | None, verbose: int, paint: Paint
) -> Iterator[str]:
    status = finding.status.value
    left = f"  {glyph} {status:<7} {finding.check:<{column}}  "
    if subjects:
        left += f"{one_line(finding.subject):<{subjects}}  "
    message = one_line(finding.message)
    if finding.reason and finding.status in (Status.SKIP, Status.UNKNOWN):
        message = f"{message} ({finding.reason})"
    if finding.seen_nodes is not None and finding.seen_nodes != finding.expected_nodes:
        message += f" [{finding.seen_nodes} of {finding.expected_nodes} nodes]"
    rows = textwrap.wrap(message, max(width - len(left), 24)) if width else [message]
    yield paint(left[: 3 + len(glyph) + 8], status) + left[3 + len(glyph) + 8 :] + (rows or [""])[0]
    indent = " " * (len(left) if not width or width - len(left) >= 24 else 6)
    yield from (indent + row for row in rows[1:])
    if verbose >= 2:
        yield from _details(finding, " " * 12)


def _details(finding: Finding, indent: str) -> Iterator[str]:
    if finding.bar:
        yield f"{indent}bar       {one_line(finding.bar.value)} ({one_line(finding.bar.source)})"
    if finding.fix:
        yield f"{indent}fix       {one_line(finding.fix)}"
    if finding.evidence:
        yield f"{indent}evidence  {' '.join(e[:12] for e in finding.evidence)}"


def _tail(judgement: Judgement, verbose: int, paint: Paint) -> Iterator[str]:
    yield paint(f"{tally(judgement)} {answered(judgement)}", "bold")
    for reason in judgement.unproven:
        yield paint("No verdict: ", "unknown") + one_line(reason)
    if judgement.not_looked_at:
        gaps = judgement.not_looked_at if verbose else judgement.not_looked_at[:3]
        yield (
            "Not looked at: "
            + "; ".join(f"{one_line(n.what)} ({one_line(n.why)})" for n in gaps)
            + _more(len(judgement.not_looked_at) - len(gaps))
        )
    if judgement.not_granted:
        yield (
            "Not granted:   "
            + ", ".join(g.probe for g in judgement.not_granted)
            + " (wants root; text for the provider below)"
        )
        yield ""
        yield from (f"    {line}" for line in request_text(judgement).splitlines())
    yield ""
    yield from _next(judgement)


def _more(n: int) -> str:
    return f"; and {n} more (-v)" if n > 0 else ""


def _next(judgement: Judgement) -> Iterator[str]:
    worst = next((f for f in judgement.findings if f.status in (Status.FAIL, Status.WARN)), None)
    if worst:
        yield f"Why and how to fix:  assay explain {worst.check}"
        yield f"The evidence:        assay show {judgement.run} {worst.check}"
    yield f"A page to pass on:   assay report {judgement.run} -o report.html"
