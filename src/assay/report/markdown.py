"""The judgement as Markdown, for an issue or a wiki."""

from __future__ import annotations

from collections.abc import Iterator

from assay.audit.judgement import Judgement
from assay.model import Finding, Status
from assay.report.clean import one_line
from assay.report.fold import by_cause
from assay.report.words import GLYPHS, answered, request_text, tally, when


def render(judgement: Judgement) -> str:
    """Head, findings that need a person, folded lists of the rest, what was not looked at."""
    return "\n".join(_lines(judgement)) + "\n"


def _lines(judgement: Judgement) -> Iterator[str]:
    yield f"# Audit of {_text(judgement.target)}"
    yield ""
    if judgement.emulated:
        yield "**Emulated hardware: nothing here measures a real machine.**\n"
    yield f"{when(judgement.started)}, method {judgement.method}, run `{judgement.run}`:"
    yield f"{tally(judgement)} {answered(judgement)}."
    loud = [
        f for f in by_cause(judgement.findings) if f.status not in (Status.PASS, Status.SKIP) or f.reason == "denied"
    ]
    yield from _table("Findings", loud)
    yield from _table("Passed", [f for f in judgement.findings if f.status is Status.PASS], folded=True)
    skipped = [f for f in judgement.findings if f.status is Status.SKIP and f.reason not in ("denied", "not-asked")]
    yield from _table("Skipped", skipped, folded=True)
    if judgement.not_looked_at:
        yield "\n## Not looked at\n"
        yield from (f"- {_text(n.what)}: {_text(n.why)}" for n in judgement.not_looked_at)
    if text := request_text(judgement):
        yield "\n## To send to the provider\n"
        yield from (f"> {_text(line)}" for line in text.splitlines())


def _table(title: str, findings: list[Finding], *, folded: bool = False) -> Iterator[str]:
    if not findings:
        return
    yield f"\n<details><summary>{title} ({len(findings)})</summary>\n" if folded else f"\n## {title}\n"
    yield "| status | check | subject | message |"
    yield "|---|---|---|---|"
    for f in findings:
        yield f"| {GLYPHS[f.status]} {f.status.value} | `{f.check}` | {_text(f.subject)} | {_text(f.message)} |"
    if folded:
        yield "\n</details>"


def _text(text: str) -> str:
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join("\\" + c if c in "\\`*_[]|#" else c for c in safe)
