"""Reads what it is asked to read on one machine and prints the answers as JSON lines; changes nothing.

Runs as `python3 -` under any Python from 3.6 on, with the standard library only. Each probe that runs commands does so
in a process and session of its own, so that a tool that hangs costs its own time limit and nothing else. Probes that
only look at files share a process, since starting one costs more than most of them; when one hangs, the others of
that process get a new one.
"""

import gc
import itertools
import json
import os
import resource
import select
import signal
import sys
import time

from assay.node.commands import signal_group
from assay.node.files import text
from assay.node.reader import END, GRACE_S, SIGNALS, probe_process

SENTINEL = b"@assay "
TIMED_OUT = b'"state":"timed-out"'  # in a read that a probe's own process gave up
PROBE_CAP = 64 << 20  # bytes of answer one probe may give
LATE_S = 5  # after the deadline: an alarm ends everything
SHARED = 8  # probes without commands that one process answers


class Job:
    """A probe that runs, or is answered without having run. `rest` = those that the same process answers next."""

    def __init__(self, probes: "list[dict]") -> None:
        self.pid, self.fd, self.buffer = 0, -1, bytearray()
        self.rest = probes
        self.next()

    def next(self) -> None:
        """Go on to the next probe."""
        self.probe = self.rest.pop(0)
        self.at, self.started = time.time(), time.monotonic()
        self.until = self.started + self.probe.get("timeout_s", 20.0) + GRACE_S

    def answer(self, state: str, why: str) -> "tuple[bytes, bool]":
        """(JSON of the raw fact, whether the probe itself answered every step); silence is answered by `state`."""
        reads, done = [], set()
        for line in bytes(self.buffer).split(b"\n")[:-1]:
            number, _, read = line.partition(b" ")
            if read:
                reads.append(read)
            else:
                done.add(int(number))
        silent = [step for number, step in enumerate(self.probe["steps"]) if number not in done]
        for step in silent:
            silence = {"key": step["key"], "state": state, "argv": step.get("argv"), "err": why}
            reads.append(encoded({name: value for name, value in silence.items() if value}))
        head = {
            "probe": self.probe["name"],
            "at": round(self.at, 3),
            "took_s": round(time.monotonic() - self.started, 4),
            "uid": os.getuid(),
        }
        return encoded(head)[:-1] + b',"reads":[' + b",".join(reads) + b"]}", not silent


