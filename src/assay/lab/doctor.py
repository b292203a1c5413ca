"""What a machine needs to run the lab, and what it lacks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from assay.lab import cgroups, kernel, packages

_PROGRAMS = {"ip": "iproute2", "cp": "coreutils", "apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg"}
_SCRIPTS = {"/bin/bash": "bash", "/usr/bin/setpriv": "util-linux", "/usr/bin/env": "coreutils"}
_NAMESPACES = ("mnt", "uts", "ipc", "net", "pid", "time", "cgroup")
_FREE_MIB = 300


class Line(Struct, frozen=True):
    """One thing looked at: `ok`, `note` (works without it) or `bad`."""

    state: str
    what: str
    hint: str = ""


def lines() -> list[Line]:
    """Everything, in the order in which it is needed."""
    return [*_kernel(), *_programs(), *_groups(), *_packages()]


def _kernel() -> Iterator[Line]:
    if not kernel.supported():
        yield Line("bad", "the lab runs on Linux, x86_64 or aarch64")
        return
    root = os.geteuid() == 0
    yield Line("ok", "root") if root else Line("bad", "not root", "sudo assay lab ...")
    missing = [name for name in _NAMESPACES if not Path(f"/proc/self/ns/{name}").exists()]
    yield Line("bad", f"the kernel has no {', '.join(missing)} namespaces") if missing else Line("ok", "namespaces")
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    for name in ("overlay", "fuse"):
        if name in known:
            yield Line("ok", f"file system {name}")
        else:
            yield Line("note", f"file system {name} is not loaded", f"modprobe {name}")
    if Path("/usr").is_mount():
        yield Line(
            "bad", "/usr is a file system of its own: nodes would not see it", "the lab needs /usr on the root disk"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        yield Line("bad", "/dev/fuse cannot be used: nodes would have no kernel log of their own", "modprobe fuse")


def _programs() -> Iterator[Line]:
    lacking = {package for program, package in _PROGRAMS.items() if not shutil.which(program)}
    lacking |= {package for path, package in _SCRIPTS.items() if not Path(path).exists()}
    if lacking:
        yield Line("bad", f"programs are missing: {', '.join(sorted(lacking))}", mending(lacking))
    else:
        yield Line("ok", f"programs: {', '.join(sorted(_PROGRAMS))}")


def mending(lacking: set[str]) -> str:
    """The one line that installs what is missing."""
    return f"{packages.UPDATE} && apt-get install --no-install-recommends {' '.join(sorted(lacking))}"


def _groups() -> Iterator[Line]:
    if cgroups.usable():
        yield Line("ok", "jobs are kept to their GPUs by cgroup v1 (devices, freezer)")
    else:
        yield Line("note", f"jobs see every GPU of their node: {cgroups.why_not()}")


def _packages() -> Iterator[Line]:
    cache = packages.cache_directory()
    for name, what in (("slurm", "Slurm"), ("database", "MariaDB, for --accounting")):
        found = packages.recorded(cache, name)
        if found:
            yield Line("ok", f"packages of {what} are unpacked in {cache}")
        else:
            yield Line("note", f"packages of {what} are not here yet", "assay lab up fetches them, once, through apt")
    if not _free_mib(cache) >= _FREE_MIB:
        yield Line("bad", f"less than {_FREE_MIB} MiB free for {cache}", "set XDG_CACHE_HOME to another disk")


def _free_mib(path: Path) -> int:
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    about = os.statvfs(there)
    return about.f_bavail * about.f_frsize // 2**20
