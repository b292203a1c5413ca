"""`Key=value` records as scontrol prints them: several lines each, or one line each with -o."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

Record = dict[str, str]
Fields = Mapping[str, tuple[str, Callable[[str], Any]]]  # key -> (field of the Struct, how to read it)
Free = Mapping[str, frozenset[str]]  # key whose value may hold blanks -> the keys that can follow it on one line

_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:.\[\]-]*)=")
_SIGNED = re.compile(r".*\[[^\[\]@]*@(?:\d{4}-\d\d-\d\dT[\d:.]+|Unknown)\](?=\s|$)")
_SIGNED_ANYHOW = re.compile(r".*\[[^\[\]@]*@[^\[\]]*\](?=\s|$)")
_SIGNATURE = re.compile(r"(.*?)\s*\[([^\[\]@]*)@([^\[\]]*)\]\s*", re.DOTALL)
_REPEATED = frozenset({"Nodes", "GRES"})  # scontrol -d show job: one pair per group of nodes


class Records(Struct, frozen=True):
    """What was read, and the lines that belong to no record (errors among them)."""

    records: tuple[Record, ...]
    unread: tuple[str, ...] = ()


def records(text: str, first: str, free: Free) -> Records:
    """Split a text into records that begin with the key `first`."""
    found: list[Record] = []
    unread: list[str] = []
    for block in _blocks(text, f"{first}="):
        if not block[0].startswith(f"{first}="):
            unread += block
        elif len(block) == 1:
            record: Record = {}
            for key, value in _pairs(block[0], free, one_line=True):
                _put(record, key, value)
            found.append(record)
        else:
            record, loose = _joined(block, free)
            found.append(record)
            unread += loose
    return Records(tuple(found), tuple(unread))


def _blocks(text: str, head: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in text.split("\n"):
        bare = line.rstrip("\r")
        if bare.startswith(head) or (not bare.strip() and block):
            if block:
                yield block
            block = [bare] if bare.strip() else []
        elif bare.strip():
            if block and bare[0] not in " \t" and not _KEY.match(bare):
                yield block
                block = []
            block.append(bare)
    if block:
        yield block


def _joined(block: list[str], free: Free) -> tuple[Record, list[str]]:
    record: Record = {}
    loose: list[str] = []
    last = ""
    for line in block:
        pairs = list(_pairs(line.lstrip(), free, one_line=False))
        if pairs:
            for key, value in pairs:
                _put(record, key, value)
            last = pairs[-1][0]
        elif last in free:
            record[last] += "\n" + line.strip()
        else:
            loose.append(line)
    return record, loose


def _put(record: Record, key: str, value: str) -> None:
    if key not in record:
        record[key] = value
    elif key in _REPEATED:
        record[key] += "\n" + value


def _pairs(line: str, free: Free, *, one_line: bool) -> Iterator[tuple[str, str]]:
    starts = list(_KEY.finditer(line))
    i = 0
    while i < len(starts):
        key, begin = starts[i][1], starts[i].end()
        if key in free:
            end, i = _free_end(line, begin, key, (starts, i, free[key] if one_line else frozenset()))
            yield key, line[begin:end]
            continue
        i += 1
        end = starts[i].start() if i < len(starts) else len(line)
        yield key, line[begin:end].strip()


def _free_end(
    line: str, begin: int, key: str, where: tuple[list[re.Match[str]], int, frozenset[str]]
) -> tuple[int, int]:
    starts, i, enders = where
    least = begin
    if enders and key == "Reason" and (signed := _SIGNED.match(line, begin) or _SIGNED_ANYHOW.match(line, begin)):
        least = signed.end()
    for k in range(i + 1, len(starts)):
        if starts[k].start() >= least and starts[k][1] in enders:
            return starts[k].start() - 1, k
    return len(line), len(starts)


def signed(reason: str | None) -> tuple[str | None, str | None, str | None]:
    """A node's reason: the text, who set it and when, from the last bracket; (None, None, None) when there is none."""
    if not reason or not reason.strip() or reason.strip() == "(null)":
        return None, None, None
    found = _SIGNATURE.fullmatch(reason)
    return (found[1], found[2], found[3]) if found else (reason, None, None)


def filled(record: Record, fields: Fields) -> dict[str, Any]:
    """Field name -> value of the known keys, and "other": the unknown ones, verbatim."""
    values: dict[str, Any] = {}
    other: dict[str, str] = {}
    for key, text in record.items():
        if field := fields.get(key):
            values[field[0]] = field[1](text)
        else:
            other[key] = text
    values["other"] = other
    return values
