"""`assay report`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.audit import judge as judging
from assay.cli.output import FORMATS, check_outputs, json_option, rendered, say_json, write_text
from assay.cli.target import method_profiles
from assay.cli.where import open_run
from assay.launch.nodes import folder


@click.command(name="report")
@click.argument("run", default="last")
@click.option(
    "-o", "--output", multiple=True, metavar="FILE", help=f"Default: report.html. Suffixes: {' '.join(FORMATS)}."
)
@click.option("--method", metavar="DIR", help="A directory of profiles that take the place of the shipped ones.")
@json_option
def command(run: str, output: tuple[str, ...], method: str | None, as_json: bool) -> None:
    """Write the report of RUN (default: the last one), judged by the present method."""
    files = output or (() if as_json else ("report.html",))
    check_outputs(files)
    opened = open_run(run)
    judgement = judging.judge_run(opened, method_profiles(method), fold=folder(opened.info.target.kind))
    for file in files:
        write_text(Path(file), rendered(judgement, opened, file))
        click.echo(f"written: {file}", err=True)
    if as_json:
        say_json(judgement)
