"""Tables as sinfo, squeue and sacct print them: by format string, by header, by fixed width.

Never `str.strip()` or `splitlines()` here: both take the separator 0x1F (and others) for blank.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

BLANK = " \t\r\n"
_O_COLUMN = re.compile(r"%\.?(\d*)([A-Za-z])")
_FIELD = re.compile(r"\s*([\w-]+)\s*(:\.?(\d*)(.*))?", re.DOTALL)
# Column -> the shape of its text; None = free text, which may contain the separator. Others have no known shape.
Shapes = Mapping[str, re.Pattern[str] | None]
_DEFAULT_WIDTH = 20  # of a -O field without ":"
_CUT_BYTE = "\ufffd"


class Column(Struct, frozen=True):
    """One column. `after` is the text up to the next one; `width` in bytes, None when it grows."""

    name: str
    width: int | None = None
    after: str = ""


class Row(Struct, frozen=True):
    """Column -> text, and the columns whose text fills their width, so that the rest may have been cut off."""

    values: dict[str, str]
    cut: tuple[str, ...] = ()


class Table(Struct, frozen=True):
    """Rows, and lines that fit no row or fit it in two ways."""

    rows: tuple[Row, ...]
    unread: tuple[str, ...] = ()


TIME = re.compile(r"[\d:.-]*|INVALID|UNLIMITED|infinite|N/A|NOT_SET|Partition_Limit|Unknown|None", re.IGNORECASE)
COUNT = re.compile(r"\d*[KMG]?")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+|N/A|Unknown|None|NONE|")
STATE = re.compile(r"[A-Za-z_]+[*~#!%$@^+-]*(?: by \S+)?")
_FREE = ("reason", "comment", "extra", "name", "where", "command", "work_dir", "dependency", "features")
SHAPES: Shapes = (
    dict.fromkeys(("time", "limit", "left", "time_limit"), TIME)
    | dict.fromkeys(("count", "cpus", "uid", "memory", "priority", "jobid", "array_job_id"), COUNT)
    | dict.fromkeys(("start", "end", "submit", "reason_at"), STAMP)
    | {"state": STATE, "label": re.compile(r"\d+(?:_\S+|\+\d+)?")}
    | dict.fromkeys(_FREE)
)


def by_letters(spec: str, letters: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns of a -o format such as `%n|%E|%H`. Raises ValueError when there is none in it."""
    found = list(_O_COLUMN.finditer(spec))
    ends = [*(m.start() for m in found[1:]), len(spec)]
    columns = tuple(
        Column(letters.get(m[2], m[2]), int(m[1]) if m[1] else None, spec[m.end() : end])
        for m, end in zip(found, ends, strict=True)
    )
    if not columns:
        raise ValueError(f"no column in the format {spec!r}")
    return columns


