"""A kernel log per node: a FUSE mount whose root is a regular file that behaves as /dev/kmsg does.

One record per read, blocking or EAGAIN, poll, every reader its own place, a write adds a record. The kernel's own
/dev/kmsg belongs to the whole machine. Run as a program: python kmsg.py DIRECTORY NODE... serves until killed and takes
orders as JSON datagrams on DIRECTORY.sock. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

KEPT = 4096  # records per node
_LONGEST = 1 << 17
_USER, _DEFAULT = 1 << 3, 12  # facility of user space; user.warning
_REQUEST = struct.Struct("<IIQQIIIHH")
_REPLY = struct.Struct("<IiQ")
_DIRECT_IO, _WAITING = 1, 1
_POLL_READABLE = select.POLLIN | 0x40  # POLLRDNORM


class Records:
    """The ring of one node. Places are numbers of records since boot, offsets are bytes since boot."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.first, self.size, self.zero = 0, 0, 0.0
        self.clear(_now())

    def clear(self, zero: float) -> None:
        """Empty, as after a boot. `zero` = this machine's CLOCK_BOOTTIME at which the node's clock was 0."""
        self.lines, self.first, self.size, self.zero = [], 0, 0, zero

    @property
    def end(self) -> int:
        """The number that the next record gets."""
        return self.first + len(self.lines)

    def add(self, data: bytes, *, kernel: bool = False) -> None:
        """Lines with an optional <N> in front; only the kernel itself may speak with facility 0."""
        priority, text = split_priority(data)
        if not kernel and priority < _USER:
            priority |= _USER
        microseconds = int((_now() - self.zero) * 1e6)
        for line in text.rstrip(b"\n").split(b"\n"):
            record = b"%d,%d,%d,-;%s\n" % (priority, self.end, microseconds, escaped(line))
            self.lines.append(record)
            self.size += len(record)
        gone = max(len(self.lines) - KEPT, 0)
        del self.lines[:gone]
        self.first += gone

    def at(self, place: int) -> bytes | None:
        """The record there; None where it is still to come."""
        return self.lines[place - self.first] if place < self.end else None


def split_priority(data: bytes) -> tuple[int, bytes]:
    """(priority, the rest) of a line written to the log."""
    if data[:1] == b"<":
        digits, mark, rest = data[1:].partition(b">")
        if mark and digits.isdigit():
            return int(digits) & 0xFF, rest
    return _DEFAULT, data


def escaped(line: bytes) -> bytes:
    """As the kernel prints what is not printable."""
    return b"".join(bytes([c]) if 32 <= c < 127 and c != 92 else b"\\x%02x" % c for c in line)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Reader:
    """An open file: the record it reads next, and the offset the kernel will name if nobody seeks."""

    def __init__(self, place: int) -> None:
        self.place, self.offset = place, 0


class Reading:
    """A read that waits for a record."""

    def __init__(self, unique: int, handle: int, offset: int, size: int) -> None:
        self.unique, self.handle, self.offset, self.size = unique, handle, offset, size


