"""`assay init`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.errors import UsageError

_TEMPLATE = """\
# What Assay audits, and how it gets in. `assay plan NAME` prints what an audit would read.

[targets.{name}]
kind = "{kind}"{nodes}
# How the access was obtained goes into every run: lent (by the provider), bought, own or unknown.
access = "unknown"
{rest}
# [runs]
# directory = "runs"
"""
_SSH = """
# user = "ubuntu"
# ssh_options = ["-J", "bastion.example"]
# sudo = true              # `sudo -n` on the nodes, for what only root may read
"""


@click.command(name="init")
@click.argument("name", default="local")
@click.option(
    "--nodes", default="", metavar="NODESET", help="Nodes reached by ssh, e.g. 'gpu[01-08]'; none = this machine."
)
@click.option("--force", is_flag=True, help="Overwrite assay.toml.")
def command(name: str, nodes: str, force: bool) -> None:
    """Write assay.toml here with a target called NAME (default: this machine)."""
    from assay.launch.config import check_name

    check_name(name)
    path = Path("assay.toml")
    if path.exists() and not force:
        raise UsageError("assay.toml is already here", hint="edit it, or --force")
    line = f"\nnodes = {_quoted(nodes)}" if nodes else ""
    text = _TEMPLATE.format(name=name, kind="ssh" if nodes else "local", nodes=line, rest=_SSH if nodes else "")
    path.write_text(text, encoding="utf-8")
    click.echo(f"written: {path}\nnext: assay plan {name}; assay audit {name}", err=True)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)
