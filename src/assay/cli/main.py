"""The `assay` command: a group whose verbs are imported when they are used."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence

import click

from assay import __version__
from assay.cli import exits
from assay.errors import AssayError

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


def run(arguments: Sequence[str] | None = None) -> None:
    """Entry point: every error ends as one message and an exit code, never as a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = assay.main(arguments, prog_name="assay", standalone_mode=False)
        code = code if isinstance(code, int) else exits.OK
        sys.stdout.flush()
    except click.exceptions.Exit as e:
        code = e.exit_code
    except click.Abort:
        code = exits.INTERRUPTED
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        code = exits.INTERRUPTED
    except click.ClickException as e:
        hint = e.ctx.command_path + " --help" if isinstance(e, click.UsageError) and e.ctx else ""
        code = _tell("usage", e.format_message(), hint, arguments)
    except AssayError as e:
        _tell(e.code, e.message, e.hint, arguments)
        code = e.exit_code
    except BrokenPipeError:
        code = exits.OK
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as e:
        code = _tell("system", f"{e.filename or ''}{': ' if e.filename else ''}{e.strerror or e}", "", arguments)
    except Exception as e:  # a traceback is of no use to the user; ASSAY_TRACEBACK=1 shows it
        if os.environ.get("ASSAY_TRACEBACK"):
            raise
        code = _tell(
            "bug", f"{type(e).__name__}: {e}", "this is a fault of assay; ASSAY_TRACEBACK=1 shows where", arguments
        )
    sys.exit(code)


def _tell(code: str, message: str, hint: str, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        click.echo(json.dumps({"code": code, "message": message, "hint": hint}))
    click.echo(f"assay: {message}", err=True)
    if hint:
        click.echo(f"       {hint}", err=True)
    return exits.ERROR
