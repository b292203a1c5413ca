"""Segments: files of one JSON record a line, each written by one writer only, never rewritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
from msgspec import Struct

from assay.errors import StoreError
from assay.run.record import LIMIT_BYTES, Record, decode, encode


class Line(Struct, frozen=True):
    """Where a record lies, and the record, or None with what is wrong with the line."""

    segment: str
    offset: int
    length: int
    record: Record | None
    problem: str = ""


class SegmentWriter:
    """Appends records to a new segment; a record is in the kernel's hands when `append` returns.

    The segment appears with its `first` record in it: nobody meets one that does not say whose it is.
    """

    def __init__(self, path: Path, first: Record) -> None:
        self.path = path
        self._count = 0
        draft = path.with_suffix(".new")
        try:
            self._fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                self.append(first)
                draft.rename(path)
            except BaseException:
                self.close()
                draft.unlink()
                raise
        except OSError as e:
            raise StoreError(f"cannot create {path}: {e.strerror}") from e

    def append(self, record: Record) -> None:
        """Write one record whole, or raise StoreError and leave the segment as it was."""
        data = encode(record) + b"\n"
        start = os.fstat(self._fd).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as e:
            os.ftruncate(self._fd, start)
            raise StoreError(
                f"cannot write to {self.path.parent.parent}: {e.strerror}; the {self._count} records so far are kept",
                hint="make room, then run the same command again: it goes on where it stopped",
            ) from e
        self._count += 1

    def close(self) -> None:
        """Flush to disk and close."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def lines(path: Path) -> Iterator[Line]:
    """Every line of a segment; a torn or damaged one is said and skipped, never fatal."""
    offset = 0
    try:
        with path.open("rb") as file:
            for number, (line, length) in enumerate(_bounded(file), 1):
                yield _line(path.name, offset, number, line, length)
                offset += length
    except OSError as e:
        yield Line(path.name, offset, 0, None, f"{path.name}: {e.strerror}")


def _bounded(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Lines and their lengths; of one longer than any record only the beginning is held."""
    while line := file.readline(LIMIT_BYTES):
        length, piece = len(line), line
        while not piece.endswith(b"\n") and (piece := file.readline(1 << 20)):
            length += len(piece)
        yield line, length


def _line(segment: str, offset: int, number: int, line: bytes, length: int) -> Line:
    problem = ""
    record: Record | None = None
    try:
        record = decode(line)
    except msgspec.DecodeError:
        torn = "torn" if not line.endswith(b"\n") else "damaged"
        problem = f"{segment}, line {number}: {torn} record of {length} bytes; the others are readable"
    return Line(segment, offset, length, record, problem)
