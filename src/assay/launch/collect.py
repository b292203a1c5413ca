"""Runs the collector on many nodes at once and yields what they answer, as it comes."""

from __future__ import annotations

import errno
import functools
import selectors
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from assay.errors import LaunchError
from assay.launch.answer import Answer, Hello, NodeDone
from assay.launch.payload import payload
from assay.launch.prefix import prefix
from assay.launch.session import Session
from assay.launch.wire import Wire
from assay.model import Probe, Target

__all__ = ["Answer", "Hello", "NodeDone", "collect"]

FULL = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
TURN_S = 0.1  # how often ends and time limits are looked at
END_S = 1.0  # between asking a process group to end and ending it


def collect(  # noqa: PLR0913 - the options are keywords
    target: Target,
    nodes: Iterable[str],
    probes: Iterable[Probe],
    *,
    on_note: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    root: str = "",
) -> Generator[Answer, None, None]:
    """Hello, raw facts and NodeDone of every node; closing the generator ends everything it started.

    At most `target.fanout` nodes at a time, each for at most `target.timeout_s`. Raises LaunchError when the
    access program cannot be started, ConfigError for a name that is no node name.
    """
    asked = tuple(probes)
    source = payload(asked, root=root, deadline_s=max(target.timeout_s - 2, target.timeout_s * 0.8))
    starts = [functools.partial(Session, prefix(target, n), source, Wire(n, asked), target.timeout_s) for n in nodes]
    yield from drive(starts, target.fanout, on_note=on_note, stop=stop)


Start = Callable[[selectors.BaseSelector], Session]


def drive(
    starts: Iterable[Start],
    width: int,
    *,
    on_note: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> Generator[Answer, None, None]:
    """What the sessions say, `width` of them at a time; closing the generator ends them all."""
    waiting = deque(starts)
    running: list[Session] = []
    with selectors.DefaultSelector() as selector:
        try:
            while (waiting or running) and not (stop and stop.is_set()):
                while waiting and len(running) < max(width, 1) and (session := _started(waiting[0], selector, running)):
                    waiting.popleft()
                    running.append(session)
                for answer in _turn(running, selector):
                    if on_note and isinstance(answer, NodeDone):
                        on_note(_note(answer))
                    yield answer
        finally:
            end_all(running)


def _started(start: Start, selector: selectors.BaseSelector, running: list[Session]) -> Session | None:
    """None when there is no room for one more now, and others will make some."""
    try:
        return start(selector)
    except LaunchError as e:
        if running and isinstance(e.__cause__, OSError) and e.__cause__.errno in FULL:
            return None
        raise


def _turn(running: list[Session], selector: selectors.BaseSelector) -> Iterator[Answer]:
    heard = set()
    for key, _ in selector.select(TURN_S):
        heard.add(key.data)
        yield from key.data.on_ready(key.fd)
    for session in list(running):
        if session.over(idle=session not in heard):
            running.remove(session)
            yield from session.finish()


def _note(done: NodeDone) -> str:
    return f"{done.node}: " + (done.missing.reason if done.missing else f"answered in {done.took_s:.1f} s")


def end_all(sessions: Iterable[Session]) -> None:
    """Ask every process group to end, then end it; none is left."""
    left = list(sessions)
    until = time.monotonic() + max([END_S, *(session.polite_s for session in left)])
    try:
        for session in left:
            session.signal(signal.SIGTERM)
        while any(not session.exited() for session in left) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        for session in left:
            session.close()