def by_fields(spec: str, names: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns of a -O format such as `JobID:|,State:20`. Raises ValueError when there is none in it."""
    columns: list[Column] = []
    for part in spec.split(","):
        found = _FIELD.fullmatch(part)
        if not found:
            raise ValueError(f"no column in the format {part!r}")
        width = (int(found[3]) if found[3] else None) if found[2] else _DEFAULT_WIDTH
        name = found[1].lower().replace("-", "").replace("_", "")
        columns.append(Column(names.get(name, name), width, found[4] or ""))
    return tuple(columns)


def table(text: str, columns: Sequence[Column], free: Shapes, heads: Collection[str]) -> Table:
    """Read the lines by their columns; `heads` are the words of a header line."""
    rows: list[Row] = []
    unread: list[str] = []
    for line in text.split("\n"):
        if not line.strip(BLANK):
            continue
        cells = split(line.rstrip("\r"), columns, free)
        if cells is None:
            unread.append(line)
        elif rows or not _is_header(cells, heads):
            rows.append(_row(cells, columns))
    return Table(tuple(rows), tuple(unread))


def _is_header(cells: Sequence[str], heads: Collection[str]) -> bool:
    words = [cell.strip(BLANK) for cell in cells]
    return any(words) and all(word.upper() == word and word.lower() in heads for word in words if word)


def _row(cells: Sequence[str], columns: Sequence[Column]) -> Row:
    values: dict[str, str] = {}
    cut: list[str] = []
    for cell, column in zip(cells, columns, strict=True):
        text = cell.strip(BLANK)
        if column.width and len(narrow(text)) >= column.width:
            cut.append(column.name)
        if column.name not in values or not values[column.name]:
            values[column.name] = text
        elif text != values[column.name]:
            values.setdefault(f"{column.name}#2", text)
    return Row(values, tuple(cut))


def split(line: str, columns: Sequence[Column], free: Shapes) -> list[str] | None:
    """The cells of one line, or None when the line fits the columns in no way or in two."""
    between = [c.after for c in columns[:-1]]
    if between and all(sep.strip(BLANK) for sep in between):
        return separated(line, columns, free)
    if not any(between) and all(c.width for c in columns):
        return sliced(line, [c.width or 0 for c in columns])
    if all(c.width for c in columns[:-1]) and all(sep.isspace() for sep in between):
        widths = [(c.width or 0) + len(c.after) for c in columns[:-1]]
        return sliced(line, [*widths, 1 << 20])
    return _words(line, columns, free)


def separated(line: str, columns: Sequence[Column], free: Shapes) -> list[str] | None:
    """Split at the separators; what is too much belongs to the one free column with which all shapes fit."""
    seps = {c.after for c in columns[:-1]}
    if len(seps) > 1:
        return _unlike(line, columns, free)
    sep = seps.pop()
    parts = line.split(sep)
    closed = not parts[-1].strip(BLANK)  # a row may end in a separator that its header does not have
    if closed and columns[-1].after == sep and len(parts) > len(columns):
        return _placed(parts[:-1], columns, free, sep)
    return _placed(parts, columns, free, sep) or (_placed(parts[:-1], columns, free, sep) if closed else None)


def _placed(parts: list[str], columns: Sequence[Column], free: Shapes, sep: str) -> list[str] | None:
    spare = len(parts) - len(columns)
    if spare <= 0:
        return parts if spare == 0 else None
    for i, column in enumerate(columns):
        if free.get(column.name, column) is None:
            cells = [*parts[:i], sep.join(parts[i : i + spare + 1]), *parts[i + spare + 1 :]]
            if _shaped(cells, columns, free):
                return cells
    return None


def _shaped(cells: Sequence[str], columns: Sequence[Column], shapes: Shapes) -> bool:
    wanted = ((shapes.get(column.name), cell.strip(BLANK)) for cell, column in zip(cells, columns, strict=True))
    return all(shape is None or shape.fullmatch(cell) for shape, cell in wanted)


def _unlike(line: str, columns: Sequence[Column], free: Shapes) -> list[str] | None:
    """Separators that differ: from both ends towards the first free column."""
    at = next((i for i, c in enumerate(columns) if free.get(c.name, c) is None), len(columns) - 1)
    rest = line
    left: list[str] = []
    right: list[str] = []
    for column in columns[:at]:
        head, sep, rest = rest.partition(column.after)
        left.append(head)
        if not sep:
            return None
    for column in reversed(columns[at:-1]):
        rest, sep, tail = rest.rpartition(column.after)
        right.append(tail)
        if not sep:
            return None
    return [*left, rest, *reversed(right)]


def _words(line: str, columns: Sequence[Column], free: Shapes) -> list[str] | None:
    at = next((i for i, c in enumerate(columns) if free.get(c.name, c) is None), len(columns) - 1)
    tail = len(columns) - at - 1
    head = line.strip(BLANK).split(None, at)
    if len(head) <= at:
        missing = [""] * (len(columns) - len(head))
        return [*head, *missing] if len(head) == len(columns) - 1 else None
    rest = head.pop().rsplit(None, tail)
    if at == len(columns) - 1 and free.get(columns[at].name, at) is not None and " " in rest[0].strip(BLANK):
        return None
    return [*head, *rest] if len(rest) == tail + 1 else None


def sliced(line: str, widths: Sequence[int]) -> list[str]:
    """Cut by widths in bytes, as Slurm pads; a byte that was no UTF-8 counts as one."""
    data = narrow(line)
    cells: list[str] = []
    begin = 0
    for width in widths:
        piece = data[begin : begin + width]
        cells.append(piece.decode("utf-8", "replace").replace("\x00", _CUT_BYTE))
        begin += width
    return cells


def narrow(text: str) -> bytes:
    """Bytes as Slurm counted them: each replacement character was one byte of something else."""
    return text.replace(_CUT_BYTE, "\x00").encode("utf-8", "replace")


def aliases(spec: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """From `canonical -> "letters| fields and headers"`: letter -> canonical, and lower-case word -> canonical."""
    letters: dict[str, str] = {}
    words: dict[str, str] = {}
    for name, text in spec.items():
        short, _, long = text.partition("|")
        letters |= dict.fromkeys(short.split(), name)
        words |= dict.fromkeys(long.split(), name)
    return letters, words


def by_header(line: str, words: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns of a header line with separators other than blanks. Raises ValueError when there is none."""
    found = re.match(r"[\w():/]+ *([^\w\s():/]+|\x1f)(?=[\w#])", line)
    if not found:
        raise ValueError("no header with separators in the first line")
    sep = found[1]
    heads = [cell.strip(BLANK) for cell in line.rstrip("\r\n").split(sep)]
    closed = not heads[-1]
    names = [words.get(h.lower().replace(" ", ""), h.lower()) for h in (heads[:-1] if closed else heads)]
    ends = [sep] * (len(names) - 1) + [sep if closed else ""]
    return tuple(Column(name, None, end) for name, end in zip(names, ends, strict=True))
