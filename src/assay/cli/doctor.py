"""`assay doctor`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct

from assay import __version__
from assay.cli import exits
from assay.cli.output import json_option, say_json
from assay.cli.where import runs_directory
from assay.errors import AssayError

_EXTRAS = {
    "report": "altair",
    "rating": "scipy",
    "endpoint": "httptools",
    "kube": "kubernetes",
    "s3": "boto3",
    "mcp": "mcp",
}


class Line(Struct, frozen=True):
    """One thing looked at: `ok`, `note` (works without it) or `bad`."""

    state: str
    what: str
    hint: str = ""


@click.command(name="doctor")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this installation: Python, extras, ssh, where runs go, the method's tables."""
    lines = [*_python(), *_programs(), *_runs(), *_tables()]
    if as_json:
        say_json({"lines": lines})
    else:
        for line in lines:
            click.echo(f"{line.state:<5} {line.what}" + (f"\n      {line.hint}" if line.hint else ""))
    ctx.exit(exits.ERROR if any(line.state == "bad" for line in lines) else exits.OK)


def _python() -> Iterator[Line]:
    yield Line("ok", f"assay {__version__}, Python {platform.python_version()} ({sys.executable})")
    missing = [extra for extra, module in _EXTRAS.items() if importlib.util.find_spec(module) is None]
    if missing:
        yield Line(
            "note", f"extras not installed: {', '.join(missing)}", f"pip install 'assay[{missing[0]}]' when needed"
        )
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        yield Line(
            "note", f"output encoding is {sys.stdout.encoding}: glyphs are shown as ASCII", "export LC_ALL=C.UTF-8"
        )


def _programs() -> Iterator[Line]:
    for program, use in (("ssh", "targets of kind ssh"), ("ssh-keygen", "signing runs")):
        found = shutil.which(program)
        yield Line("ok", f"{program}: {found}") if found else Line("note", f"no {program}: needed for {use}")


def _runs() -> Iterator[Line]:
    directory = runs_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as e:
        yield Line("bad", f"runs cannot be written to {directory}: {e.strerror}", "set ASSAY_RUNS to another directory")
        return
    free = os.statvfs(directory)
    yield Line("ok", f"runs in {directory}, {free.f_bavail * free.f_frsize // 2**20} MiB free")


def _tables() -> Iterator[Line]:
    from assay.cli.target import method_profiles
    from assay.profiles.method import Method
    from assay.profiles.minimum_versions import MinimumVersions

    try:
        profiles = method_profiles(None)
        method, table = profiles.get(Method), profiles.get(MinimumVersions)
    except AssayError as e:
        yield Line("bad", e.message, e.hint)
        return
    where = Path(profiles.directory) if profiles.directory else None
    yield Line("ok", f"method {method.version} of {method.date}{f', with {where}' if where else ''}")
    age = (time.time() - time.mktime(table.generated.timetuple())) / 86400
    state = "ok" if age <= table.policy.max_age_days else "note"
    hint = "" if state == "ok" else "assay minimums import FILE takes a newer one"
    yield Line(state, f"minimum versions of {table.generated}, {age:.0f} days old", hint)
