"""Runs the real payload in a real Python on this machine, with fake tools on a PATH of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from assay.launch.answer import Hello
from assay.launch.payload import payload
from assay.launch.wire import Wire
from assay.model import Probe, RawFact, Read

PYTHON = (sys.executable, "-I", "-S", "-B", "-")
CALL = b"\nsys.modules['assay.node.collector'].main("


@dataclass
class Said:
    """What one run of the collector printed."""

    hello: Hello | None
    facts: dict[str, RawFact]
    complete: bool
    garbage: int
    rc: int
    stderr: str
    took_s: float
    extra: bytes = field(default=b"", repr=False)

    def read(self, key: str = "x", probe: str = "p") -> Read:
        return self.facts[probe].read(key)


def source(probes: list[Probe], patch: str = "", **options: Any) -> bytes:
    """The payload, with `patch` run just before the call."""
    program = payload(probes, **options)
    assert program.count(CALL) == 1
    return program.replace(CALL, b"\n" + patch.encode() + CALL) if patch else program


def heard(probes: list[Probe], stdout: bytes, rc: int, stderr: bytes, took_s: float) -> Said:
    wire = Wire("here", probes)
    answers = [*wire.feed(stdout), *wire.close()]
    hello = next((a for a in answers if isinstance(a, Hello)), None)
    facts = {a.probe: a for a in answers if isinstance(a, RawFact)}
    return Said(hello, facts, wire.complete, wire.garbage, rc, stderr.decode(), took_s, bytes(wire.log))


def run(probes: list[Probe], patch: str = "", argv: tuple[str, ...] = PYTHON, **kwargs: Any) -> Said:
    options = {name: kwargs.pop(name) for name in ("root", "parallel", "deadline_s") if name in kwargs}
    started = time.monotonic()
    done = subprocess.run(
        argv, input=source(probes, patch, **options), capture_output=True, timeout=30, check=False, **kwargs
    )
    return heard(probes, done.stdout, done.returncode, done.stderr, time.monotonic() - started)


def gone(pid: int, within_s: float = 3.0) -> bool:
    """True when the process ended in time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def pid_in(path: Path, within_s: float = 4.0) -> int:
    """The pid a fake tool wrote."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.01)
    pytest.fail(f"nothing wrote {path.name}")


@contextlib.contextmanager
def started(probes: list[Probe], **kwargs: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The collector as a running process."""
    process = subprocess.Popen(
        PYTHON, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    with process:
        try:
            assert process.stdin
            process.stdin.write(source(probes, **kwargs))
            process.stdin.close()
            yield process
        finally:
            process.kill()
