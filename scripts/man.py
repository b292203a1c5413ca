"""Write man/*.1 from the same texts as --help."""

import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from assay import __version__
from assay.cli.verbs import VERBS, assay
from assay.profiles import Profiles
from assay.profiles.method import Method


def write(directory: Path) -> None:
    """Write one page per verb into `directory`."""
    directory.mkdir(exist_ok=True)
    context = click.Context(assay, info_name="assay")
    assay.commands = {verb: command for verb in VERBS if (command := assay.get_command(context, verb))}
    write_man_pages("assay", assay, version=__version__, target_dir=str(directory), date=Profiles().get(Method).date)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "man")
