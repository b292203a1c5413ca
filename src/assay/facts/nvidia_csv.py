"""`nvidia-smi --query-... --format=csv`: whatever columns were asked for, named by the header."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.nvidia_errors import smi_failure

_COLUMN = re.compile(r"^[A-Za-z]\w*(?:\.\w+)*(?: \[[^\]]+\])?$")
_UNIT = re.compile(r" \[([^\]]+)\]$")
_CELL = re.compile(r"^(-?\d+(?:\.\d+)?)(?: (?:MiB|%|W|W/s|MHz|us|ms|s|seconds|C))?$")
_NOTHING = frozenset({"", "N/A", "Not Found", "Not Supported", "Requested functionality has been deprecated"})
_ERRORS = frozenset({"Unknown Error", "GPU requires reset", "GPU is lost", "Insufficient Permissions", "ERR!"})
_TEXT_COLUMNS = ("process_name", "name", "gpu_name")


class SmiCsv(Struct, frozen=True, kw_only=True):
    """Cells as printed, by column as printed (with its unit). `complete` is false when the last row is cut off."""

    columns: tuple[str, ...] = ()
    rows: tuple[dict[str, str], ...] = ()
    complete: bool = True

    def values(self, row: int) -> dict[str, float | str | None]:
        """One row by name without unit: numbers as numbers, None for every spelling of "no value"."""
        return {_UNIT.sub("", column): cell_value(cell) for column, cell in self.rows[row].items()}

    def errors(self, row: int) -> dict[str, str]:
        """Cells of a row that hold an error in place of a value."""
        return {c: cell.strip("[]") for c, cell in self.rows[row].items() if cell.strip("[]") in _ERRORS}


def cell_value(cell: str) -> float | str | None:
    """A number with or without its unit, a text, or None."""
    bare = cell.strip("[]") if cell.startswith("[") else cell
    if bare in _NOTHING or bare in _ERRORS:
        return None
    found = _CELL.match(cell)
    return float(found[1]) if found else cell


def parse_csv(text: str) -> SmiCsv:
    """Header and rows; ValueError for a text without the header, with the tool's complaint where it is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    columns = tuple(cell.strip() for cell in lines[0].split(",")) if lines else ()
    if not columns or not all(map(_COLUMN.match, columns)):
        failure = smi_failure(text)
        raise ValueError(failure.message if failure else "no header line of nvidia-smi --format=csv")
    cells = [_cells(line, columns) for line in lines[1:]]
    whole = tuple(dict(zip(columns, row, strict=True)) for row in cells if len(row) == len(columns))
    return SmiCsv(columns=columns, rows=whole, complete=len(whole) == len(cells))


def _cells(line: str, columns: tuple[str, ...]) -> list[str]:
    """The cells of a line; commas inside a process name are put back together."""
    cells = [cell.strip() for cell in line.split(", ")]
    extra = len(cells) - len(columns)
    where = next((columns.index(c) for c in _TEXT_COLUMNS if c in columns), None)
    if extra > 0 and where is not None:
        cells[where : where + extra + 1] = [", ".join(cells[where : where + extra + 1])]
    return cells


FORMATS: dict[str, Callable[[str], Any]] = {
    f"nvidia-smi --query-{what} --format=csv": parse_csv
    for what in ("gpu", "compute-apps", "accounted-apps", "retired-pages", "remapped-rows", "supported-clocks")
}
