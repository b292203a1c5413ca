"""The collector as one of many tasks whose output a scheduler mixes: short labelled lines that it passes on whole.

srun cuts what a task prints at 1024 bytes and puts the pieces of all tasks one after the other, in any order.
"""

import base64
import os
import zlib

from assay.node.collector import Collector, main as collect

SENTINEL = b"@assay:"
WIDTH = 1000  # bytes of a line with its end


class Framed(Collector):
    """A collector whose answers are compressed, cut and labelled: "@assay:NODE + piece", the last one with "."."""

    label = (os.environ.get("SLURMD_NODENAME") or os.uname().nodename).encode("utf-8", "surrogateescape")

    def say(self, raw: bytes) -> None:
        """Print one answer."""
        self.write(framed(self.label, raw))


def framed(label: bytes, raw: bytes) -> bytes:
    """The lines of one answer."""
    text = base64.b64encode(zlib.compress(raw, 1))
    size = WIDTH - len(SENTINEL) - len(label) - len(b" + \n")
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    lines = [b"%s%s + %s\n" % (SENTINEL, label, piece) for piece in pieces[:-1]]
    return b"".join(lines) + b"%s%s . %s\n" % (SENTINEL, label, pieces[-1])


def main(request: str) -> None:
    """Answer a request as the collector does."""
    collect(request, Framed)
