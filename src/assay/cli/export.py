"""`assay export`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.audit import judge as judging
from assay.cli.output import keep
from assay.cli.target import method_profiles
from assay.cli.where import open_run
from assay.launch.nodes import folder
from assay.run.archive import SUFFIX, export
from assay.run.chain import seal


@click.command(name="export")
@click.argument("run", default="last")
@click.option("-o", "--output", metavar="FILE", help=f"Default: the run's id with the suffix {SUFFIX}.")
def command(run: str, output: str | None) -> None:
    """Pack RUN (default: the last one) into one file; every verb that takes a run reads it."""
    opened = open_run(run)
    seal(opened.path)
    keep(opened, judging.judge_run(opened, method_profiles(None), fold=folder(opened.info.target.kind)))
    click.echo(export(opened, Path(output or opened.info.id + SUFFIX)))
