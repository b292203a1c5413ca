"""The files of an invented host in memory, with links and rights as a kernel would apply them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

_MAGIC = frozenset("*?[")
_LINKS = 40
_DEFAULT = {"f": "f 0644 0 0 0:0", "d": "d 0755 0 0 0:0", "l": "l 0777 0 0 0:0"}
_BITS = {"r": 4, "w": 2, "x": 1}


class TreeError(Exception):
    """A system call that failed; `code` is the symbolic name of the error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Mode(Struct, frozen=True):
    """Type letter, permission bits, owner and device number of one path."""

    kind: str
    bits: int
    uid: int
    gid: int
    device: str

    @classmethod
    def of(cls, line: str) -> Mode:
        """The mode in "type mode uid gid rdev"."""
        kind, bits, uid, gid, device = line.split()
        return cls(kind, int(bits, 8), int(uid), int(gid), device)


class Tree:
    """Paths of one host as one user sees them. Directories above a path need not be named."""

    def __init__(
        self,
        files: Mapping[str, str],
        links: Mapping[str, str],
        modes: Mapping[str, str],
        uid: int,
        groups: frozenset[int],
    ) -> None:
        self.files, self.links, self.uid, self.groups = files, links, uid, groups
        lines = dict.fromkeys(files, _DEFAULT["f"]) | dict.fromkeys(links, _DEFAULT["l"]) | dict(modes)
        self._modes = {path: Mode.of(line) for path, line in lines.items()}
        self._names: dict[str, set[str]] = {"/": set()}
        for path in lines:
            self._place(path)
        directory = Mode.of(_DEFAULT["d"])
        for path in self._names:
            self._modes.setdefault(path, directory)

    def _place(self, path: str) -> None:
        if self._modes[path].kind == "d":
            self._names.setdefault(path, set())
        while path != "/":
            parent, _, name = path.rpartition("/")
            known = parent in self._names
            self._names.setdefault(parent or "/", set()).add(name)
            if known:
                return
            path = parent or "/"

    def real(self, path: str, *, follow: bool = True) -> str:
        """The path without links, the last part too unless told otherwise; TreeError where it does not exist."""
        todo = [part for part in reversed(path.split("/")) if part]
        done, links = "", 0
        while todo:
            part = todo.pop()
            if part in (".", ".."):
                self._search(done or "/")
                done = done.rpartition("/")[0] if part == ".." else done
                continue
            here = f"{done}/{part}"
            mode = self._step(done or "/", here)
            if mode.kind == "l" and (todo or follow):
                links += 1
                if links > _LINKS:
                    raise TreeError("ELOOP")
                target = self.links[here]
                done = "" if target.startswith("/") else done
                todo += [p for p in reversed(target.split("/")) if p]
            else:
                done = here
        return done or "/"

    def _search(self, directory: str) -> None:
        """Raise unless this is a directory that may be searched."""
        if self._modes[directory].kind != "d":
            raise TreeError("ENOTDIR")
        if not self._may(directory, "x"):
            raise TreeError("EACCES")

    def _step(self, directory: str, path: str) -> Mode:
        """The mode of an entry of `directory`."""
        self._search(directory)
        if path not in self._modes:
            raise TreeError("ENOENT")
        return self._modes[path]

    def mode(self, path: str, *, follow: bool = True) -> Mode:
        """Type, bits and owner of what the path leads to."""
        return self._modes[self.real(path, follow=follow)]

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        real = self.real(path)
        if self._modes[real].kind != "d":
            raise TreeError("ENOTDIR")
        if not self._may(real, "r"):
            raise TreeError("EACCES")
        return sorted(self._names[real])

    def may(self, path: str, right: str) -> bool:
        """True when the user may read, write or execute what the path leads to."""
        try:
            return self._may(self.real(path), right)
        except TreeError:
            return False

    def _may(self, real: str, right: str) -> bool:
        mode = self._modes[real]
        if self.uid == 0:
            return right != "x" or mode.kind == "d" or bool(mode.bits & 0o111)
        shift = 6 if mode.uid == self.uid else 3 if mode.gid in self.groups else 0
        return bool(mode.bits >> shift & _BITS[right])

    def content(self, path: str) -> str:
        """Text of a regular file."""
        real = self.real(path)
        if self._modes[real].kind != "f":
            raise TreeError("EISDIR" if self._modes[real].kind == "d" else "not-regular")
        if not self._may(real, "r"):
            raise TreeError("EACCES")
        return self.files.get(real, "")

    def expand(self, pattern: str, errors: dict[str, str]) -> list[str]:
        """Existing paths that match a glob; a directory that cannot be searched goes to `errors`."""
        found = ["/"]
        for part in [part for part in pattern.split("/") if part]:
            if _MAGIC.isdisjoint(part):
                found = [_join(directory, part) for directory in found]
            else:
                found = [_join(d, name) for d in found for name in self._matching(d, part, errors)]
        return [path for path in found if self._exists(path, errors)]

    def _matching(self, directory: str, part: str, errors: dict[str, str]) -> list[str]:
        try:
            names = self.names(directory)
        except TreeError as e:
            if e.code not in ("ENOENT", "ENOTDIR"):
                errors[directory] = e.code
            return []
        hidden = part.startswith(".")
        return [name for name in names if fnmatchcase(name, part) and (hidden or not name.startswith("."))]

    def _exists(self, path: str, errors: dict[str, str]) -> bool:
        try:
            self.real(path, follow=False)
        except TreeError as e:
            if e.code not in ("ENOENT", "ENOTDIR"):
                errors[path] = e.code
            return False
        return True


def _join(directory: str, name: str) -> str:
    return f"/{name}" if directory == "/" else f"{directory}/{name}"
