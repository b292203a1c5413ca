"""Results go to stdout or to -o FILE; everything else to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.audit import judge
from assay.audit.judgement import Judgement, to_json
from assay.cli.streams import say
from assay.errors import AssayError, StoreError, UsageError
from assay.run.store import Run

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = (".json", ".html", ".junit.xml", ".md", ".txt")
_COLOURS = {
    "fail": {"fg": (155, 15, 46), "bold": True},
    "warn": {"fg": (199, 119, 0), "bold": True},
    "unknown": {"fg": "magenta", "bold": True},
    "error": {"fg": "magenta", "bold": True},
    "pass": {"fg": (11, 110, 153)},
    "skip": {"dim": True},
    "bold": {"bold": True},
}


def json_option(f: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(f)


def output_options(f: F) -> F:
    """--json, -o FILE and -v."""
    f = click.option("-v", "--verbose", count=True, help="-v shows passes and skips, -vv bars, fixes and evidence.")(f)
    f = click.option(
        "-o", "--output", multiple=True, metavar="FILE",
        help=f"Also write FILE, in the format of its suffix: {' '.join(FORMATS)}. May be given again.",
    )(f)  # fmt: skip
    return json_option(f)


def fail_option(f: F) -> F:
    """--fail-on."""
    return click.option(
        "--fail-on", type=click.Choice(["fail", "warn", "never"]), default="fail", show_default=True,
        help="Lowest status that ends with exit code 1.",
    )(f)  # fmt: skip


def check_outputs(files: tuple[str, ...]) -> None:
    """Refuse an unknown suffix or an absent directory before any work is done."""
    for file in files:
        if not file.endswith(FORMATS):
            raise UsageError(f"{file}: unknown suffix", hint=f"use one of {' '.join(FORMATS)}")
        if not os.path.isdir(os.path.dirname(file) or "."):  # noqa: PTH112, PTH120 - the working directory may be gone
            raise UsageError(f"{file}: its directory does not exist")


def emit(judgement: Judgement, run: Run, *, as_json: bool, files: tuple[str, ...], verbose: int) -> None:
    """The judgement to every file asked for, and to stdout: last, so that an error is not a second answer."""
    for file in files:
        write_text(Path(file), rendered(judgement, run, file))
        click.echo(f"written: {file}", err=True)
    if as_json:
        say_json(judgement)
    else:
        say(_text(judgement, verbose))


def say_json(value: Any) -> None:
    """One JSON object on stdout, in UTF-8 whatever the locale."""
    say(to_json(value) + b"\n")


def keep(run: Run, judgement: Judgement) -> None:
    """Store the judgement in the run; where there is no room for it, say so and go on: it is derived."""
    try:
        judge.keep(run, judgement)
    except StoreError as e:
        click.echo(f"assay: {e.message}\n       {e.hint}", err=True)


def rendered(judgement: Judgement, run: Run, file: str) -> str:
    """The judgement in the format that the file's suffix names."""
    if file.endswith(".json"):
        return to_json(judgement).decode() + "\n"
    if file.endswith(".junit.xml"):
        from assay.report import junit

        return junit.render(judgement)
    if file.endswith(".md"):
        from assay.report import markdown

        return markdown.render(judgement)
    if file.endswith(".html"):
        from assay.report import html

        return html.render(judgement, html.excerpts(run, judgement))
    from assay.report import text

    return text.render(judgement, verbose=2)


def write_text(path: Path, text: str) -> None:
    """Write a result whole; AssayError says why it could not be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise AssayError(f"cannot write {path}: {e.strerror}", hint="assay report RUN -o FILE writes it again") from e


def _text(judgement: Judgement, verbose: int) -> str:
    from assay.report import text

    terminal = sys.stdout.isatty()
    colour = (terminal and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ) or bool(
        os.environ.get("FORCE_COLOR")
    )
    width = shutil.get_terminal_size().columns if terminal else None
    encoding = (sys.stdout.encoding or "ascii").lower()
    return text.render(
        judgement,
        width=width,
        verbose=verbose,
        paint=_painted if colour else text.plain,
        ascii_only=not encoding.startswith("utf"),
    )


def _painted(text: str, style: str) -> str:
    return click.style(text, **_COLOURS.get(style, {}))  # type: ignore[arg-type]
