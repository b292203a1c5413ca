"""The collector's lines: bytes of one node in, answers out, whatever else the node prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, structs

from assay.launch.answer import Answer, Hello, NodeDone, unanswered
from assay.launch.outcome import End, why_ended
from assay.model import Missing, Probe, RawFact, Read

SENTINEL = b"@assay "
LINE_CAP = 96 << 20  # bytes of one answer; the collector stops a probe well before
LOG_CAP = 64 << 10  # bytes kept of what is no answer: banners, message of the day, complaints


class _Hello(Struct):
    host: str = ""
    uid: int = -1
    python: str = ""
    at: float = 0.0
    boot_id: str = ""


class _Bye(Struct):
    probes: int = 0


class _Line(Struct):
    hello: _Hello | None = None
    bye: _Bye | None = None
    probe: str = ""
    reads: tuple[Read, ...] = ()
    at: float = 0.0
    took_s: float = 0.0
    uid: int = -1


_DECODER = msgspec.json.Decoder(_Line)


class Wire:
    """One node's side of a collection. `open` = probes not answered; `garbage` = lines that only look like answers."""

    def __init__(self, node: str, asked: Iterable[Probe]) -> None:
        self.node = node
        self.open = {probe.name: probe for probe in asked}
        self.greeted = self.complete = False
        self.garbage = 0
        self.log = bytearray()
        self._rest = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[Answer]:
        """Answers completed by the next bytes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = bytes(self._rest) + line
            self._rest.clear()
            if self._skipping:
                self._skipping = False
            else:
                yield from self._line(whole)
        self._rest += rest
        if len(self._rest) > LINE_CAP or self._skipping:
            self.garbage += not self._skipping
            self._skipping = True
            self._rest.clear()

    def close(self) -> Iterator[Answer]:
        """The answer in a last line without an end, if there is one."""
        if self._rest and not self._skipping:
            yield from self._line(bytes(self._rest))
        self._rest.clear()

    def ended(self, end: End) -> Iterator[Answer]:
        """A reason for every probe without an answer, and the end."""
        yield from self.close()
        log = self.log.decode("utf-8", "backslashreplace")
        missing = why_ended(self.node, structs.replace(end, log=log, greeted=self.greeted, left=len(self.open)))
        yield from self.done(missing, end, log)

    def done(self, missing: Missing | None, end: End, log: str) -> Iterator[Answer]:
        """What is left open as unanswered, and the end."""
        if missing and self.greeted:
            yield from unanswered(self.node, self.open.values(), missing)
        yield NodeDone(self.node, missing is None, missing, end.stderr, log, self.garbage, end.took_s)

    def _line(self, line: bytes) -> Iterator[Answer]:
        before, sentinel, body = line.partition(SENTINEL)
        if before or not sentinel:
            self.log += (before + b"\n")[: LOG_CAP - len(self.log)]
        if sentinel and (answer := self._decode(body)):
            yield answer

    def _decode(self, body: bytes) -> Answer | None:
        try:
            line = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.garbage += 1
            return None
        if line.hello and not self.greeted:
            self.greeted = True
            return Hello(self.node, **msgspec.structs.asdict(line.hello))
        if self.open.pop(line.probe, None):
            return RawFact(line.probe, self.node, line.reads, line.at, line.took_s, line.uid)
        self.complete = self.complete or line.bye is not None
        self.garbage += line.bye is None
        return None
