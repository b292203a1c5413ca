"""One access process: the program goes in, answers come out, and nothing waits for it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO

from assay.errors import LaunchError
from assay.launch.answer import Answer, NodeDone, unanswered
from assay.launch.outcome import End, why_ended
from assay.launch.wire import Wire

CHUNK = 1 << 18
ERR_CAP = 1 << 16  # bytes of stderr kept


class Session:
    """A node's access process, in a process session of its own, with a hard end."""

    def __init__(
        self, argv: tuple[str, ...], source: bytes, wire: Wire, timeout_s: float, selector: selectors.BaseSelector
    ) -> None:
        self.wire, self.timeout_s, self.selector = wire, timeout_s, selector
        self.started = time.monotonic()
        self.timed_out = False
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
        if pipe is None:
            return
        try:
            if pipe is self._process.stdin:
                self._input = self._input[os.write(fd, self._input[:CHUNK]) :]
                ended = not self._input
            else:
                chunk = os.read(fd, CHUNK)
                ended = not chunk
                if pipe is self._process.stdout:
                    yield from self.wire.feed(chunk)
                else:
                    self._stderr = (self._stderr + chunk)[-ERR_CAP:]
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._drop(pipe)

    def over(self, *, idle: bool) -> bool:
        """True when the process ended and said everything, or its time is up. `idle` = it said nothing just now."""
        if not idle:
            return False
        self.timed_out = time.monotonic() - self.started > self.timeout_s
        return self.timed_out or self.exited()

    def exited(self) -> bool:
        """True when the process ended. It is not reaped, so that its group keeps its number."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def finish(self) -> Iterator[Answer]:
        """The last words, a reason for every probe without an answer, and the end."""
        yield from self.wire.close()
        ended = self.exited()
        self.close()
        stderr = self._stderr.decode("utf-8", "backslashreplace")
        log = self.wire.log.decode("utf-8", "backslashreplace")
        end = End(
            self._process.returncode if ended else None, stderr, log,
            self.wire.greeted, len(self.wire.open), self.timed_out, self.timeout_s,
        )  # fmt: skip
        missing = why_ended(self.wire.node, end)
        if missing and self.wire.greeted:
            yield from unanswered(self.wire.node, self.wire.open.values(), missing)
        took_s = time.monotonic() - self.started
        yield NodeDone(self.wire.node, missing is None, missing, stderr, log, self.wire.garbage, took_s)

    def signal(self, number: int) -> None:
        """Signal the whole process group; what is gone or not ours is left."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

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
