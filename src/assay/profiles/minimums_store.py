"""Taking over a newer table of minimum versions."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from assay.errors import ConfigError
from assay.profiles import decode
from assay.profiles.minimum_versions import MinimumVersions

LARGEST = 4 << 20


def read_table(text: str, source: str) -> MinimumVersions:
    """The table in a TOML text, checked against its schema; ConfigError names `source`."""
    return decode(MinimumVersions, text, source)


def describe(table: MinimumVersions) -> str:
    """One line: how many numbers of what, from when and where."""
    ranges = sum(len(c.affected) for c in table.components.values())
    floors = sum(
        len(c.branches) + len(c.products) + sum(f is not None for f in (c.minimum, c.other_trains))
        for c in table.components.values()
    )
    return (
        f"{len(table.components) + len(table.windows)} components with {floors} floors and {ranges} affected ranges, "
        f"{len(table.ubuntu)} fixes of Ubuntu; of {table.generated}; {table.source}"
    )


def import_table(file: Path, destination: Path) -> MinimumVersions:
    """Check `file` and put it at `destination` (a method directory or the file in it), whole or not at all.

    The text is kept as it came, comments included; the copy is readable by its owner only. Nothing refuses an
    older table: the caller compares `generated` and says so.
    """
    text = _text(file)
    table = read_table(text, str(file))
    target = destination / MinimumVersions.file if destination.is_dir() else destination
    _put(target, text)
    return table


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise ConfigError(f"{file}: larger than a table of versions can be", hint="is it the right file?")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"cannot read {file}: {e}") from e


def _put(target: Path, text: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            Path(draft).replace(target)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as e:
        raise ConfigError(f"cannot write {target}: {e}") from e
