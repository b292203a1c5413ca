"""The report as one static HTML page: no script needed, nothing fetched, prints well, carries its data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from assay.audit.judge import SHORT_ID
from assay.audit.judgement import Judgement, to_json
from assay.checks.registry import Check, checks
from assay.model import CATEGORIES, Category, Finding, RawFact, Status
from assay.report.clean import clean
from assay.report.fold import by_cause
from assay.report.strips import outcome_strip
from assay.report.words import GLYPHS, answered, plural, request_text, tally, when
from assay.run.store import Run

_BACKTICKS = re.compile(r"`([^`]+)`")
_LOUD_BYTES = 2500
_QUIET_BYTES = 400
_BUDGET_BYTES = 100_000
_REFUSED = ("denied", "not-asked")
_LOUD = (Status.FAIL, Status.ERROR, Status.UNKNOWN, Status.WARN)


class Excerpt(Struct, frozen=True):
    """The beginning of one piece of evidence, made safe to show."""

    id: str
    node: str
    probe: str
    at: str
    uid: int
    text: str
    cut: bool


class Chapter(Struct, frozen=True):
    """One category: what needs a person, what passed, what was skipped."""

    category: Category
    loud: tuple[Finding, ...]
    passed: tuple[Finding, ...]
    skipped: tuple[Finding, ...]
    strip: str


def excerpts(run: Run, judgement: Judgement) -> list[Excerpt]:
    """The evidence behind the findings, loud ones first and longer, until the page is full."""
    loud = dict.fromkeys(e for f in judgement.findings if f.status in _LOUD for e in f.evidence[:4])
    quiet = dict.fromkeys(e for f in judgement.findings for e in f.evidence[:1])
    made: list[Excerpt] = []
    room = _BUDGET_BYTES
    for short in [*loud, *(e for e in quiet if e not in loud)]:
        for evidence, raw in run.evidence(run.index.find(short)[:1]):
            made.append(_excerpt(evidence, raw, min(_LOUD_BYTES if short in loud else _QUIET_BYTES, room)))
            room -= len(made[-1].text)
        if room <= 0:
            break
    return made


def _excerpt(evidence: str, raw: RawFact, limit: int) -> Excerpt:
    parts: list[str] = []
    for read in raw.reads:
        if read.argv:
            parts.append(f"$ {' '.join(read.argv)}" + ("" if read.state == "ok" else f"   [{read.state}]"))
            parts += [t.rstrip() for t in (read.out, read.err) if t.strip()]
        elif not read.files and not read.errors:
            parts.append(f"{read.key}: {read.state}")
        parts += [f"{path}: {content.strip()}" for path, content in list(read.files.items())[:40]]
        parts += [f"{path}: {error}" for path, error in list(read.errors.items())[:10]]
    text = clean("\n".join(parts))
    return Excerpt(evidence, clean(raw.node), raw.probe, when(raw.at), raw.uid, text[:limit], len(text) > limit)


def chapters(findings: Iterable[Finding]) -> list[Chapter]:
    """The findings by category, in the order of the rating."""
    by_category: Mapping[str, list[Finding]] = {c: [] for c in CATEGORIES}
    for finding in findings:
        by_category[finding.category].append(finding)
    return [
        Chapter(
            category,
            tuple(f for f in found if f.status in _LOUD or f.reason in _REFUSED),
            tuple(f for f in found if f.status is Status.PASS),
            tuple(f for f in found if f.status is Status.SKIP and f.reason not in _REFUSED),
            outcome_strip(category, _outcomes(found)),
        )
        for category, found in zip(CATEGORIES, by_category.values(), strict=True)
    ]


def _outcomes(findings: Iterable[Finding]) -> dict[str, int]:
    tally: dict[str, int] = {}
    for f in findings:
        name = f.reason if f.reason in ("denied", "not-asked") else f.status.value
        if name != "skip":
            tally[name] = tally.get(name, 0) + f.nodes
    return tally


def render(judgement: Judgement, evidence: list[Excerpt]) -> str:
    """The page."""
    page = Environment(
        loader=PackageLoader("assay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe,
    )
    page.filters.update(when=when, code=_code)
    page.globals.update(plural=plural)
    return page.get_template("audit.html").render(
        j=judgement,
        chapters=chapters(judgement.findings),
        first=[f for f in judgement.findings if f.status in (Status.FAIL, Status.WARN)],
        unsure=list(by_cause(f for f in judgement.findings if f.status in (Status.UNKNOWN, Status.ERROR))),
        evidence=evidence,
        have={e.id[:SHORT_ID] for e in evidence},
        known=_known(judgement.findings),
        glyph={s.value: g for s, g in GLYPHS.items()},
        tally=tally(judgement),
        answered=answered(judgement),
        request=request_text(judgement),
        identities=list(judgement.identities.items())[:16],
        data=_embedded(judgement),
    )


def _safe(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _code(text: str) -> Markup:
    """Plain text with `commands` in backticks as code."""
    parts = _BACKTICKS.split(clean(text))
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))


def _known(findings: Iterable[Finding]) -> dict[str, Check]:
    known = checks()
    return {f.check: known[f.check] for f in findings if f.check in known}


def _embedded(judgement: Judgement) -> Markup:
    """The judgement as JSON that cannot end the script element it stands in."""
    text = json.dumps(msgspec.json.decode(to_json(judgement)), ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped just here
