"""The chain of hashes over a run's segments: what was sealed cannot change unnoticed.

head_0 = sha256(run.json); head_n = sha256(head_{n-1} || segment || start || end || sha256(bytes)).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.errors import StoreError

_SEGMENT = re.compile(r"[\w.-]{1,200}\.jsonl")


class Link(Struct, frozen=True):
    """One sealed stretch of a segment. `head` covers it and everything before it."""

    segment: str
    start: int
    end: int
    sha256: str
    head: str

    def __post_init__(self) -> None:
        if not (_SEGMENT.fullmatch(self.segment) and 0 <= self.start <= self.end):
            raise ValueError("not a stretch of a segment")


def links(run: Path) -> list[Link]:
    """The chain so far, oldest first; a damaged chain is a StoreError."""
    path = run / "chain.jsonl"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        return [msgspec.json.decode(line, type=Link) for line in text.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise StoreError(f"{path} is damaged: {e}", hint="the evidence is still readable: assay show RUN") from e


def head(run: Path) -> str:
    """The digest that a signature or a publication names."""
    chain = links(run)
    return chain[-1].head if chain else _first(run)


def seal(run: Path) -> str:
    """Chain every byte not yet chained; return the new head."""
    chain = links(run)
    last = chain[-1].head if chain else _first(run)
    ends = {link.segment: link.end for link in chain}
    new: list[Link] = []
    for path in sorted((run / "segments").glob("*.jsonl")):
        start, end = ends.get(path.name, 0), path.stat().st_size
        if end > start:
            link = _link(last, path, start, end)
            last = link.head
            new.append(link)
    if new:
        _append(run / "chain.jsonl", b"".join(msgspec.json.encode(link) + b"\n" for link in new))
    return last


def verify(run: Path) -> list[str]:
    """What no longer is as it was sealed; empty when everything is."""
    try:
        chain, last = links(run), _first(run)
    except (StoreError, OSError) as e:
        return [str(e)]
    problems = []
    for link in chain:
        if why := _changed(run, link, last):
            problems.append(f"{link.segment}: bytes {link.start} to {link.end} {why}")
        last = link.head
    return problems


def _changed(run: Path, link: Link, last: str) -> str:
    path = run / "segments" / link.segment
    try:
        if path.stat().st_size < link.end:
            return "were sealed and are gone"
        return "" if _link(last, path, link.start, link.end).head == link.head else "differ from what was sealed"
    except FileNotFoundError:
        return "were sealed and are gone"
    except OSError as e:
        return f"cannot be read: {e.strerror}"


def _first(run: Path) -> str:
    return hashlib.sha256((run / "run.json").read_bytes()).hexdigest()


def _link(last: str, path: Path, start: int, end: int) -> Link:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        left = end - start
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    content = digest.hexdigest()
    head_now = hashlib.sha256(f"{last}|{path.name}|{start}|{end}|{content}".encode()).hexdigest()
    return Link(path.name, start, end, content, head_now)


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as e:
        raise StoreError(f"cannot seal {path.parent}: {e.strerror}") from e
