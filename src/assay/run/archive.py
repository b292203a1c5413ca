"""A run packed into one file to mail, and unpacked again. The same run gives the same bytes."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from assay.errors import StoreError
from assay.run.store import Run, write_whole

SUFFIX = ".assay"
_LIMIT_BYTES = 64 << 20
_LIMIT_RATIO = 20  # evidence is packed already: a real export shrinks by a half
_EPOCH = (1980, 1, 1, 0, 0, 0)
_PARTS = ("run.json", "chain.jsonl", "judgement.json", "head", "head.sig")


def export(run: Run, destination: Path) -> Path:
    """Write `run` as one file; never half a file."""
    parts = [p for name in _PARTS if (p := run.path / name).exists()]
    parts += sorted((run.path / "segments").glob("*.jsonl"))
    try:
        with tempfile.SpooledTemporaryFile(max_size=64 << 20) as draft:
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as packed:
                for part in parts:
                    entry = zipfile.ZipInfo(part.relative_to(run.path).as_posix(), _EPOCH)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o600 << 16
                    packed.writestr(entry, part.read_bytes())
            draft.seek(0)
            write_whole(destination, draft.read())
    except OSError as e:
        raise StoreError(f"cannot export to {destination}: {e.strerror}") from e
    return destination


def unpack(packed: Path, directory: Path) -> Run:
    """Unpack an exported run into `directory`; anything but the parts of a run is refused."""
    try:
        with zipfile.ZipFile(packed) as archive:
            _check(packed, archive.infolist())
            archive.extractall(directory)
    except StoreError:
        raise
    except Exception as e:  # a hostile file makes zipfile raise many things
        raise StoreError(f"{packed} is no exported run: {e}", hint="assay export RUN writes one") from e
    return Run(directory)


def _check(packed: Path, entries: list[zipfile.ZipInfo]) -> None:
    if not all(_is_part(e.filename) for e in entries):
        raise StoreError(f"{packed} holds something else than a run")
    size = sum(e.file_size for e in entries)
    if size > _LIMIT_BYTES + _LIMIT_RATIO * packed.stat().st_size:
        raise StoreError(f"{packed} would unpack to {size >> 20} MiB: it is no run")


def _is_part(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if folder == "segments":
        return file.endswith(".jsonl") and "\\" not in file
    return name in _PARTS
