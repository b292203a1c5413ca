"""A run on disk: created, continued, read.

Layout: run.json, segments/*.jsonl, chain.jsonl, judgement.json and the rebuildable index.sqlite.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

import msgspec

from assay.errors import StoreError
from assay.model import Job, RawFact, RunInfo
from assay.run import chain
from assay.run.index import Index, Place
from assay.run.record import Answered, Evidence, Finished, Opened, Record, Submitted, decode, pack, unpack
from assay.run.segment import SegmentWriter

_STAMP = "%Y%m%dT%H%M%SZ"


def new_id(target: str, now: float) -> str:
    """A run id that sorts by time, names its target and never repeats."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in target)[:40] or "target"
    return f"{datetime.fromtimestamp(now, timezone.utc):{_STAMP}}-{name}-{secrets.token_hex(2)}"


class Writer:
    """The one who appends to a run. Used as a context; how it ended is recorded."""

    def __init__(self, run: Path, verb: str, tool_version: str) -> None:
        self._run = run
        number = len(list((run / "segments").glob("*.jsonl")))
        opened = Opened(verb, time.time(), socket.gethostname(), os.getpid(), born(os.getpid()), tool_version)
        self._segment = SegmentWriter(run / "segments" / f"{number:04d}-{verb}-{secrets.token_hex(4)}.jsonl", opened)

    def fact(self, raw: RawFact) -> str:
        """Keep one raw answer; returns its evidence id."""
        evidence = pack(raw)
        self._segment.append(evidence)
        return evidence.id

    def answered(self, answer: Answered) -> None:
        """Note that a node is done."""
        self._segment.append(answer)

    def submitted(self, job: Job) -> None:
        """Note what is known of a job, before it is asked for."""
        self._segment.append(Submitted(time.time(), job))

    def finish(self, exit_reason: str) -> None:
        """Say how it ended, close and seal."""
        self._segment.append(Finished(time.time(), exit_reason))
        self._segment.close()
        chain.seal(self._run)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._segment.close()


class Run:
    """Everything recorded in one directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = _read_info(path)
        self._index: Index | None = None
        self._damage: dict[str, str] = {}

    @classmethod
    def create(cls, directory: Path, info: RunInfo) -> Run:
        """A new, empty run; private to this user."""
        path = directory / info.id
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.mkdir(mode=0o700)
            (path / "segments").mkdir(mode=0o700)
            write_whole(path / "run.json", msgspec.json.format(msgspec.json.encode(info)))
        except OSError as e:
            raise StoreError(f"cannot create a run in {directory}: {e.strerror}", hint="assay runs --help") from e
        return cls(path)

    def writer(self, verb: str, tool_version: str) -> Writer:
        """Append to this run under a segment of one's own."""
        return Writer(self.path, verb, tool_version)

    @property
    def index(self) -> Index:
        """Where everything lies; opened on first use."""
        if self._index is None:
            self._index = Index(self.path)
        return self._index

    def refresh(self) -> None:
        """Look at the segments anew."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def nodes(self) -> Iterator[tuple[str, list[tuple[str, RawFact]]]]:
        """(node, [(evidence id, raw answer)]) node by node; damaged evidence is left out and stands in `problems`."""
        for node in self.index.nodes():
            yield node, list(self.evidence(self.index.of_node(node)))

    def evidence(self, places: Iterable[Place]) -> Iterator[tuple[str, RawFact]]:
        """The raw answers at these places, each checked against its address."""
        for place in places:
            try:
                record = decode(self._bytes(place.segment, place.offset, place.length))
                if isinstance(record, Evidence):
                    yield record.id, unpack(record)
            except (ValueError, TypeError, msgspec.DecodeError, OSError) as e:
                self._damage[place.id] = f"{place.segment}: {e}"

    def answers(self) -> Iterator[Answered]:
        """The last word about each node."""
        return (record for record in self._records(self.index.answered()) if isinstance(record, Answered))

    def jobs(self) -> Iterator[Job]:
        """The last word about each job of a scheduler."""
        return (record.job for record in self._records(self.index.jobs()) if isinstance(record, Submitted))

    def _records(self, places: Iterable[tuple[str, str, int, int]]) -> Iterator[Record]:
        for name, segment, offset, length in places:
            try:
                yield decode(self._bytes(segment, offset, length))
            except (TypeError, msgspec.DecodeError, OSError) as e:
                self._damage[name] = f"{segment}: the word on {name} is damaged: {e}"

    @property
    def damaged(self) -> list[str]:
        """What of the evidence read so far turned out damaged."""
        return list(self._damage.values())

    def problems(self) -> list[str]:
        """What is damaged or no longer as it was sealed."""
        return [*self.index.problems(), *self._damage.values(), *chain.verify(self.path)]

    @property
    def exit_reason(self) -> str:
        """How the last writer ended; `interrupted` when it never said so."""
        writers = self.index.writers()
        return (writers[-1][2] or "interrupted") if writers else "empty"

    @property
    def alive(self) -> bool:
        """True when a writer without an end may still run: the same process here, or any on another host."""
        for _, opened, ended in self.index.writers():
            _, host, pid, started, *_ = [*opened.split(" "), "", "", ""]
            if ended is not None or not host:  # without a name it died before its first word
                continue
            if host != socket.gethostname() or (pid.isdigit() and born(int(pid)) == started != ""):
                return True
        return False

    def _bytes(self, segment: str, offset: int, length: int) -> bytes:
        with (self.path / "segments" / segment).open("rb") as file:
            file.seek(offset)
            return file.read(length)


def born(pid: int) -> str:
    """Start time of a process (clock ticks since boot), "" when there is none: pid and birth name it uniquely."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.chmod(0o600)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read_info(path: Path) -> RunInfo:
    try:
        info = msgspec.json.decode((path / "run.json").read_bytes(), type=RunInfo)
        datetime.fromtimestamp(info.started, timezone.utc)
    except FileNotFoundError as e:
        raise StoreError(f"{path} is no run", hint="assay runs lists them") from e
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as e:
        raise StoreError(f"{path}/run.json is damaged: {e}", hint="its segments are still readable text") from e
    except OSError as e:
        raise StoreError(f"cannot read {path}: {e.strerror}") from e
    return info
