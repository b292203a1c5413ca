"""Runs one command on a scheduler's login node for somebody elsewhere, and leaves no job behind when that one goes.

Output and errors pass straight through. Whoever listened and is gone, a signal, a deadline, even a SIGKILL of this
process end the command by SIGTERM, which makes srun give its nodes back. At the end the job is cancelled by its name.
"""

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
import typing
import zlib

from assay.node.commands import directories

try:
    import ctypes
except ImportError:  # without it only a SIGKILL of this process leaves a job to its time limit
    prctl = None
else:
    prctl = ctypes.CDLL(None).prctl

# What a user may have set as a default; everything else of Slurm describes the job that this shell is part of.
KEPT = (
    "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION",
    "SLURM_WCKEY", "SBATCH_CLUSTERS", "SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION",
    "SBATCH_WCKEY",
)  # fmt: skip
PATIENCE_S = 8.0  # for srun to end its steps
SCANCEL_S = 25.0
TURN_MS = 200
CHUNK = 1 << 16
PR_SET_PDEATHSIG = 1


def environment() -> "dict[str, str]":
    """The user's, without what belongs to a job that this shell may be part of."""
    names = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(names) or name in KEPT}
    env.update(PATH=":".join(directories()), LC_ALL="C", SLURM_TIME_FORMAT="standard")
    return env


def end_with_parent(number: int) -> None:
    """In a new process: a signal when the parent dies, however it dies."""
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, number)


class Relay:
    """One command with its input, and how its jobs are cancelled.

    `tidy_s` = what tasks need to tidy up: srun passes SIGINT on to them, while SIGTERM makes it kill them.
    """

    def __init__(self, argv: "list[str]", data: bytes, cancel: "list[str]", deadline_s: float, tidy_s: float) -> None:
        self.argv, self.data, self.cancel, self.tidy_s = argv, memoryview(data), cancel, tidy_s
        self.until = time.monotonic() + deadline_s
        self.deadline_s = deadline_s
        self.signalled = 0

    def run(self) -> int:
        """Exit code of the command, or of its end."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        try:
            child = subprocess.Popen(
                self.argv, env=environment(), stdin=subprocess.PIPE, bufsize=0, start_new_session=True,
                preexec_fn=lambda: end_with_parent(signal.SIGINT if self.tidy_s else signal.SIGTERM),  # noqa: PLW1509 - one system call; nothing else tells srun of our SIGKILL
            )  # fmt: skip
        except OSError as e:
            tell("%s cannot be started: %s" % (self.argv[0], e.strerror))
            return 127
        why = self.attend(child, child.stdin) if child.stdin else ""
        if why:
            tell(why)
            self.end(child)
        # srun ends well even where it could not tell slurmctld so: the job would hold its nodes to its time limit
        cancel(self.cancel)
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    def on_signal(self, number: int, _frame: object) -> None:
        """Note a signal; the loop looks at it."""
        self.signalled = number

    def attend(self, child: "subprocess.Popen", stdin: "typing.IO[bytes]") -> str:
        """Feed the command until it ends: "", or why it has to be ended."""
        poll = select.poll()
        poll.register(1, 0)  # reports an error once nobody listens
        pipe = stdin.fileno()
        os.set_blocking(pipe, False)
        poll.register(pipe, select.POLLOUT)
        while child.poll() is None:
            if self.signalled:
                return "ended by signal %d" % self.signalled
            if time.monotonic() > self.until:
                return "no end within %g s" % self.deadline_s
            for fd, _ in poll.poll(TURN_MS):
                if fd == 1:
                    return "nobody listens any more"
                if not self.feed(pipe):
                    poll.unregister(pipe)
                    stdin.close()
        return ""

    def feed(self, pipe: int) -> bool:
        """Write the next bytes of the input; False when there is no more to write."""
        try:
            self.data = self.data[os.write(pipe, self.data[:CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self.data)

    def end(self, child: "subprocess.Popen") -> None:
        """End the command: asked first, then at once."""
        steps = [(signal.SIGINT, self.tidy_s)] if self.tidy_s else []
        for number, patience_s in [*steps, (signal.SIGTERM, PATIENCE_S)]:
            child.send_signal(number)
            try:
                child.wait(patience_s)
                return
            except subprocess.TimeoutExpired:
                pass
        child.kill()
        child.wait()


def cancel(argv: "list[str]") -> int:
    """Run scancel, out of reach of signals meant for us; what it says goes to stderr."""
    try:
        return subprocess.call(
            argv, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SCANCEL_S,
            start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        tell("%s cannot be started: %s" % (argv[0], e.strerror))
    except subprocess.TimeoutExpired:
        tell("%s: Unable to contact slurm controller within %g s" % (argv[0], SCANCEL_S))
    return 1


def tell(text: str) -> None:
    """One line on stderr; where nobody reads it, none."""
    try:
        os.write(2, ("assay: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def main(request: str, data: str) -> None:
    """Run {argv, cancel, deadline_s, tidy_s} with `data` (zlib, base64) as its input."""
    wanted = json.loads(request)
    relay = Relay(data=zlib.decompress(base64.b64decode(data)), **wanted)
    sys.exit(relay.run())
