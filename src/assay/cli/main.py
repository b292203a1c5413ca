"""The `assay` command."""

from __future__ import annotations


def run() -> None:
    """Entry point."""
