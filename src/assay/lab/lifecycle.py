"""Bring a lab up, and take it down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from assay.errors import AssayError, UsageError
from assay.lab import cgroups, janitor, packages
from assay.lab.control import Lab
from assay.lab.readiness import Readiness, befall, end
from assay.lab.scenarios import fits, scenario
from assay.lab.site import Site
from assay.lab.spec import Spec, check

_START_S, _DOWN_S = 60.0, 15.0
_LOOK_S = 0.05
_ENDING_S = 5.0  # for a lab that was killed and is not quite gone

Say = Callable[[str], None]


def up(spec: Spec, say: Say) -> Lab:
    """A lab with all nodes idle; AssayError with the logs of what failed, and nothing left behind."""
    check(spec)
    needed = scenario(spec.scenario)
    fits(spec, needed)
    require_root()
    lab = Lab(spec.name)
    with _locked(lab.site) as lock:
        image = packages.image("slurm", packages.SLURM, say)
        database = str(packages.image("database", packages.DATABASE, say)) if spec.accounting else ""
        spec = msgspec.structs.replace(spec, constrain="cgroup/v1" if cgroups.usable() else "")
        start = _Start(lab, spec, lock, [str(image), database])
        try:
            start.ready.wait()
            befall(lab, spec, needed)
            start.keep()
        except BaseException:
            start.end()
            raise
    return lab


def require_root() -> None:
    """UsageError for anybody else."""
    if os.geteuid():
        raise UsageError("the lab needs root: it makes namespaces, mounts and devices", hint="sudo assay lab ...")


@contextlib.contextmanager
def _locked(site: Site) -> Iterator[int]:
    """The lock of a lab's directory, which whoever inherits it keeps; UsageError when the lab is up."""
    while True:
        site.directory.parent.mkdir(mode=0o700, exist_ok=True)
        site.directory.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(site.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        name = site.directory.name
        if not _free(fd, 0 if Lab(name).supervisor() else _ENDING_S):
            os.close(fd)
            raise UsageError(f"the lab {name!r} is already up", hint="assay lab status; assay lab down")
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(fd).st_ino == site.lock.stat().st_ino:
                break
        os.close(fd)  # somebody took the directory away in between
    try:
        yield fd
    finally:
        os.close(fd)


class _Start:
    """A lab that is coming up: it ends with this process until `keep`."""

    def __init__(self, lab: Lab, spec: Spec, lock: int, images: list[str]) -> None:
        site = lab.site
        janitor_left_overs(site, spec)
        (site.directory / "spec.json").write_bytes(msgspec.json.encode(spec))
        held, self.leash = os.pipe()
        self.alive, alive = os.pipe()
        argv = [sys.executable, "-m", "assay.lab.janitor", str(site.directory), *images, str(held)]
        self.log = os.open(site.log, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_TRUNC, 0o600)
        subprocess.run(  # ends at once: the janitor detaches itself
            argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(held, lock, alive), cwd="/",
            start_new_session=True, check=False, timeout=_START_S,
        )  # fmt: skip
        os.close(held)
        os.close(alive)
        self.ready = Readiness(lab, spec, lambda: self._over(0), self._own_log)

    def _own_log(self) -> str:
        size = os.fstat(self.log).st_size
        return end(os.pread(self.log, size, 0).decode("utf-8", "replace"))

    def _over(self, seconds: float) -> bool:
        """True when the janitor and the supervisor have ended, or do so in time."""
        return bool(select.select([self.alive], [], [], seconds)[0])

    def keep(self) -> None:
        """Let the lab live on without this process."""
        os.write(self.leash, b"k")
        self._let_go()

    def end(self) -> None:
        """Take down what has started, and wait until it is gone."""
        os.close(self.leash)
        self.leash = -1
        self._over(_DOWN_S)
        self._let_go()

    def _let_go(self) -> None:
        for fd in (self.leash, self.alive, self.log):
            if fd >= 0:
                os.close(fd)


def start_over(name: str, scenario_name: str) -> None:
    """Every host of a running lab starts anew, with another scenario."""
    require_root()
    lab, needed = Lab(name), scenario(scenario_name)
    lab.ask("scenario", name=scenario_name)
    spec = lab.spec()
    Readiness(lab, spec, lambda: not lab.supervisor(), lambda: f"{lab.site.log} says why").wait()
    befall(lab, spec, needed)


def janitor_left_overs(site: Site, spec: Spec) -> None:
    """Take away what a lab left whose janitor was killed too. The lock is ours, so none is alive."""
    cgroups.remove(spec.name)
    for name in ("control", "spec.json", "log"):
        (site.directory / name).unlink(missing_ok=True)


def down(name: str) -> bool:
    """End a lab and wait until nothing is left of it; False when none was up."""
    require_root()
    lab = Lab(name)
    try:
        lock = os.open(lab.site.lock, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        pid = lab.supervisor()
        if pid:
            _kill(pid)
        if not _free(lock, _DOWN_S if pid else 0):
            raise AssayError(
                f"the lab {name!r} does not end", hint="it is starting, or a process of it cannot be killed"
            )
        janitor.clean(lab.site, Spec(name=name))  # where the janitor was killed, too
    finally:
        os.close(lock)
    return pid is not None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _free(lock: int, seconds: float) -> bool:
    """True once the lock is ours: supervisor and janitor have ended."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
