"""Reads files, links and modes without ever opening what is not a regular file."""

import errno
import os
import re
import stat
from fnmatch import fnmatchcase

DENIED = (errno.EACCES, errno.EPERM)
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESRCH)
MAGIC = re.compile(rb"[*?\[]")
CONSUMING = re.compile(rb"/proc/(kmsg|kcore)$|/trace_pipe(_raw)?$")  # reading these takes something away, or never ends
CHUNK = 1 << 16
TYPES = {
    stat.S_IFREG: "f",
    stat.S_IFDIR: "d",
    stat.S_IFCHR: "c",
    stat.S_IFBLK: "b",
    stat.S_IFLNK: "l",
    stat.S_IFIFO: "p",
    stat.S_IFSOCK: "s",
}


class NotRegularError(OSError):
    """A device, FIFO, socket or consuming file: not opened, or closed unread."""


def text(raw: bytes) -> str:
    """Any bytes as a string that every JSON reader takes."""
    return raw.decode("utf-8", "backslashreplace")


def name_of(error: OSError) -> str:
    """Symbolic name of an error, e.g. EACCES."""
    if isinstance(error, NotRegularError):
        return "not-regular"
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def expand(pattern: bytes, errors: "dict[bytes, str]") -> "list[bytes]":
    """Existing paths that match; a directory that cannot be searched goes to `errors`, so that nothing looks absent."""
    found = [b"/"]
    for part in [part for part in pattern.split(b"/") if part]:
        if MAGIC.search(part):
            found = [os.path.join(directory, name) for directory in found for name in _names(directory, part, errors)]
        else:
            found = [os.path.join(directory, part) for directory in found]
    return [path for path in found if _exists(path, errors)]


def _names(directory: bytes, part: bytes, errors: "dict[bytes, str]") -> "list[bytes]":
    try:
        names = os.listdir(directory)
    except OSError as e:
        if e.errno not in GONE:
            errors[directory] = name_of(e)
        return []
    hidden = part.startswith(b".")
    return sorted(name for name in names if fnmatchcase(name, part) and (hidden or not name.startswith(b".")))


def _exists(path: bytes, errors: "dict[bytes, str]") -> bool:
    try:
        os.lstat(path)
    except OSError as e:
        if e.errno not in GONE:
            errors[path] = name_of(e)
        return False
    return True


def slurp(path: bytes, cap: int) -> "tuple[bytes, int] | None":
    """(content, bytes cut) of a regular file, None for a directory; NotRegularError without opening anything else."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        return None
    if not stat.S_ISREG(mode):
        raise NotRegularError
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or CONSUMING.search(os.readlink(b"/proc/self/fd/%d" % fd)):
            raise NotRegularError
        content = _up_to(fd, cap)
    finally:
        os.close(fd)
    return content[:cap], max(info.st_size - cap, 1) if len(content) > cap else 0


def _up_to(fd: int, cap: int) -> bytes:
    """Content up to one byte more than `cap`; sizes say nothing in /proc and /sys."""
    content = bytearray()
    while len(content) <= cap:
        chunk = os.read(fd, min(CHUNK, cap + 1 - len(content)))
        if not chunk:
            break
        content += chunk
    return bytes(content)


def link_target(path: bytes) -> "str | None":
    """Where a symbolic link points, None for anything else."""
    return text(os.readlink(path)) if os.path.islink(path) else None


def stat_line(path: bytes) -> str:
    """'type mode uid gid rdev access' of what the path leads to, or of the link itself when that dangles."""
    try:
        info = os.stat(path)
    except OSError as e:
        if e.errno not in GONE:
            raise
        info = os.lstat(path)
    kind = TYPES.get(stat.S_IFMT(info.st_mode), "?")
    mode = stat.S_IMODE(info.st_mode)
    major, minor = os.major(info.st_rdev), os.minor(info.st_rdev)
    access = "".join(letter for letter, bit in (("r", os.R_OK), ("w", os.W_OK), ("x", os.X_OK)) if os.access(path, bit))
    return f"{kind} {mode:04o} {info.st_uid} {info.st_gid} {major}:{minor} {access or '-'}"
