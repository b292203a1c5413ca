"""`assay facts`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from assay.cli.output import json_option, say_json
from assay.errors import AssayError, UsageError
from assay.facts.formats import formats
from assay.facts.source import sources

_LIMIT = 64 << 20
READERS = ("assay.facts", "assay.slurm")


@click.group(name="facts", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the sources of facts: what is read on a node, with what rights. `parse` reads output you were sent."""
    if ctx.invoked_subcommand:
        return
    known = sources()
    if as_json:
        say_json({"probes": [s.probe for s in known.values()]})
        return
    for name, source in known.items():
        steps = ", ".join(step.key for step in source.probe.steps)
        click.echo(f"{name:<26} {source.fact.__name__:<22} {'root  ' if source.probe.root else '      '}{steps}")
    click.echo(f"\nassay facts parse FORMAT FILE reads one of: {', '.join(formats(*READERS))}", err=True)


@command.command()
@click.argument("tool")
@click.argument("file", default="-")
def parse(tool: str, file: str) -> None:
    """Read FILE (default: standard input), the output of TOOL such as 'nvidia-smi -q', and print its facts as JSON."""
    known = formats(*READERS)
    if tool not in known:
        raise UsageError(f"no parser for {tool!r}", hint=f"one of: {', '.join(known)}")
    try:
        data = sys.stdin.buffer.read(_LIMIT) if file == "-" else Path(file).read_bytes()[:_LIMIT]
        facts: Any = known[tool](data.decode("utf-8", "replace"))
    except OSError as e:
        raise UsageError(f"cannot read {file}: {e.strerror}") from e
    except Exception as e:  # the text is foreign: whatever it does to a parser is a word on the text
        raise AssayError(f"{file}: this is not what {tool!r} prints ({type(e).__name__}: {e})") from e
    say_json(facts)