class Collector:
    """Runs probes, a few at a time, and prints each answer as soon as it is complete."""

    def __init__(self, request: dict) -> None:
        self.waiting = sorted(request["probes"], key=quiet)  # what takes time begins first
        self.root = request.get("root", "").rstrip("/").encode("utf-8")
        self.parallel = max(request.get("parallel", 4), 1)
        self.started = time.monotonic()
        self.until = self.started + request.get("deadline_s", 60.0)
        self.poll = select.poll()
        self.jobs: "dict[int, Job]" = {}
        self.unreaped: "set[int]" = set()
        self.answered = 0

    def run(self) -> None:
        """Answer every probe."""
        for number in SIGNALS:
            signal.signal(number, lambda number, _: self.quit(128 + number))
        signal.alarm(max(int(self.until - self.started), 1) + LATE_S)
        self.poll.register(1, 0)  # reports an error once nobody listens
        self.say(encoded({"hello": hello()}))
        while self.waiting or self.jobs:
            while self.waiting and len(self.jobs) < self.parallel and self.start():
                pass
            self.listen()
        took_s = round(time.monotonic() - self.started, 3)
        self.say(encoded({"bye": {"probes": self.answered, "took_s": took_s}}))

    def start(self) -> bool:
        """Start the next probe; False when it has to wait for another to end."""
        probes = list(itertools.takewhile(quiet, self.waiting[:SHARED])) or self.waiting[:1]
        job = Job(list(probes))
        why = ""
        if job.started < self.until:
            try:
                self.fork(job, probes)
            except OSError as e:
                if self.jobs:
                    return False
                why = f"cannot start a process: {e.strerror}"
        del self.waiting[: len(probes)]
        if not job.pid:
            self.finish(job, "error" if why else "timed-out", why)
            self.waiting[:0] = job.rest
        return True

    def fork(self, job: Job, probes: "list[dict]") -> None:
        """Run the probes in a process of their own."""
        job.fd, end = os.pipe()
        try:
            job.pid = os.fork()
        except OSError:
            os.close(job.fd)
            os.close(end)
            raise
        if job.pid == 0:
            probe_process(probes, self.root, end)
        os.close(end)
        os.set_blocking(job.fd, False)
        self.jobs[job.fd] = job
        self.poll.register(job.fd, select.POLLIN)

    def listen(self) -> None:
        """Take what the probes say, and end those whose time is up."""
        if not self.jobs:
            return
        next_end = min([self.until] + [job.until for job in self.jobs.values()])
        heard = set()
        for fd, _ in self.poll.poll(max(next_end - time.monotonic(), 0) * 1000 + 1):
            if fd == 1:
                self.quit(0)
            heard.add(fd)
            self.hear(self.jobs[fd])
        now = time.monotonic()
        for job in list(self.jobs.values()):
            if job.fd not in heard and now >= min(job.until, self.until):
                self.end(job, "timed-out", "")

    def hear(self, job: Job) -> None:
        """Take the next bytes of a probe."""
        chunk = os.read(job.fd, 1 << 20)
        job.buffer += chunk
        while job.rest and END in job.buffer:
            if not self.go_on(job):
                return
        if not chunk and (time.monotonic() >= job.until - GRACE_S or TIMED_OUT in job.buffer):
            self.end(job, "timed-out", "")
        elif not chunk:
            self.end(job, "error", "the reading process ended early")
        elif len(job.buffer) > PROBE_CAP:
            self.end(job, "error", "the answer is too large")

    def go_on(self, job: Job) -> bool:
        """Answer a probe that is done and go on to the next of its process; False where that one had to end."""
        said, _, rest = bytes(job.buffer).partition(END)
        job.buffer = bytearray(said)
        if TIMED_OUT in said:
            self.end(job, "error", "")
            return False
        self.finish(job, "error", "the reading process skipped it")
        job.buffer = bytearray(rest)
        job.next()
        return True

    def end(self, job: Job, state: str, why: str) -> None:
        """Close a probe, answer it, and leave nothing of it running."""
        self.poll.unregister(job.fd)
        os.close(job.fd)
        del self.jobs[job.fd]
        self.unreaped.add(job.pid)
        complete = self.finish(job, state, why)
        self.waiting[:0] = job.rest
        if not complete or TIMED_OUT in job.buffer:
            kill_sessions({job.pid})
        self.reap()

    def finish(self, job: Job, state: str, why: str) -> bool:
        """Print the answer to a probe; True when the probe itself answered every step."""
        answer, complete = job.answer(state, why)
        self.answered += 1
        self.say(answer)
        return complete

    def reap(self) -> None:
        """Collect ended processes; one stuck in the kernel is left to init."""
        for pid in list(self.unreaped):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.unreaped.discard(pid)

    def say(self, raw: bytes) -> None:
        """Print one answer."""
        self.write(SENTINEL + raw + b"\n")

    def write(self, lines: bytes) -> None:
        """Print lines, whole; a listener who is gone ends everything."""
        left = memoryview(lines)
        while left:
            try:
                left = left[os.write(1, left) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                self.quit(0)

    def quit(self, code: int) -> None:
        """End now and leave nothing running."""
        kill_sessions({job.pid for job in self.jobs.values()} | self.unreaped)
        os._exit(code)


def quiet(probe: dict) -> bool:
    """True for a probe that runs no command."""
    return all(step["type"] != "exec" for step in probe["steps"])


def kill_sessions(sessions: "set[int]") -> None:
    """End probes with everything they started, whatever process group it moved to."""
    for pid in sessions:
        signal_group(pid)
    for pid in members(sessions) if sessions else ():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def members(sessions: "set[int]") -> "list[int]":
    """Processes of the given sessions."""
    found = []
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        try:
            with open(f"/proc/{pid}/stat", "rb") as f:
                fields = f.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 3 and int(fields[3]) in sessions:
            found.append(int(pid))
    return found


def encoded(value: dict) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def hello() -> dict:
    """Who answers."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot_id = f.read().strip()
    except OSError:
        boot_id = ""
    return {
        "host": text(os.fsencode(os.uname().nodename)),
        "uid": os.getuid(),
        "python": ".".join(str(number) for number in sys.version_info[:3]),
        "at": round(time.time(), 3),
        "boot_id": boot_id,
    }


def main(request: str, kind: type = Collector) -> None:
    """Answer a request: a JSON object {probes, root, parallel, deadline_s}."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # a short life; walking all objects would copy the pages that probes share with us
    kind(json.loads(request)).run()
