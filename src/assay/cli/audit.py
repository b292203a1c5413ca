"""`assay audit`."""

from __future__ import annotations

import sys
import time

import click

from assay import __version__
from assay.audit import judge as judging
from assay.audit.collect import fill
from assay.audit.judgement import exit_code
from assay.audit.plan import Plan, make_plan
from assay.audit.select import Selection
from assay.audit.task import Task
from assay.cli.load import check_load, load_option, try_storage
from assay.cli.output import check_outputs, emit, fail_option, keep, output_options
from assay.cli.status import status_line
from assay.cli.target import chosen_target, method_profiles, selection_options, wait_options
from assay.cli.where import run_paths, runs_directory
from assay.errors import NoVerdict, StoreError
from assay.launch.nodes import folder
from assay.model import RunInfo
from assay.profiles import Profiles
from assay.profiles.method import Method
from assay.run.store import Run, new_id

_RESUME_WITHIN_S = 3600


@click.command(name="audit")
@click.argument("target", required=False)
@selection_options
@wait_options
@load_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask: take the detected target, and agree to what --load does.")
@click.option("--fresh", is_flag=True, help="Start anew even where an interrupted run could go on.")
@fail_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    target: str | None,
    selection: Selection,
    method: str | None,
    wait_s: float,
    load: bool,
    yes: bool,
    fresh: bool,
    fail_on: str,
    as_json: bool,
    output: tuple[str, ...],
    verbose: int,
) -> None:
    """Collect evidence from TARGET and judge it. Without --load: changes nothing, starts nothing, sends nothing.

    TARGET is a name from assay.toml, `local`, `lab`, or an ad-hoc `user@host[1-8]` or, on the login node of a
    Slurm cluster, `slurm` or `slurm:PARTITION`. There the nodes are read by a short job, which takes all their GPUs
    for some seconds: `assay plan` prints its command. Without a target, this machine is audited after a question.
    """
    check_outputs(output)
    profiles = method_profiles(method)
    chosen = chosen_target(target, yes=yes)
    check_load(chosen, load=load, yes=yes)
    plan, seen = make_plan(chosen, selection, profiles, wait_s, load=load)
    run = _unfinished(plan, fresh=fresh) or _new(plan, profiles.get(Method).version)
    task = Task(plan.target, run.info.nodes, plan.probes, seen, wait_s)
    collect(run, task, "assay " + " ".join(sys.argv[1:]))
    try_storage(run, task, profiles, yes=yes)
    ctx.exit(judged(run, profiles, selection, fail_on, as_json=as_json, files=output, verbose=verbose))


def collect(run: Run, task: Task, again: str) -> None:
    """Fill a run, with a status line; when it ends early, say where what came is kept and how to go on."""
    click.echo(f"run {run.info.id}", err=True)
    try:
        with status_line(f"audit {task.target.name}") as progress:
            fill(run, task, progress)
    except KeyboardInterrupt:
        click.echo(f"\ninterrupted; what was read is kept in {run.path}\ngo on with: {again}", err=True)
        raise
    except NoVerdict as e:
        raise NoVerdict(e.message, hint=f"what was read is kept; go on with: assay resume {run.info.id}") from e


def judged(
    run: Run,
    profiles: Profiles,
    selection: Selection,
    fail_on: str,
    *,
    as_json: bool,
    files: tuple[str, ...],
    verbose: int,
) -> int:
    """Judge a run and print what it says; the exit code."""
    judgement = judging.judge_run(run, profiles, selection, folder(run.info.target.kind))
    keep(run, judgement)
    emit(judgement, run, as_json=as_json, files=files, verbose=verbose)
    return exit_code(judgement, fail_on)


def _new(plan: Plan, method: str) -> Run:
    now = time.time()
    return Run.create(
        runs_directory(),
        RunInfo(
            id=new_id(plan.target.name, now),
            target=plan.target,
            started=now,
            tool_version=__version__,
            method=method,
            plan=plan.id,
            emulated=plan.target.emulated,
            nodes=plan.nodes,
            probes=tuple(p.name for p in plan.probes),
            left_out=plan.left_out,
        ),
    )


def _unfinished(plan: Plan, *, fresh: bool) -> Run | None:
    """The newest run of the same plan that was interrupted lately and that nobody is writing any more."""
    if fresh:
        return None
    for path in run_paths(runs_directory()):
        try:
            run = Run(path)
        except StoreError:
            continue
        if time.time() - run.info.started > _RESUME_WITHIN_S:
            return None
        if run.info.plan == plan.id and run.exit_reason == "interrupted" and not run.alive:
            click.echo(f"going on with the interrupted run {run.info.id} (--fresh starts anew)", err=True)
            return run
    return None
