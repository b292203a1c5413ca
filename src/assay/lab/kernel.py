"""The system calls that Python has no name for: namespaces, mounts, and a process's end tied to its parent's."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

NEWNS = 0x00020000
NEWTIME = 0x00000080
NEWCGROUP = 0x02000000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWPID = 0x20000000
NEWNET = 0x40000000

RDONLY, NOSUID, NODEV, REMOUNT, BIND, MOVE, REC = 1, 2, 4, 32, 4096, 8192, 16384
PRIVATE, SLAVE = 1 << 18, 1 << 19

OF_THE_MACHINE = (16, 17, 25)  # CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_TIME: no namespace keeps them in

_DETACH = 2
_PDEATHSIG, _CAPBSET_DROP = 1, 24
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


def _call(failed: int, what: str) -> None:
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def mount(source: str, target: str | Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount `source` at `target`."""
    words = [word.encode() or None for word in (source, str(target), kind, options)]
    _call(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {kind} {target}")


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Show a file or directory at another place, which is made where it does not exist."""
    if not target.exists():
        if source.is_dir():
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    mount(str(source), target, flags=BIND | REC)
    if read_only:
        mount("", target, flags=BIND | REMOUNT | RDONLY)


def unshare(flags: int) -> None:
    """New namespaces for this process; NEWPID and NEWTIME are those of its children."""
    _call(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Enter the namespaces of the process that a pidfd stands for."""
    _call(_libc.setns(fd, flags), "setns")


def pivot(root: Path) -> None:
    """Make `root`, a mount point, the root directory and let go of the old one."""
    os.chdir(root)
    _call(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), f"pivot_root {root}")
    _call(_libc.umount2(b".", _DETACH), "umount of the old root")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Name this UTS namespace."""
    _call(_libc.sethostname(name.encode(), len(name)), "sethostname")


def end_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when its parent ends."""
    _call(_libc.prctl(_PDEATHSIG, signal, 0, 0, 0), "prctl")


def drop_capability(number: int) -> None:
    """Take a capability from this process and its children for good."""
    _call(_libc.prctl(_CAPBSET_DROP, number, 0, 0, 0), "prctl")


def supported() -> bool:
    """True on an operating system and a processor whose calls are known here."""
    return sys.platform == "linux" and platform.machine() in _PIVOT_ROOT
