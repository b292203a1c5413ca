"""Entry point: every error ends as one message and an exit code, never as a traceback."""

from __future__ import annotations

import os
import sys


def run(arguments: list[str] | None = None) -> None:
    """Run the command line. Everything else is imported inside, so that Ctrl-C finds us ready at any moment."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from assay.cli import streams

        streams.prepare()
        code = _outcome(given)
    except KeyboardInterrupt:
        code = _interrupted(given)
    _hold_signals()
    sys.exit(code)


def _hold_signals() -> None:
    """No second Ctrl-C while we go."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _outcome(arguments: list[str]) -> int:
    import click

    from assay.cli import exits, streams
    from assay.cli.verbs import assay
    from assay.errors import AssayError

    try:
        code = assay.main(arguments, prog_name="assay", standalone_mode=False)
        code = code if isinstance(code, int) else exits.OK
        sys.stdout.flush()
    except click.exceptions.Exit as e:
        code = e.exit_code
    except click.Abort:
        code = _interrupted(arguments)
    except click.ClickException as e:
        hint = e.ctx.command_path + " --help" if isinstance(e, click.UsageError) and e.ctx else ""
        code = _tell("usage", e.format_message(), hint, arguments)
    except AssayError as e:
        _tell(e.code, e.message, e.hint, arguments)
        code = e.exit_code
    except BrokenPipeError:
        streams.flushed()
        code = exits.OK
    except OSError as e:
        where = e.filename or ("" if streams.flushed() else "standard output")
        code = _tell("system", f"{where}{': ' if where else ''}{e.strerror or e}", "", arguments)
    except Exception as e:  # a traceback is of no use to the user; ASSAY_TRACEBACK=1 shows it
        if os.environ.get("ASSAY_TRACEBACK"):
            raise
        code = _bug(e, arguments)
    return code


def _bug(e: Exception, arguments: list[str]) -> int:
    if isinstance(e.__cause__, KeyboardInterrupt):  # Python wraps one that comes while a class is made
        return _interrupted(arguments)
    if sys.flags.optimize > 1:
        return _tell(
            "usage", "Python runs without docstrings; rules are read from them", "unset PYTHONOPTIMIZE", arguments
        )
    hint = "this is a fault of assay; ASSAY_TRACEBACK=1 shows where"
    return _tell("bug", f"{type(e).__name__}: {e}", hint, arguments)


def _interrupted(arguments: list[str]) -> int:
    _hold_signals()
    from assay.cli import exits

    _tell("interrupted", "interrupted", "", arguments)
    return exits.INTERRUPTED


def _tell(code: str, message: str, hint: str, arguments: list[str]) -> int:
    import json

    from assay.cli import exits, streams

    if "--json" in arguments:
        streams.say(json.dumps({"code": code, "message": message, "hint": hint}) + "\n")
    told = message if message == code else f"assay: {message}"
    sys.stderr.write(f"{told}\n" + (f"       {hint}\n" if hint else ""))
    return exits.ERROR
