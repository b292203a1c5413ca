"""`assay explain`."""

from __future__ import annotations

import textwrap
from fnmatch import fnmatchcase
from itertools import groupby

import click

from assay.audit.select import LONGEST
from assay.checks.registry import Check, checks
from assay.cli.output import json_option, say_json
from assay.errors import UsageError
from assay.facts.source import sources


@click.command(name="explain")
@click.argument("check", required=False)
@json_option
def command(check: str | None, as_json: bool) -> None:
    """Say why CHECK exists, how it judges, what to do and where to read more. Without CHECK: list them all.

    CHECK may be a glob such as 'nvidia.*'.
    """
    known = checks()
    if check and len(check) > LONGEST:
        raise UsageError(f"no check has so long a name as {check[:40]!r}...")
    chosen = [c for name, c in known.items() if fnmatchcase(name, check or "*")]
    if not chosen:
        near = [name for name in known if check and check.split(".")[0] in name][:5]
        raise UsageError(f"no check {check!r}", hint=f"did you mean {', '.join(near)}?" if near else "assay explain")
    if as_json:
        say_json({"checks": [_data(c) for c in chosen]})
    elif check and len(chosen) <= 3:
        click.echo("\n\n".join(text(c) for c in chosen))
    else:
        click.echo(_list(chosen))


def _data(check: Check) -> dict[str, object]:
    return {
        "check": check.id,
        "category": check.category,
        "severity": check.severity,
        "criteria": check.criteria,
        "lifecycle": check.lifecycle,
        "scope": check.scope,
        "required": check.required,
        "why": check.why,
        "how": check.how,
        "fix": check.fix,
        "refs": check.refs,
        "reads": _reads(check),
    }


def _reads(check: Check) -> list[str]:
    return [name for name, source in sources().items() if source.fact in check.needs]


def text(check: Check) -> str:
    """Everything about one check, wrapped at 80 columns."""
    parts = [
        f"{check.id}  ({check.category}, {check.severity}, {check.lifecycle}{', required' if check.required else ''})",
        _part("Why", check.why),
        _part("How it judges", " ".join(check.how.split())),
        _part("What to do", check.fix),
        _part("Reads", ", ".join(_reads(check)) or "nothing"),
    ]
    if check.criteria:
        parts.append(_part("Criteria", ", ".join(check.criteria)))
    parts += [_part("See", ref) for ref in check.refs]
    return "\n".join(parts)


def _part(title: str, body: str) -> str:
    return textwrap.fill(
        body, 80, initial_indent=f"  {title + ':':<15}", subsequent_indent=" " * 17, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _list(chosen: list[Check]) -> str:
    lines = []
    for category, group in groupby(sorted(chosen, key=lambda c: (c.category, c.id)), key=lambda c: c.category):
        lines += [
            category,
            *(f"  {c.id:<36} {c.severity:<9} {textwrap.shorten(c.why, 90, placeholder='...')}" for c in group),
        ]
    return "\n".join(lines)
