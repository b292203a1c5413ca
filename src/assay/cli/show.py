"""`assay show`."""

from __future__ import annotations

import click

from assay.audit import judge as judging
from assay.audit.judgement import Judgement, to_json
from assay.cli.output import json_option, say_json
from assay.cli.target import method_profiles
from assay.cli.where import open_run
from assay.errors import UsageError
from assay.facts.source import parse, sources
from assay.launch.nodes import folder
from assay.model import Finding, RawFact, Read
from assay.report.clean import clean, one_line
from assay.report.words import GLYPHS, when
from assay.run.store import Run

_SHOWN = 20_000


@click.command(name="show")
@click.argument("run", default="last")
@click.argument("what", required=False)
@json_option
def command(run: str, what: str | None, as_json: bool) -> None:
    """Print what RUN holds. WHAT = a check (its findings and their evidence), an evidence id, or a probe."""
    opened = open_run(run)
    if what is None:
        _overview(opened, as_json=as_json)
        return
    found, findings = _evidence(opened, what), []
    if not found:
        judgement = judging.judge_run(opened, method_profiles(None), fold=folder(opened.info.target.kind))
        findings = [f for f in judgement.findings if f.check == what]
        if not findings:
            raise UsageError(f"{opened.info.id} has no check, evidence or probe {what!r}", hint=f"assay show {run}")
        found = _behind(opened, findings)
        if not as_json:
            _say_findings(judgement, findings)
    if as_json:
        say_json({"findings": findings, "evidence": [{"id": evidence, "raw": raw} for evidence, raw in found]})
        return
    for evidence, raw in found:
        click.echo(_raw_text(evidence, raw))


def _overview(run: Run, *, as_json: bool) -> None:
    rows = [(e, raw) for _, answers in run.nodes() for e, raw in answers]
    if as_json:
        out = [{"id": e, "node": raw.node, "probe": raw.probe, "at": raw.at, "took_s": raw.took_s} for e, raw in rows]
        say_json({"run": run.info, "evidence": out, "problems": run.problems()})
        return
    click.echo(f"{run.info.id}: {run.info.target.name}, {when(run.info.started)}, {run.exit_reason}")
    for problem in run.problems():
        click.echo(f"  damaged: {problem}")
    for evidence, raw in rows:
        states = ", ".join(f"{r.key} {r.state}" for r in raw.reads)
        click.echo(f"  {evidence[:12]}  {one_line(raw.node)}  {raw.probe:<24} {states[:80]}")


def _evidence(run: Run, what: str) -> list[tuple[str, RawFact]]:
    if len(what) >= 6 and all(c in "0123456789abcdef" for c in what):
        return list(run.evidence(run.index.find(what)))
    return [(e, raw) for _, answers in run.nodes() for e, raw in answers if raw.probe == what]


def _say_findings(judgement: Judgement, findings: list[Finding]) -> None:
    for finding in findings:
        head = f"{GLYPHS[finding.status]} {finding.status.value} {finding.check} on {one_line(finding.subject)}"
        click.echo(f"{head}: {one_line(finding.message)}")
        click.echo(f"  judged by method {judgement.method}; evidence below, verbatim\n")


def _behind(run: Run, findings: list[Finding]) -> list[tuple[str, RawFact]]:
    ids = dict.fromkeys(e for f in findings for e in f.evidence)
    return [pair for e in ids for pair in run.evidence(run.index.find(e)[:1])]


def _raw_text(evidence: str, raw: RawFact) -> str:
    known = sources().get(raw.probe)
    lines = [f"=== {raw.probe} on {one_line(raw.node)}, {when(raw.at)}, uid {raw.uid}, {raw.took_s:.2f} s, {evidence}"]
    for read in raw.reads:
        lines += _read_text(read)
    if known:
        lines += ["--- parsed", to_json(parse(known, raw)).decode()[:_SHOWN]]
    return "\n".join(lines) + "\n"


def _read_text(read: Read) -> list[str]:
    head = (
        f"--- {read.key}: {' '.join(read.argv) or ''} {read.state}{f', exit {read.rc}' if read.rc is not None else ''}"
    )
    lines = [head + (f", {read.cut} bytes cut" if read.cut else "")]
    lines += [clean(text)[:_SHOWN] for text in (read.out, read.err) if text]
    lines += [f"{path}: {clean(content)[:_SHOWN]}".rstrip() for path, content in read.files.items()]
    lines += [f"{path}: {error}" for path, error in read.errors.items()]
    return lines
