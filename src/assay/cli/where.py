"""Where runs lie and how a person names one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from assay.errors import StoreError, UsageError
from assay.run.store import Run


def runs_directory() -> Path:
    """$ASSAY_RUNS, else [runs] directory of assay.toml, else the user's state directory, else ./assay-runs."""
    from assay.launch.config import load

    if own := os.environ.get("ASSAY_RUNS"):
        return Path(own)
    if configured := load().runs_directory:
        return configured
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state) / "assay" / "runs"
    home = os.environ.get("HOME")
    return Path(home) / ".local" / "state" / "assay" / "runs" if home else Path("assay-runs")


def run_paths(directory: Path) -> Iterator[Path]:
    """The runs in a directory, newest first."""
    try:
        # os.path: somebody else's run, closed to us, is none of ours
        entries = sorted((p for p in directory.iterdir() if os.path.exists(p / "run.json")), reverse=True)  # noqa: PTH110
    except FileNotFoundError:
        return
    except OSError as e:
        raise StoreError(f"cannot read {directory}: {e.strerror}", hint="set ASSAY_RUNS to another directory") from e
    yield from entries


def open_run(name: str) -> Run:
    """`last`, an id or its beginning, a directory, or an exported file."""
    path = Path(name)
    if path.is_dir() and (path / "run.json").exists():
        return Run(path)
    if path.is_file():
        return _unpacked(path)
    directory = runs_directory()
    found = [p for p in run_paths(directory) if name == "last" or p.name.startswith(name)]
    if name == "last":
        found = found[:1]
    if len(found) == 1:
        return Run(found[0])
    if found:
        raise UsageError(f"{name!r} is the beginning of {len(found)} runs", hint="assay runs lists them")
    raise UsageError(f"no run {name!r} in {directory}", hint="assay runs lists them; a directory or file works too")


def _unpacked(packed: Path) -> Run:
    from assay.run.archive import unpack

    directory = Path(tempfile.mkdtemp(prefix="assay-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return unpack(packed, directory)
