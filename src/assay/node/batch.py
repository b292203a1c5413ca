"""A batch job on a scheduler's login node: submitted under a name chosen before, followed by its output, cancelled.

The job outlives its controller. What it prints lies in a private directory that login node and nodes share, until
the controller has read it.
"""

import errno
import json
import os
import select
import shutil
import stat
import subprocess
import sys
import time

from assay.node.relay import cancel, environment, tell

CHUNK = 1 << 18
TURN_S = 0.3
ASK_S = 2.0  # between two looks at the queue
QUIET_S = 3.0  # an ended job's output is complete when nothing was added for this long
HIDDEN_S = 12.0  # what a network file system may take to show a file
SQUEUE_S = 20.0
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD")
ENDED = (
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "LAUNCH_FAILED", "REVOKED", "SPECIAL_EXIT",
)  # fmt: skip


def place(request: "dict[str, str]") -> str:
    """The job's own directory."""
    return os.path.join(os.path.expanduser(request["workdir"]), request["name"])


def submit(request: dict) -> int:
    """Hand the script to sbatch; prints its id. The exit code is sbatch's."""
    own = place(request)
    try:
        private(os.path.dirname(own))
        os.mkdir(own, 0o700)
        script = os.path.join(own, "script")
        with open(os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(request["script"])
    except OSError as e:
        tell("%s: %s" % (own, e.strerror))
        return 73
    files = ["--output=%s/out" % own, "--error=%s/err" % own, "--chdir=/"]
    try:
        return subprocess.call(["sbatch", "--parsable", *files, script], env=environment(), stdin=subprocess.DEVNULL)
    except OSError as e:
        tell("sbatch cannot be started: %s" % e.strerror)
        return 127


def private(directory: str) -> None:
    """A directory of ours that nobody else may write to."""
    os.makedirs(directory, 0o700, exist_ok=True)
    info = os.stat(directory)
    if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "belongs to somebody else or others may write to it")


class Follower:
    """Passes on what a job prints until it has ended and everything is said."""

    def __init__(self, request: dict) -> None:
        self.name, self.own = request["name"], place(request)
        self.started = time.monotonic()
        self.until = self.started + request["deadline_s"]
        self.wait_s = request["wait_s"]
        self.offset = 0
        self.asked = self.grown = 0.0
        self.state, self.reason = "", ""

    def run(self) -> int:
        """0 when the job has ended and its output is complete."""
        poll = select.poll()
        poll.register(1, 0)
        while True:
            now = time.monotonic()
            if self.copy():
                self.grown = now
            if now - self.asked > ASK_S:
                self.asked = now
                self.look()
            code = self.over(now)
            if code >= 0:
                return code
            if poll.poll(TURN_S * 1000):
                return 0

    def over(self, now: float) -> int:
        """The exit code once there is nothing to wait for, else -1."""
        if self.state in WAITING and now - self.started > self.wait_s:
            cancel(["scancel", "--name=%s" % self.name])
            tell("Requested nodes are busy: %s (%s) for %g s" % (self.state, self.reason, self.wait_s))
            return 75
        if now > self.until:
            tell("job %s: no end within the deadline (%s %s)" % (self.name, self.state, self.reason))
            return 75
        if self.state != "ENDED":
            return -1
        seen = max(self.grown, self.started)
        if now - seen > (QUIET_S if self.offset else HIDDEN_S):
            return self.last_words()
        return -1

    def last_words(self) -> int:
        """What the job itself complained of."""
        try:
            with open(os.path.join(self.own, "err"), "rb") as f:
                os.write(2, f.read(1 << 15))
        except OSError:
            pass
        if not self.offset:
            tell("job %s ended and %s/out says nothing: do login node and nodes share it?" % (self.name, self.own))
        return 0 if self.offset else 74

    def copy(self) -> bool:
        """Pass on what was added to the output."""
        begin = self.offset
        try:
            fd = os.open(os.path.join(self.own, "out"), os.O_RDONLY)
        except OSError:
            return False
        try:
            chunk = os.pread(fd, CHUNK, self.offset)
            while chunk:
                self.offset += len(chunk)
                put(chunk)
                chunk = os.pread(fd, CHUNK, self.offset)
        finally:
            os.close(fd)
        return self.offset > begin

    def look(self) -> None:
        """Ask the queue for the job."""
        argv = ["squeue", "-h", "-t", "all", "-n", self.name, "-o", "%T|%r"]
        try:
            done = subprocess.run(
                argv, env=environment(), check=False, timeout=SQUEUE_S,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as e:
            tell("squeue: %s" % e)
            return
        if done.returncode:
            os.write(2, done.stderr)
            return
        rows = [line.split("|", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if "|" in line]
        alive = [row for row in rows if row[0] not in ENDED]
        self.state, self.reason = alive[0] if alive else ("ENDED", rows[0][0] if rows else "not in the queue")


def put(data: bytes) -> None:
    """Print, whole; a listener who is gone ends this process."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(1, left) :]
        except OSError:
            os._exit(0)


def main(request: str) -> None:
    """Do {"do": submit, follow, cancel or tidy, "name", "workdir", ...}."""
    wanted = json.loads(request)
    code = 0
    if wanted["do"] == "submit":
        code = submit(wanted)
    elif wanted["do"] == "follow":
        code = Follower(wanted).run()
    else:
        if wanted["do"] == "cancel":
            code = cancel(["scancel", "--name=%s" % wanted["name"]])
        if wanted["tidy"]:
            shutil.rmtree(place(wanted), ignore_errors=True)
    sys.exit(code)
