"""The line a `Stat` step answers per path: "type mode uid gid rdev access"."""

from __future__ import annotations

from msgspec import Struct


class PathState(Struct, frozen=True):
    """One path as the reader saw it. `mode` = permission bits; `access` = what the reader may do (r, w, x)."""

    path: str
    kind: str = ""
    mode: int = 0
    uid: int = -1
    gid: int = -1
    access: str = ""

    @property
    def open_to_all(self) -> bool:
        """True when users outside the owner and the group may read or write."""
        return bool(self.mode & 0o006)


def path_states(lines: dict[str, str]) -> tuple[PathState, ...]:
    """Every path that could be looked at, by path; ValueError on a line of another shape."""
    return tuple(_path_state(path, line.split()) for path, line in sorted(lines.items()))


def _path_state(path: str, words: list[str]) -> PathState:
    if len(words) < 4:
        raise ValueError(f"{path}: not a stat line")
    access = words[5] if len(words) > 5 else ""
    return PathState(path, words[0], int(words[1], 8) & 0o7777, int(words[2]), int(words[3]), access.strip("-"))
