"""`assay lab`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click

from assay.cli import exits
from assay.cli.output import json_option

_SHAPES = ("hgx-h100", "hgx-b300", "gb300-nvl72", "mi355x")


def _name_option(f: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--name", default="lab", show_default=True, help="Which lab; several may be up.")(f)


@click.group(name="lab")
def command() -> None:
    """A real Slurm cluster with emulated GPU nodes on this machine, for tests and for trying things out."""


@command.command()
@_name_option
@click.option(
    "--nodes", type=int, help="GPU nodes in service, 4 unless the scenario needs more; one more is the spare."
)
@click.option("--shape", type=click.Choice(_SHAPES), help=f"What they look like: {_SHAPES[0]} unless told.")
@click.option("--scenario", default="healthy", show_default=True, help="How the provider runs it; see `lab scenario`.")
@click.option("--accounting", is_flag=True, help="With slurmdbd and MariaDB; every job then names an account.")
@click.option("--slow-defaults", is_flag=True, help="Slurm's own time-outs (minutes) instead of the lab's (seconds).")
def up(name: str, nodes: int | None, shape: str | None, scenario: str, accounting: bool, slow_defaults: bool) -> None:
    """Start the lab: ctl, login, gpu01, gpu02, ... and a spare. Ends when all nodes are idle."""
    from assay.lab.lifecycle import up as start
    from assay.lab.scenarios import fitting
    from assay.lab.spec import Spec

    shape, nodes = fitting(scenario, shape, nodes)
    spec = Spec(
        name=name, nodes=nodes, shape=shape, scenario=scenario, accounting=accounting, slow_defaults=slow_defaults
    )
    start(spec, functools.partial(click.echo, err=True))
    other = "" if name == "lab" else f"--name {name} "
    click.echo(f"lab {name!r} is up: {nodes + 1} nodes, scenario {scenario}", err=True)
    click.echo(f"       assay lab shell {other}login          assay lab down {other}".rstrip(), err=True)


@command.command()
@_name_option
def down(name: str) -> None:
    """Stop the lab. Nothing of it is left."""
    from assay.lab.lifecycle import down as stop

    click.echo(f"lab {name!r} is down" if stop(name) else f"no lab {name!r} was up", err=True)


@command.command()
@_name_option
@click.option("--list", "listing", is_flag=True, help="List all scenarios, each with the verb that can find it.")
@click.argument("scenario", required=False)
def scenario(name: str, scenario: str | None, listing: bool) -> None:
    """Start every host of a running lab anew with SCENARIO. Jobs, logs and files of its users are lost."""
    from assay.lab.lifecycle import start_over
    from assay.lab.scenarios import SCENARIOS

    if listing or scenario is None:
        for one in SCENARIOS.values():
            click.echo(f"{one.name:<31} {', '.join(one.found_by) or '-':<14} {one.summary}")
        return
    start_over(name, scenario)
    click.echo(f"lab {name!r} runs {scenario}", err=True)


@command.command()
@_name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Hosts, their power and their state in Slurm."""
    import json

    from assay.lab.report import status as look, text

    found = look(name)
    click.echo(json.dumps(found) if as_json else text(found))


@command.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_name_option
@click.option("-u", "--user", default="root", show_default=True, help="Who runs it: root, alice, bob.")
@click.argument("node")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec_(ctx: click.Context, name: str, user: str, node: str, argv: tuple[str, ...]) -> None:
    """Run ARGV on NODE; its exit code is this command's. As in: assay lab exec gpu01 -- nvidia-smi -L."""
    ctx.exit(_run(name, node, argv[1:] if argv[0] == "--" else argv, user))


@command.command()
@_name_option
@click.option("-u", "--user", default="root", show_default=True, help="Who logs in: root, alice, bob.")
@click.argument("node")
@click.pass_context
def shell(ctx: click.Context, name: str, user: str, node: str) -> None:
    """A shell on NODE."""
    ctx.exit(_run(name, node, ("/bin/bash", "-l"), user))


def _run(name: str, node: str, argv: tuple[str, ...], user: str) -> int:
    from assay.lab import enter
    from assay.lab.control import Lab

    sys.stdout.flush()
    return enter.run(Lab(name).enter(node), argv, user)


@command.command()
@_name_option
@click.argument("node")
def log(name: str, node: str) -> None:
    """The logs of NODE's daemons, also when it is off."""
    from assay.lab.control import Lab

    for file, text in Lab(name).ask("log", node)["logs"].items():
        if text:
            click.echo(f"==> {file} <==\n{text}")


@command.command()
@_name_option
@click.argument("node")
@click.argument("to", type=click.Choice(["off", "on"]))
def power(name: str, node: str, to: str) -> None:
    """Cut NODE's power, or start it again."""
    from assay.lab.control import Lab

    Lab(name).ask("power", node, to=to)


@command.command()
@_name_option
@click.argument("node")
@click.argument("interface", type=click.Choice(["eth0", "ib0"]))
@click.argument("to", type=click.Choice(["down", "up"]))
def link(name: str, node: str, interface: str, to: str) -> None:
    """Pull NODE's cable of the management (eth0) or fabric (ib0) network, or put it back."""
    from assay.lab.control import Lab

    Lab(name).ask("link", node, interface=interface, up=to == "up")


@command.command()
@_name_option
@click.argument("node")
@click.argument("text")
def kmsg(name: str, node: str, text: str) -> None:
    """Add TEXT to NODE's kernel log as its kernel would: "<3>NVRM: Xid ...". No other node sees it."""
    from assay.lab.control import Lab

    Lab(name).ask("kmsg", node, text=text)


@command.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """What this machine lacks for the lab, and the one line that mends it."""
    import msgspec

    from assay.lab.doctor import lines

    found = lines()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for line in found:
            click.echo(f"{line.state:<5} {line.what}" + (f"\n      {line.hint}" if line.hint else ""))
    ctx.exit(exits.ERROR if any(line.state == "bad" for line in found) else exits.OK)
