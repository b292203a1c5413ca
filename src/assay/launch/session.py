"""One access process: the program goes in, answers come out, and nothing waits for it."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO, Protocol

from assay.errors import LaunchError
from assay.launch.answer import Answer
from assay.launch.outcome import End

CHUNK = 1 << 18
LAST_CHUNKS = 512  # chunks taken from a process that has ended
ERR_CAP = 1 << 16  # bytes of stderr kept
END_S = 0.3  # what a process whose time is up gets to end its children
LINGER_S = 10.0  # what one gets that has said everything


class Listener(Protocol):
    """Makes answers of what a process prints."""

    @property
    def complete(self) -> bool:
        """True when everything was said, whether the process ended or not."""

    def feed(self, chunk: bytes) -> Iterator[Answer]:
        """Answers completed by the next bytes."""

    def ended(self, end: End) -> Iterator[Answer]:
        """What is to be said once the process ended."""


class Session:
    """An access process, in a process session of its own, with a hard end.

    `polite_s` = what it gets to tidy up when it is asked to end; `linger_s` = to end by itself once all is said.
    """

    polite_s, linger_s = 0.0, LINGER_S

    def __init__(
        self, argv: tuple[str, ...], source: bytes, wire: Listener, timeout_s: float, selector: selectors.BaseSelector
    ) -> None:
        self.wire, self.timeout_s, self.selector = wire, timeout_s, selector
        self.started = time.monotonic()
        self.timed_out = False
        self._complete_at = 0.0
        self._input, self._stderr = memoryview(source), bytearray()
        self._process = _start(argv)
        self._pipes = [p for p in (self._process.stdin, self._process.stdout, self._process.stderr) if p]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            events = selectors.EVENT_WRITE if pipe is self._process.stdin else selectors.EVENT_READ
            selector.register(pipe, events, self)

    def on_ready(self, fd: int) -> Iterator[Answer]:
        """Write or read what the pipe `fd` is ready for."""
        pipe = next((p for p in self._pipes if p.fileno() == fd), None)
        if pipe is self._process.stdin:
            self._write(fd)
        elif pipe is not None:
            chunk = _read(fd)
            yield from self._take(pipe, chunk or b"")
            if chunk == b"":
                self._drop(pipe)

    def _take(self, pipe: IO[bytes], chunk: bytes) -> Iterator[Answer]:
        if pipe is self._process.stdout:
            yield from self.wire.feed(chunk)
        else:
            self._stderr = (self._stderr + chunk)[-ERR_CAP:]

    def _write(self, fd: int) -> None:
        try:
            self._input = self._input[os.write(fd, self._input[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it ended without reading everything; its exit status says more
            self._input = memoryview(b"")
        if not self._input and self._process.stdin:
            self._drop(self._process.stdin)

    def over(self, *, idle: bool) -> bool:
        """True when the process ended and said everything, or its time is up. `idle` = it said nothing just now.

        A node in the middle of a sentence gets more time, one that talks without end does not.
        """
        now = time.monotonic()
        self.timed_out = now - self.started > self.timeout_s * (1 if idle else 2)
        self._complete_at = self._complete_at or (now if self.wire.complete else 0)
        lingers = self._complete_at and now - self._complete_at > self.linger_s
        return bool(self.timed_out or lingers or (idle and self.exited()))

    def exited(self) -> bool:
        """True when the process ended. It is not reaped, so that its group keeps its number."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def finish(self) -> Iterator[Answer]:
        """The last words, and what the listener makes of the end."""
        ended = self.exited()
        if not ended:
            self._end()
        for pipe in [pipe for pipe in self._pipes if pipe is not self._process.stdin]:
            for chunk in itertools.takewhile(bool, (_read(pipe.fileno()) for _ in range(LAST_CHUNKS))):
                yield from self._take(pipe, chunk or b"")
        self.close()
        stderr = self._stderr.decode("utf-8", "backslashreplace")
        took_s = time.monotonic() - self.started
        yield from self.wire.ended(
            End(self._process.returncode if ended else None, stderr, self.timed_out, self.timeout_s, took_s)
        )

    def signal(self, number: int) -> None:
        """Signal the whole process group; what is gone or not ours is left."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def _end(self) -> None:
        """Ask the process group to end and give it the time to tidy up what it started."""
        self.signal(signal.SIGTERM)
        until = time.monotonic() + max(self.polite_s, END_S)
        while not self.exited() and time.monotonic() < until:
            time.sleep(0.01)

    def close(self) -> None:
        """End the process group, now."""
        self.signal(signal.SIGKILL)
        for pipe in list(self._pipes):
            self._drop(pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)

    def _drop(self, pipe: IO[bytes]) -> None:
        self.selector.unregister(pipe)
        self._pipes.remove(pipe)
        pipe.close()


def _start(argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            bufsize=0, start_new_session=True, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    except OSError as e:
        raise LaunchError(f"{argv[0]} cannot be started: {e.strerror}") from e


def _read(fd: int) -> bytes | None:
    """The next bytes, b"" at the end, None when there is nothing to read now."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
