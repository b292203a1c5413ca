"""`assay runs`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from assay.cli.output import json_option, say_json
from assay.cli.where import open_run, run_paths, runs_directory
from assay.errors import StoreError
from assay.report.words import plural, when
from assay.run import chain
from assay.run.sign import check_signature, sign
from assay.run.store import Run


@click.group(name="runs", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List recorded runs, newest first. `verify` and `sign` guard one against change."""
    if ctx.invoked_subcommand:
        return
    rows = [_row(path) for path in run_paths(runs_directory())]
    if as_json:
        say_json({"runs": rows})
        return
    if not rows:
        click.echo(f"no runs in {runs_directory()}; assay audit makes one", err=True)
    for row in rows:
        click.echo(f"{row['run']:<44} {row['kind']:<6} {row['nodes']:>5}  {row['state']:<12} {row['summary']}")


def _row(path: Path) -> dict[str, object]:
    try:
        run = Run(path)
        state = run.exit_reason
    except StoreError as e:
        return {"run": path.name, "kind": "?", "nodes": 0, "state": "damaged", "summary": e.message}
    return {
        "run": run.info.id,
        "kind": run.info.target.kind,
        "nodes": len(run.info.nodes),
        "state": "running" if state == "interrupted" and run.alive else state,
        "summary": _summary(path),
    }


def _summary(path: Path) -> str:
    try:
        counts = msgspec.json.decode((path / "judgement.json").read_bytes(), type=dict[str, object])["counts"]
    except (OSError, msgspec.DecodeError, RecursionError, KeyError):
        return "not judged"
    return ", ".join(f"{n} {status}" for status, n in counts.items() if n) if isinstance(counts, dict) else ""


@command.command()
@click.argument("run")
@click.option("--signers", type=click.Path(exists=True, dir_okay=False), help="An allowed_signers file (ssh-keygen).")
@click.option("--identity", help="Whose signature it must be, as named in that file.")
def verify(run: str, signers: str | None, identity: str | None) -> None:
    """Check RUN's chain of hashes and, with --signers and --identity, its signature."""
    opened = open_run(run)
    problems = opened.problems()
    if problems:
        raise StoreError(f"{opened.info.id} is not as it was sealed: {'; '.join(problems)}")
    stretches = len(chain.links(opened.path))
    click.echo(f"{opened.info.id}: {plural(stretches, 'sealed stretch')} intact, head {chain.head(opened.path)}")
    if signers and identity:
        click.echo(check_signature(opened.path, Path(signers), identity))


@command.command(name="sign")
@click.argument("run")
@click.option("--key", required=True, type=click.Path(exists=True, dir_okay=False), help="An SSH private key.")
def sign_(run: str, key: str) -> None:
    """Seal RUN and sign its head with an SSH key, so that what was recorded can be published and disputed."""
    opened = open_run(run)
    signature = sign(opened.path, Path(key))
    click.echo(f"{signature}\nhead {chain.head(opened.path)}, started {when(opened.info.started)}")
