"""`python -m assay`."""

from assay.cli.main import run

run()