class LogFile:
    """One mounted log: answers the kernel's requests of the FUSE protocol."""

    def __init__(self, fd: int) -> None:
        self.fd, self.records = fd, Records()
        self.readers: dict[int, Reader] = {}
        self.waiting: list[Reading] = []
        self.polls: dict[int, int] = {}
        self.handles = 0
        self.answers: dict[int, Callable[[int, bytes], None]] = {
            3: self.attributes, 4: self.attributes, 14: self.open, 15: self.read, 16: self.write, 17: self.statfs,
            18: self.release, 20: self.done, 25: self.done, 26: self.init, 36: self.interrupt, 38: self.done,
            40: self.poll, 46: self.seek,
        }  # fmt: skip

    def serve(self) -> None:
        """One request."""
        data = os.read(self.fd, _LONGEST)
        length, operation, unique = _REQUEST.unpack_from(data)[:3]
        if operation in (2, 42):  # FORGET wants no answer
            return
        answer = self.answers.get(operation)
        if answer:
            answer(unique, data[_REQUEST.size : length])
        else:
            self.reply(unique, error=-errno.ENOSYS)

    def reply(self, unique: int, body: bytes = b"", error: int = 0) -> None:
        """Answer; a request whose caller is gone is no error."""
        try:
            os.write(self.fd, _REPLY.pack(_REPLY.size + len(body), error, unique) + body)
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.EINVAL):
                raise

    def done(self, unique: int, _body: bytes = b"") -> None:
        """Nothing to do."""
        self.reply(unique)

    def init(self, unique: int, body: bytes) -> None:
        """The version both speak."""
        _, minor, readahead, _ = struct.unpack_from("<IIII", body)
        limits = struct.pack("<IIIIHHIIHHI", 7, min(minor, 31), readahead, 0, 16, 12, 65536, 1, 0, 0, 0)
        self.reply(unique, limits + bytes(28))

    def attributes(self, unique: int, _body: bytes) -> None:
        """A regular file of root; its size is what was ever written, so that SEEK_END means the end."""
        now = int(time.time())
        self.reply(
            unique,
            struct.pack("<QII", 0, 0, 0)
            + struct.pack("<QQQQQQIIII", 1, self.records.size, 0, now, now, now, 0, 0, 0, stat.S_IFREG | 0o644)
            + struct.pack("<IIIIII", 1, 0, 0, 0, 4096, 0),
        )

    def open(self, unique: int, _body: bytes) -> None:
        """A new reader, at the oldest record."""
        self.handles += 1
        self.readers[self.handles] = Reader(self.records.first)
        self.reply(unique, struct.pack("<QII", self.handles, _DIRECT_IO, 0))

    def release(self, unique: int, body: bytes) -> None:
        """A reader closed its file."""
        (handle,) = struct.unpack_from("<Q", body)
        self.readers.pop(handle, None)
        self.polls.pop(handle, None)
        self.reply(unique)

    def read(self, unique: int, body: bytes) -> None:
        """The next record, or wait for it."""
        handle, offset, size, _, _, flags, _ = struct.unpack_from("<QQIIQII", body)
        reading = Reading(unique, handle, offset, size)
        if self.answered(reading):
            return
        if flags & os.O_NONBLOCK:
            self.reply(unique, error=-errno.EAGAIN)
        else:
            self.waiting.append(reading)

    def answered(self, reading: Reading) -> bool:
        """True when the read got its answer; False when its record is still to come."""
        records, reader = self.records, self.readers[reading.handle]
        if reading.offset != reader.offset:
            self.sought(reader, reading.offset)
        if not records.first <= reader.place <= records.end:  # overrun, or the node booted again
            reader.place = records.first
            self.reply(reading.unique, error=-errno.EPIPE)
            return True
        record = records.at(reader.place)
        if record is None:
            return False
        if len(record) > reading.size:
            self.reply(reading.unique, error=-errno.EINVAL)
            return True
        reader.place += 1
        reader.offset += len(record)
        self.reply(reading.unique, record)
        return True

    def sought(self, reader: Reader, offset: int) -> None:
        """Somebody moved the file position: to the start, or past the end."""
        if offset == 0:
            reader.place = self.records.first
        elif offset >= self.records.size:
            reader.place = self.records.end
        reader.offset = offset

    def write(self, unique: int, body: bytes) -> None:
        """A record from a program on the node."""
        _, _, size = struct.unpack_from("<QQI", body)
        self.reply(unique, struct.pack("<II", size, 0))
        self.add(body[40 : 40 + size])

    def add(self, data: bytes, *, kernel: bool = False) -> None:
        """Add a record and wake who waits for one."""
        self.records.add(data, kernel=kernel)
        self.waiting = [reading for reading in self.waiting if not self.answered(reading)]
        for handle in self.polls.values():
            self.reply(0, struct.pack("<Q", handle), error=1)  # a notification: a poll may be over
        self.polls.clear()

    def poll(self, unique: int, body: bytes) -> None:
        """Whether a read would block."""
        handle, kernel_handle, flags, _ = struct.unpack_from("<QQII", body)
        reader = self.readers.get(handle)
        readable = reader is not None and reader.place < self.records.end
        if flags & _WAITING:
            self.polls[handle] = kernel_handle
        self.reply(unique, struct.pack("<II", select.POLLOUT | (_POLL_READABLE if readable else 0), 0))

    def seek(self, unique: int, _body: bytes) -> None:
        """SEEK_DATA: after the last clear, and nothing ever clears."""
        self.reply(unique, struct.pack("<Q", 0))

    def interrupt(self, _unique: int, body: bytes) -> None:
        """A waiting reader got a signal."""
        (target,) = struct.unpack_from("<Q", body)
        for reading in [reading for reading in self.waiting if reading.unique == target]:
            self.waiting.remove(reading)
            self.reply(target, error=-errno.EINTR)

    def statfs(self, unique: int, _body: bytes) -> None:
        """A file system without blocks."""
        self.reply(unique, struct.pack("<QQQQQIIII", 0, 0, 0, 0, 0, 512, 255, 512, 0) + bytes(24))


def mounted(path: Path) -> LogFile:
    """A log mounted on `path`, which is made an empty file."""
    path.touch()
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    options = f"fd={fd},rootmode=100644,user_id=0,group_id=0,allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"kmsg", str(path).encode(), b"fuse", ctypes.c_ulong(6), options.encode()):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"mount {path}")
    return LogFile(fd)


def obey(order: bytes, logs: dict[str, LogFile]) -> None:
    """{"node", "text"} adds a record as the kernel would; {"node", "zero"} empties the log, as a boot does."""
    words = json.loads(order)
    log = logs[words["node"]]
    if "zero" in words:
        log.records.clear(words["zero"])
    if "text" in words:
        log.add(words["text"].encode(), kernel=True)


def main(directory: Path, nodes: list[str]) -> None:
    """Mount one log per node, say so, and serve them until killed."""
    directory.mkdir(parents=True, exist_ok=True)
    logs = {node: mounted(directory / node) for node in nodes}
    by_fd = {log.fd: log for log in logs.values()}
    orders = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    orders.bind(f"{directory}.sock")
    poll = select.epoll()
    for fd in (orders.fileno(), *by_fd):
        poll.register(fd, select.EPOLLIN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for fd, _ in poll.poll():
            if fd == orders.fileno():
                obey(orders.recv(_LONGEST), logs)
                continue
            try:
                by_fd[fd].serve()
            except OSError as e:
                if e.errno == errno.ENODEV:  # unmounted
                    poll.unregister(fd)
                elif e.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOENT):
                    raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
