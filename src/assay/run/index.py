"""The index: where each piece of evidence lies. A SQLite cache; delete it and it is rebuilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.run.record import Answered, Evidence, Finished, Opened, Submitted
from assay.run.segment import Line, lines

_SCHEMA = """
create table segment(name text primary key, size integer);
create table evidence(id text, node text, probe text, segment text, offset integer, length integer);
create index evidence_id on evidence(id);
create index evidence_node on evidence(node);
create table problem(segment text, text text);
create table answered(node text primary key, segment text, offset integer, length integer);
create table job(name text primary key, segment text, offset integer, length integer);
create table writer(segment text, opened text, exit_reason text);
"""
# what SQLite raises over a damaged file; text that is none comes as UnicodeDecodeError
_DAMAGED = (sqlite3.Error, UnicodeDecodeError)


class Place(Struct, frozen=True):
    """Where one piece of evidence lies."""

    id: str
    node: str
    probe: str
    segment: str
    offset: int
    length: int


class Index:
    """Queries over a run's segments, brought up to date when it is opened.

    Where the cache cannot be written, is damaged or is held by someone else, one in memory takes its place.
    """

    def __init__(self, run: Path) -> None:
        self._segments = run / "segments"
        try:
            self._db = _connect(str(run / "index.sqlite"))
            _update(self._db, self._segments)
        except _DAMAGED:
            self._rebuild()

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def nodes(self) -> list[str]:
        """Nodes with evidence, in the order of their names."""
        return [row[0] for row in self._rows("select distinct node from evidence order by node")]

    def of_node(self, node: str) -> list[Place]:
        """All evidence of one node, oldest first."""
        return self._places("node = ? order by rowid", node)

    def find(self, prefix: str) -> list[Place]:
        """Evidence whose id begins with `prefix` (hexadecimal)."""
        return self._places("id >= ? and id < ? order by rowid", prefix, prefix + "g")

    def seen(self) -> set[tuple[str, str]]:
        """(node, probe) of everything collected so far."""
        return set(self._rows("select node, probe from evidence"))

    def answered(self) -> list[tuple[str, str, int, int]]:
        """Node and place of the last word about each node."""
        return self._rows("select node, segment, offset, length from answered")

    def jobs(self) -> list[tuple[str, str, int, int]]:
        """Name and place of the last word about each job of a scheduler."""
        return self._rows("select name, segment, offset, length from job")

    def writers(self) -> list[tuple[str, str, str | None]]:
        """Segment, its `opened` record as JSON and how it ended (None = it did not)."""
        return self._rows("select segment, opened, exit_reason from writer order by segment")

    def problems(self) -> list[str]:
        """What is damaged."""
        return [row[0] for row in self._rows("select text from problem")]

    def _places(self, where: str, *values: str) -> list[Place]:
        query = f"select id, node, probe, segment, offset, length from evidence where {where}"  # noqa: S608 - fixed text
        return [Place(*row) for row in self._rows(query, *values)]

    def _rows(self, query: str, *values: str) -> list[Any]:
        try:
            return list(self._db.execute(query, values))
        except _DAMAGED:
            self._rebuild()
            return list(self._db.execute(query, values))

    def _rebuild(self) -> None:
        """Let go of a cache that cannot be used and read the segments into one in memory."""
        with suppress(AttributeError, *_DAMAGED):
            self._db.close()
        self._db = _connect(":memory:")
        _update(self._db, self._segments)


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=1)
    if not list(db.execute("select 1 from sqlite_master where name = 'job'")):
        for (table,) in list(db.execute("select name from sqlite_master where type = 'table'")):  # of an older release
            db.execute(f"drop table {table}")
        db.executescript(_SCHEMA)
    return db


def _update(db: sqlite3.Connection, segments: Path) -> None:
    known: dict[str, int] = dict(db.execute("select name, size from segment"))
    present = {path.name: path for path in sorted(segments.glob("*.jsonl"))}
    for name in known.keys() | present.keys():
        size = present[name].stat().st_size if name in present else -1
        if size != known.get(name):
            for table in ("evidence", "problem", "answered", "job", "writer"):
                db.execute(f"delete from {table} where segment = ?", (name,))  # noqa: S608 - fixed names
            db.execute("delete from segment where name = ?", (name,))
            if name in present:
                db.executemany("insert into evidence values (?, ?, ?, ?, ?, ?)", _read(db, present[name]))
                db.execute("insert into segment values (?, ?)", (name, size))
    db.commit()


def _read(db: sqlite3.Connection, path: Path) -> Iterator[tuple[str, str, str, str, int, int]]:
    opened, exit_reason = "", None
    for line in lines(path):
        record = line.record
        if isinstance(record, Evidence):
            yield (record.id, record.node, record.probe, line.segment, line.offset, line.length)
        elif isinstance(record, Answered):
            _put(db, "answered", record.node, line)
        elif isinstance(record, Submitted):
            _put(db, "job", record.job.name, line)
        elif isinstance(record, Opened):
            opened = f"{record.verb} {record.host} {record.pid} {record.born} {record.at}"
        elif isinstance(record, Finished):
            exit_reason = record.exit_reason
        else:
            db.execute("insert into problem values (?, ?)", (path.name, line.problem))
    db.execute("insert into writer values (?, ?, ?)", (path.name, opened, exit_reason))


def _put(db: sqlite3.Connection, table: str, key: str, line: Line) -> None:
    query = f"insert or replace into {table} values (?, ?, ?, ?)"  # noqa: S608 - fixed names
    db.execute(query, (key, line.segment, line.offset, line.length))
