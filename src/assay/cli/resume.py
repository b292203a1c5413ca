"""`assay resume`."""

from __future__ import annotations

import click

from assay.audit.select import Selection
from assay.audit.task import Task
from assay.cli.audit import collect, judged
from assay.cli.load import try_storage
from assay.cli.output import check_outputs, fail_option, output_options
from assay.cli.target import method_profiles, wait_options
from assay.cli.where import open_run, run_paths, runs_directory
from assay.errors import StoreError, UsageError
from assay.facts.source import sources
from assay.run.store import Run


@click.command(name="resume")
@click.argument("run", required=False)
@wait_options
@click.option("--method", metavar="DIR", help="A directory of profiles that take the place of the shipped ones.")
@fail_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    run: str | None,
    method: str | None,
    wait_s: float,
    fail_on: str,
    as_json: bool,
    output: tuple[str, ...],
    verbose: int,
) -> None:
    """Go on with RUN where it was interrupted: jobs it left are picked up, nodes it has not read are read.

    RUN is an id, its beginning or a directory; without it, the newest run that was interrupted.
    """
    check_outputs(output)
    opened = open_run(run) if run else _interrupted()
    if opened.alive:
        raise UsageError(f"{opened.info.id} is still being written", hint="wait for it, or end that process")
    known = sources()
    probes = tuple(known[name].probe for name in opened.info.probes if name in known)
    task = Task(opened.info.target, opened.info.nodes, probes, None, wait_s)
    collect(opened, task, f"assay resume {opened.info.id}")
    profiles = method_profiles(method)
    try_storage(opened, task, profiles, yes=False)
    ctx.exit(judged(opened, profiles, Selection(), fail_on, as_json=as_json, files=output, verbose=verbose))


def _interrupted() -> Run:
    for path in run_paths(runs_directory()):
        try:
            run = Run(path)
        except StoreError:
            continue
        if run.exit_reason in ("interrupted", "empty") and not run.alive:
            return run
    raise UsageError("no run was interrupted", hint="assay runs lists them")
