"""The `assay` command: a group whose verbs are imported when they are used."""

from __future__ import annotations

import importlib

import click

from assay import __version__
from assay.cli import exits

VERBS: dict[str, str] = {
    "init": "Write assay.toml for the cluster at hand.",
    "plan": "Print what an audit would read, where, and with what rights.",
    "audit": "Collect evidence from a target and judge it. Read-only.",
    "resume": "Go on with a run that was interrupted.",
    "judge": "Judge a recorded run again, also under another method.",
    "show": "Print what a run holds: findings, raw evidence behind one.",
    "report": "Write a run's report: HTML, text, Markdown, JUnit, JSON.",
    "explain": "Say why a check exists, how it judges and what to do.",
    "runs": "List, verify and sign recorded runs.",
    "export": "Pack a run into one file to mail.",
    "facts": "List the sources of facts; read a tool's output you were sent.",
    "minimums": "Show or renew the table of minimum versions.",
    "lab": "Run a Slurm cluster with emulated GPUs on this machine.",
    "doctor": "Check this installation.",
    "completion": "Print shell completion for bash, zsh or fish.",
}


class Verbs(click.Group):
    """Lists verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a person meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module, named after it."""
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"assay.cli.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs from their table, so that --help imports none of them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    epilog="\b\n" + exits.TABLE + "\n\n\b\nStart with:  assay audit          this machine\n             assay explain",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="assay", message="%(prog)s %(version)s")
def assay() -> None:
    """Independent, reproducible assessment of GPU clusters: evidence first, judgement second."""
