"""How statuses, counts and times are written everywhere."""

from __future__ import annotations

from datetime import datetime, timezone

from assay.audit.judgement import Judgement
from assay.model import Status

GLYPHS = {
    Status.FAIL: "✕",
    Status.ERROR: "!",
    Status.UNKNOWN: "?",
    Status.WARN: "▲",
    Status.SKIP: "\N{EN DASH}",
    Status.PASS: "✓",
}
ASCII_GLYPHS = {
    Status.FAIL: "x",
    Status.ERROR: "!",
    Status.UNKNOWN: "?",
    Status.WARN: "^",
    Status.SKIP: "-",
    Status.PASS: "+",
}


def when(epoch: float) -> str:
    """UTC, to the second; a node may call any number its time."""
    try:
        return f"{datetime.fromtimestamp(epoch, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"no known time ({epoch:g})"


def plural(n: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def tally(judgement: Judgement) -> str:
    """`3 fail, 9 warn, 2 unknown, 0 error, 61 pass, 40 skip`."""
    order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.ERROR, Status.PASS, Status.SKIP)
    return ", ".join(f"{judgement.counts[s.value]} {s.value}" for s in order)


def answered(judgement: Judgement) -> str:
    """`on 7 of 8 nodes`."""
    if judgement.answered == judgement.nodes:
        return f"on {plural(judgement.nodes, 'node')}"
    return f"on {judgement.answered} of {plural(judgement.nodes, 'node')}"


def request_text(judgement: Judgement) -> str:
    """What to send to the provider so that what was refused can be looked at; "" when nothing was."""
    if not judgement.not_granted:
        return ""
    rows = [f"- {g.why} ({g.probe} on {g.subject}: {', '.join(g.reads[:3])})" for g in judgement.not_granted]
    return "\n".join(
        [
            f"To audit {judgement.target} completely we need to read as root (sudo -n):",
            *rows,
            "The audit only reads: it changes and starts nothing and sends nothing. `assay plan` prints every read.",
        ]
    )
