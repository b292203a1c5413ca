"""`assay minimums`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from assay.cli.output import json_option, say_json
from assay.cli.target import method_profiles
from assay.launch.config import user_profiles
from assay.profiles.minimum_versions import MinimumVersions
from assay.profiles.minimums_store import describe, import_table


@click.group(name="minimums", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the table of minimum versions that audits are judged by. `import` takes a newer one."""
    if ctx.invoked_subcommand:
        return
    table = method_profiles(None).get(MinimumVersions)
    if as_json:
        say_json(table)
        return
    click.echo(describe(table))
    for name, component in table.components.items():
        floors = [component.minimum, *component.branches.values(), *component.products.values()]
        numbers = ", ".join(dict.fromkeys(floor.minimum for floor in floors if floor))
        affected = f"{len(component.affected)} affected ranges" if component.affected else ""
        click.echo(f"  {name:<24} {numbers}{'; ' if numbers and affected else ''}{affected}")


@command.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--into", metavar="DIR", help="A method directory. Default: your own profiles, used by every audit.")
def import_(file: str, into: str | None) -> None:
    """Take over FILE (TOML, in the form of the shipped table) after checking it; its source is kept."""
    before = method_profiles(None).get(MinimumVersions)
    directory = Path(into) if into else user_profiles()
    table = import_table(Path(file), directory / MinimumVersions.file)
    click.echo(describe(table))
    click.echo(f"written: {directory / MinimumVersions.file}", err=True)
    if table.generated < before.generated:
        click.echo(f"note: it is older than the table it replaces ({before.generated})", err=True)
    age = (time.time() - time.mktime(table.generated.timetuple())) / 86400
    if age > table.policy.max_age_days:
        click.echo(f"note: it is {age:.0f} days old; reports will say so", err=True)
