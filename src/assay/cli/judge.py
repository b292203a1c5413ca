"""`assay judge`."""

from __future__ import annotations

import click

from assay.audit import judge as judging
from assay.audit.judgement import exit_code
from assay.audit.select import Selection
from assay.cli.output import check_outputs, emit, fail_option, keep, output_options
from assay.cli.target import method_profiles, selection_options
from assay.cli.where import open_run
from assay.launch.nodes import folder


@click.command(name="judge")
@click.argument("run")
@selection_options
@fail_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    selection: Selection,
    method: str | None,
    fail_on: str,
    as_json: bool,
    output: tuple[str, ...],
    verbose: int,
) -> None:
    """Judge RUN again from its evidence. RUN is an id, its beginning, `last`, a directory or an exported file."""
    check_outputs(output)
    opened = open_run(run)
    judgement = judging.judge_run(opened, method_profiles(method), selection, folder(opened.info.target.kind))
    if method is None and selection.everything:
        keep(opened, judgement)
    emit(judgement, opened, as_json=as_json, files=output, verbose=verbose)
    ctx.exit(exit_code(judgement, fail_on))
