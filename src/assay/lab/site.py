"""Where a running lab keeps its things: a private directory of this machine, and a tmpfs that only the lab sees."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from msgspec import Struct

from assay.errors import AssayError

SCRIPTS = Path(__file__).parent / "scripts"


def say(line: str) -> None:
    """A line in the lab's own log."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


def runtime_directory() -> Path:
    """/run/assay-lab, or $XDG_RUNTIME_DIR/assay-lab where /run cannot be written."""
    if os.access("/run", os.W_OK):
        return Path("/run/assay-lab")
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base) / "assay-lab"
    raise AssayError("no place for the lab's socket", hint="set XDG_RUNTIME_DIR to a directory of yours")


class Site(Struct, frozen=True):
    """Paths of one lab. Everything below `private` is gone with the lab's mount namespace."""

    directory: Path

    @classmethod
    def of(cls, name: str) -> Site:
        """The site of the lab of this name."""
        return cls(runtime_directory() / name)

    @property
    def control(self) -> Path:
        """The supervisor's socket."""
        return self.directory / "control"

    @property
    def lock(self) -> Path:
        """Held as long as the lab lives."""
        return self.directory / "lock"

    @property
    def log(self) -> Path:
        """What the supervisor says."""
        return self.directory / "log"

    @property
    def private(self) -> Path:
        """Mount point of the lab's own tmpfs."""
        return self.directory / "private"

    @property
    def layer(self) -> Path:
        """What all hosts have on top of this machine's files."""
        return self.private / "layer"

    @property
    def slurm(self) -> Path:
        """/etc/slurm of all hosts."""
        return self.private / "slurm"

    @property
    def shared(self) -> Path:
        """/shared of all hosts."""
        return self.private / "shared"

    @property
    def munge(self) -> Path:
        """/run/munge of all hosts: the socket, never the key."""
        return self.private / "munge"

    @property
    def kernel_logs(self) -> Path:
        """One mounted kernel log per host."""
        return self.private / "kmsg"

    def template(self, role: str) -> Path:
        """The emulated /sys that hosts of this role have in common."""
        return self.private / "template" / ("gpu" if role == "gpu" else "server")

    def host(self, name: str) -> HostSite:
        """Paths of one host."""
        return HostSite(self.private / "hosts" / name)


class HostSite(Struct, frozen=True):
    """Paths of one host: the parts of its overlays, and /run/lab."""

    directory: Path

    @property
    def upper(self) -> Path:
        """What the host wrote; survives its reboots."""
        return self.directory / "upper"

    @property
    def work(self) -> Path:
        """The overlay's own."""
        return self.directory / "work"

    @property
    def root(self) -> Path:
        """Mount point of its root."""
        return self.directory / "root"

    @property
    def sysfs(self) -> Path:
        """Mount point of the real /sys of its network namespace."""
        return self.directory / "sysfs"

    @property
    def sys_upper(self) -> Path:
        """What is emulated in /sys."""
        return self.directory / "sys-upper"

    @property
    def sys_work(self) -> Path:
        """The overlay's own."""
        return self.directory / "sys-work"

    @property
    def lab(self) -> Path:
        """/run/lab: state of the emulated hardware, and what became of the boot."""
        return self.directory / "lab"

    @property
    def proc(self) -> Path:
        """What is emulated of single files in /proc."""
        return self.directory / "proc"

    @property
    def state(self) -> Path:
        """State of the emulated hardware."""
        return self.lab / "state.json"

    @property
    def driver(self) -> Path:
        """Socket on which emulated programs get their answers."""
        return self.lab / "driver"

    @property
    def boot(self) -> Path:
        """Lines "ready" and "failed DAEMON CODE"."""
        return self.lab / "boot"

    def prepare(self) -> None:
        """Make the directories."""
        for path in (self.upper, self.work, self.root, self.sysfs, self.sys_upper, self.sys_work, self.proc, self.lab):
            path.mkdir(parents=True, exist_ok=True)

    def forget(self) -> None:
        """Lose everything that the host ever wrote."""
        for path in (self.upper, self.work):
            shutil.rmtree(path)
        self.prepare()

    def forget_hardware(self) -> None:
        """Empty what a boot fills anew: /sys keeps nothing."""
        for path in (self.sys_upper, self.sys_work):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
