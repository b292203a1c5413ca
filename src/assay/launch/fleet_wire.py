"""Many nodes over one stream: the framed lines that the tasks of one job print, in any order."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from assay.launch.answer import Answer, NodeDone
from assay.launch.outcome import End
from assay.launch.slurm_script import Group
from assay.launch.slurm_words import Trouble, contact_lost, lines_about, trouble, why_silent
from assay.launch.wire import LINE_CAP, LOG_CAP, SENTINEL as LINE, Wire
from assay.model import Job, Missing, Probe

SENTINEL = b"@assay:"
LONGEST = 4096  # bytes of a line; the collector's are shorter by far
TEXT_CAP = LINE_CAP * 3 // 2  # of the compressed, encoded pieces of one answer


class FleetWire:
    """The answers of one job. `aliases` = host name -> node, for nodes that do not know what Slurm calls them.

    `trouble` = why no task started at all (`earlier` = by srun, before sbatch was tried); then the nodes have no end
    here, since the job may be asked for again.
    """

    def __init__(self, job: Job, asked: Iterable[Probe], aliases: Mapping[str, str], group: Group) -> None:
        probes = tuple(asked)
        self.job, self.aliases, self.group = job, aliases, group
        self.wires = {node: Wire(node, probes) for node in job.nodes}
        self.open = dict.fromkeys(job.nodes)
        self.trouble: Trouble | None = None
        self.lost = self.earlier = ""
        self.log = bytearray()
        self._pieces: dict[str, bytearray] = {}
        self._rest = bytearray()

    @property
    def complete(self) -> bool:
        """True when every node has answered everything."""
        return not self.open

    @property
    def greeted(self) -> bool:
        """True when any task started."""
        return any(wire.greeted for wire in self.wires.values())

    def feed(self, chunk: bytes) -> Iterator[Answer]:
        """Answers completed by the next bytes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = bytes(self._rest) + line
            self._rest.clear()
            yield from self._line(whole)
        self._rest += rest
        if len(self._rest) > LONGEST:
            self._cut()

    def _cut(self) -> None:
        """Let go of what cannot be part of a frame. A frame may stick to the end of somebody else's endless line."""
        at = self._rest.rfind(SENTINEL)
        if at < 0 or len(self._rest) - at > LONGEST:
            at = len(self._rest) - len(SENTINEL) + 1
        self._note(self._rest[:at])
        del self._rest[:at]

    def _line(self, line: bytes) -> Iterator[Answer]:
        before, sentinel, frame = line.rpartition(SENTINEL)
        if not sentinel or before:
            self._note(before or line)
        if not sentinel:
            return
        label, _, rest = frame.partition(b" ")
        flag, _, piece = rest.partition(b" ")
        node = self._node(label.decode("utf-8", "replace"))
        if node not in self.open or flag not in (b"+", b"."):
            self._note(b"an answer of " + label[:64])
            return
        pieces = self._pieces.setdefault(node, bytearray())
        if len(pieces) < TEXT_CAP:
            pieces += piece
        if flag == b".":
            del self._pieces[node]
            yield from self._answer(node, bytes(pieces))

    def _answer(self, node: str, text: bytes) -> Iterator[Answer]:
        wire = self.wires[node]
        try:
            unpacker = zlib.decompressobj()
            raw = unpacker.decompress(base64.b64decode(text, validate=True), LINE_CAP)
        except (binascii.Error, zlib.error):
            wire.garbage += 1
            return
        yield from wire.feed(LINE + raw + b"\n")
        if wire.complete and not wire.open:
            del self.open[node]
            yield NodeDone(node, ok=True, garbage=wire.garbage)

    def _node(self, label: str) -> str:
        return label if label in self.wires else self.aliases.get(label, "")

    def _note(self, line: bytes | bytearray) -> None:
        self.log += (line + b"\n")[: max(LOG_CAP - len(self.log), 0)]

    def ended(self, end: End) -> Iterator[Answer]:
        """The ends of the nodes that said less than everything, and of the job."""
        if not (self.complete and self.job.method == "sbatch"):  # a batch job's end is seen in its output
            self.lost = contact_lost(end.stderr)
        self.trouble = None if self.greeted else trouble(end.stderr)
        if not self.trouble:
            for node in list(self.open):
                yield from self._gap(node, end)
        if not self.lost:
            yield structs.replace(self.job, state="ended")

    def _gap(self, node: str, end: End) -> Iterator[Answer]:
        wire, missing = self.wires[node], None
        if left := len(wire.open):
            missing = why_silent(node, end.stderr, greeted=wire.greeted, left=left, timed_out=end.timed_out)
        told = f"{end.stderr}\n{self.log.decode('utf-8', 'replace')}"
        yield from wire.done(missing, structs.replace(end, stderr=""), "\n".join(lines_about(node, told)))

    @property
    def words(self) -> str:
        """Why no task started, by every way that was tried."""
        return "; ".join(filter(None, (self.earlier, self.trouble.words if self.trouble else "")))

    def refused(self) -> Iterator[Answer]:
        """The ends of nodes whose job did not start."""
        busy = self.trouble is not None and self.trouble.kind == "busy"
        for node in self.open:
            missing = Missing("not-asked" if busy else "failed", self.words)
            yield NodeDone(node, ok=False, missing=missing)
