"""One status line on stderr: redrawn on a terminal, a plain line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from assay.audit.collect import Progress
from assay.report.words import plural

_REDRAW_S = 0.1
_PLAIN_S = 60.0


@contextmanager
def status_line(what: str) -> Iterator[Progress]:
    """Gives a function (facts so far, facts expected, nodes still working) to call as often as one likes."""
    terminal = sys.stderr.isatty()
    started = shown = time.monotonic()

    def show(facts: int, expected: int, working: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= (_REDRAW_S if terminal else _PLAIN_S):
            shown = now
            text = f"{what} {now - started:.0f} s: {facts} of {expected} answers, {plural(working, 'node')} working"
            sys.stderr.write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
