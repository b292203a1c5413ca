"""Standard streams that may be closed, full or gone: messages never end us, a result that cannot be written does."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Forgiving(io.FileIO):
    """Takes what nobody may read: a full disk or a closed pipe behind stderr must not end an audit."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare() -> None:
    """Open what is closed on the null device, make stderr forgiving, and let no character be one too many."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest free descriptor is taken: the one that is missing
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if sys.stderr is sys.__stderr__ or sys.__stderr__ is None:
        raw = _Forgiving(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, "backslashreplace", write_through=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(result: str | bytes) -> None:
    """Print a result. Who closed the pipe has seen enough: the verb goes on to its exit code."""
    try:
        if isinstance(result, str):
            sys.stdout.write(result)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(result)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as e:
        _drop_output()
        raise OSError(e.errno, e.strerror, "standard output") from e


def flushed() -> bool:
    """False when stdout does not take what it still holds, which then goes nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
        return False
    return True


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
