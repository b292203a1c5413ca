"""Runs one command: no shell, no terminal, no input, bounded output, and an end that nothing can put off."""

import os
import select
import signal
import stat
import subprocess
import sys
import time
import typing

from assay.node.files import DENIED, text

SYSTEM_PATH = (
    "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/bin",
    "/opt/slurm/bin", "/usr/local/slurm/bin", "/cm/shared/apps/slurm/current/bin",
    "/opt/rocm/bin", "/usr/local/cuda/bin", "/usr/local/nvidia/bin",
)  # fmt: skip
KEPT = ("HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SLURM_CONF", "XDG_RUNTIME_DIR")
ERR_CAP = 1 << 16  # bytes kept of stderr
FLOOD = 64 << 20  # bytes beyond the cap after which a command whose head is wanted is stopped
# the session must stay the probe's; what every Python knows costs a full copy of this process
OWN_GROUP: "dict[str, typing.Any]" = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
REAP_S = 0.2  # how long a killed command may take to go
IDLE_MS = 50


def directories() -> "list[str]":
    """PATH completed with the places where system and accelerator tools live."""
    own = [directory for directory in os.environ.get("PATH", "").split(":") if directory.startswith("/")]
    return list(dict.fromkeys(own + list(SYSTEM_PATH)))


def find(program: str) -> "tuple[str, str]":
    """(path, "ok"), ("", "denied") when it is there and may not be run, or ("", "absent")."""
    state = "absent"
    for place in [program] if "/" in program else [f"{directory}/{program}" for directory in directories()]:
        try:
            regular = stat.S_ISREG(os.stat(place).st_mode)
        except OSError as e:
            # a directory of PATH that is closed to us hides nothing we could have run
            if place == program and e.errno in DENIED:
                return "", "denied"
            continue
        if regular and os.access(place, os.X_OK):
            return place, "ok"
        state = "denied" if regular else state
    return "", state


def environment() -> "dict[str, str]":
    """What commands see: no locale, a complete PATH, few other variables, and no caches written."""
    env = {name: value for name, value in os.environ.items() if name in KEPT}
    env.update(PATH=":".join(directories()), LC_ALL="C", PYTHONDONTWRITEBYTECODE="1", CUDA_CACHE_DISABLE="1")
    return env


class Sink:
    """Keeps one end of a stream in bounded memory and counts the bytes it lets go."""

    def __init__(self, cap: int, keep: str) -> None:
        self.cap, self.tail, self.cut, self.data = cap, keep == "tail", 0, bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.data += chunk
        if len(self.data) > self.cap * (2 if self.tail else 1):
            self.trim()

    def trim(self) -> bytes:
        """The bytes kept."""
        extra = max(len(self.data) - self.cap, 0)
        self.cut += extra
        if self.tail:
            del self.data[:extra]
        else:
            del self.data[self.cap :]
        return bytes(self.data)

    def flooded(self) -> bool:
        """True when waiting for the end of the stream is no longer worth it."""
        return not self.tail and self.cut > FLOOD


class Outcome:
    """How a command went: `state` is ok, denied, timed-out or error; `rc` None when it did not end by itself."""

    def __init__(self, state: str, err: str = "") -> None:
        self.state, self.err, self.out = state, err, ""
        self.rc: "int | None" = None
        self.cut = 0


def run(program: str, argv: "list[str]", until: float, out: Sink, on_start) -> Outcome:
    """Run argv as `program` until it ends or the monotonic clock reaches `until`; `on_start` gets its process group."""
    try:
        process = subprocess.Popen(
            [word.encode("utf-8") for word in argv], executable=program, env=environment(), bufsize=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **OWN_GROUP,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        denied = isinstance(e, OSError) and e.errno in DENIED
        return Outcome("denied" if denied else "error", f"cannot be started: {e}")
    on_start(process.pid)
    err = Sink(ERR_CAP, "head")
    sinks = [(pipe, sink) for pipe, sink in ((process.stdout, out), (process.stderr, err)) if pipe]
    end = capture(process.pid, {pipe.fileno(): sink for pipe, sink in sinks}, until)
    signal_group(process.pid)
    reap(process)
    for pipe, _ in sinks:
        pipe.close()
    outcome = Outcome("timed-out" if end == "timed-out" else "ok", text(err.trim()))
    outcome.out, outcome.cut = text(out.trim()), out.cut
    outcome.rc = process.returncode if end == "ended" else None
    return outcome


def capture(pid: int, sinks: "dict[int, Sink]", until: float) -> str:
    """Feed the sinks until the command has "ended", its time is up ("timed-out") or it "flooded"."""
    poll, waiting, gone = select.poll(), set(sinks), False
    for fd in sinks:
        poll.register(fd, select.POLLIN)
    while waiting:
        if time.monotonic() >= until:
            return "timed-out"
        events = poll.poll(IDLE_MS)
        for fd, _ in events:
            chunk = os.read(fd, 1 << 16)
            sinks[fd].feed(chunk)
            if sinks[fd].flooded():
                return "flooded"
            if not chunk:
                poll.unregister(fd)
                waiting.discard(fd)
        if gone and not events:  # what it started still holds the pipe
            return "ended"
        gone = exited(pid)
    return "ended" if wait(pid, until) else "timed-out"


def exited(pid: int) -> bool:
    """True when a child has ended; it stays a zombie, so that its process group keeps its number."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait(pid: int, until: float) -> bool:
    """True when the child ended in time."""
    pause = 0.0005
    while not exited(pid):
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def reap(process: "subprocess.Popen[bytes]") -> None:
    """Collect an ended child; one stuck in the kernel is left behind."""
    wait(process.pid, time.monotonic() + REAP_S)
    process.poll()


def signal_group(group: int, number: int = signal.SIGKILL) -> None:
    """Signal a process group; one that is gone or not ours is left."""
    try:
        os.killpg(group, number)
    except OSError:
        pass
