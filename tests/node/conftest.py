"""A collector to ask, and a PATH to put fake tools on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.model import Probe, Step
from on_node import Said, run


@pytest.fixture
def ask() -> Callable[..., Said]:
    """Run the steps as one probe called "p"; `probe` holds its options, the rest goes to the process."""

    def asked(*steps: Step, probe: dict[str, Any] | None = None, **kwargs: Any) -> Said:
        said = run([Probe("p", steps, **(probe or {}))], **kwargs)
        assert said.complete, said.stderr
        assert said.garbage == 0
        return said

    return asked


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put an executable script on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def made(name: str, script: str) -> Path:
        path = directory / name
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return made
