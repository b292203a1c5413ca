"""One probe in a process and session of its own: runs its steps and streams each finished read over a pipe."""

import _thread
import json
import os
import resource
import signal
import threading
import time
from fnmatch import fnmatchcase

from assay.node.commands import Sink, directories, find, run, signal_group
from assay.node.files import GONE, expand, link_target, name_of, slurp, stat_line, text
from assay.node.redact import redact, redact_value

GRACE_S = 0.5  # from a probe's own time limit, when it says what it has, to its end
STEP_CAP = 8 << 20  # bytes of file content one step may hold
EACH_LIMIT = 256  # commands one step may run
END = b"=\n"  # of a probe's answers, where another probe follows; no read contains a line of it
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


class Reader:
    """Lines on `pipe`: "N {read}" for a read of step N, "N " when the step is done."""

    def __init__(self, root: bytes, pipe: int, timeout_s: float) -> None:
        self.root, self.pipe, self.timeout_s = root, pipe, timeout_s
        self.until = time.monotonic() + timeout_s
        self.parent = os.getppid()
        self.lock, self.running_on = threading.Lock(), threading.Lock()
        self.silent = False
        self.index, self.started, self.budget = 0, 0.0, 0
        self.read: "dict" = {}
        self.at = b""  # the path being looked at, for the one who watches
        self.group = 0  # process group of the command that runs

    def run(self, steps: list) -> None:
        """All steps, in order."""
        self.running_on.acquire()
        try:
            _thread.start_new_thread(self.watch, ())  # threading's own would wait until it runs
        except RuntimeError:
            pass  # no more threads for this user: the parent's time limit still holds
        for self.index, step in enumerate(steps):
            self.begin(step)
            try:
                getattr(self, "do_" + step["type"])(step)
            except Exception as e:
                self.read.update(state="error", err=redact(f"{type(e).__name__}: {e}"))
                self.send()
            self.write(b"")
        self.running_on.release()

    def watch(self) -> None:
        """Say what is known when time is up, and end when the parent is gone."""
        while not self.running_on.acquire(timeout=min(0.2, max(self.until - time.monotonic(), 0.01))):
            if os.getppid() != self.parent:
                self.stop_command()
                os._exit(1)
            if time.monotonic() >= self.until:
                self.last_words()
                os._exit(0)

    def last_words(self) -> None:
        """The unfinished read; nothing more is said after it."""
        with self.lock:
            self.silent = True
            errors = self.read.get("errors") or {}
            if self.at:
                errors = dict(errors, **{self.shown(self.at): "timed-out"})
            self.put(self.encoded(dict(self.read, state="timed-out", errors=errors)))
            self.put(b"")
        self.stop_command()

    def stop_command(self) -> None:
        """End what runs."""
        if self.group:
            signal_group(self.group)

    # ---- saying ----

    def begin(self, step: dict) -> None:
        """A new, empty read."""
        self.read = {"key": step["key"], "files": {}, "errors": {}}
        if "argv" in step:
            self.read["argv"] = step["argv"]
        self.at, self.budget, self.started = b"", STEP_CAP, time.monotonic()

    def send(self) -> None:
        """Stream the read at hand."""
        self.at = b""
        self.write(self.encoded(self.read))

    def encoded(self, read: dict) -> bytes:
        """JSON without defaults."""
        read["took_s"] = round(time.monotonic() - self.started, 4)
        if read.get("state") == "ok":
            del read["state"]
        kept = {name: value for name, value in read.items() if value or name == "rc"}
        return json.dumps(kept, separators=(",", ":")).encode("ascii")

    def write(self, raw: bytes) -> None:
        """One line, unless the last words were said."""
        with self.lock:
            if self.silent:
                os._exit(0)
            self.put(raw)

    def put(self, raw: bytes) -> None:
        """One line, whole."""
        line = b"%d %s\n" % (self.index, raw)
        while line:
            line = line[os.write(self.pipe, line) :]

    def shown(self, path: bytes) -> str:
        """A path as the probe knows it, without the root prefix."""
        return text(path[len(self.root) :] if self.root and path.startswith(self.root) else path)

    def settle(self) -> None:
        """The state of a read of many paths; then send it."""
        errors = set(self.read["errors"].values())
        if not self.read["files"]:
            denied = errors <= {"EACCES", "EPERM"}
            self.read["state"] = ("denied" if denied else "error") if errors else "absent"
        self.send()

    # ---- paths ----

    def matches(self, patterns: list, limit: int) -> "list[bytes]":
        """Existing paths in order, each once."""
        found: "dict[bytes, None]" = {}
        errors: "dict[bytes, str]" = {}
        for pattern in patterns:
            self.at = self.root + pattern.encode("utf-8")
            found.update(dict.fromkeys(expand(self.at, errors)))
        self.read["errors"].update({self.shown(path): name for path, name in list(errors.items())[:limit]})
        if len(found) > limit:
            self.read["cut"] = len(found) - limit
            self.read["errors"][patterns[0]] = "LIMIT"
        return list(found)[:limit]

    def gather(self, step: dict, take) -> None:
        """One read of many paths: `take` returns the string to keep of each, or None."""
        for path in self.matches(step["paths"], step.get("limit", 4096)):
            self.at = path
            try:
                value = take(path)
            except OSError as e:
                if e.errno not in GONE:
                    self.read["errors"][self.shown(path)] = name_of(e)
                continue
            if value is not None:
                self.read["files"][self.shown(path)] = value
        self.settle()

    def do_files(self, step: dict) -> None:
        """Content of regular files."""
        cap = step.get("cap", 1 << 16)

        def take(path: bytes) -> "str | None":
            got = slurp(path, min(cap, max(self.budget, 0)))
            if got is None:
                return None
            content, cut = got
            self.budget -= len(content)
            self.read["cut"] = self.read.get("cut", 0) + cut
            return redact(text(content))

        self.gather(step, take)

    def do_links(self, step: dict) -> None:
        """Targets of symbolic links."""
        self.gather(step, link_target)

    def do_stat(self, step: dict) -> None:
        """What the paths are and what this user may do with them."""
        self.gather(step, stat_line)

    def do_env(self, step: dict) -> None:
        """Variables of this session."""
        for raw_name, raw in sorted(os.environb.items()):
            name = text(raw_name)
            if any(fnmatchcase(name, pattern) for pattern in step["names"]):
                self.read["files"][name] = redact_value(name, text(raw))
        self.settle()

    def do_which(self, step: dict) -> None:
        """Every executable of the names, in the order of PATH; two paths to one file count once."""
        places = [f"{directory}/{name}" for name in step["names"] for directory in directories()]
        own = self.matches(places, 4096)
        self.read["errors"].clear()  # a closed directory of PATH hides nothing this user could run
        seen: "set[tuple[bytes, bytes]]" = set()
        for path in own + self.matches(list(step.get("also", ())), 4096):
            self.at = path
            name, real = os.path.basename(path), os.path.realpath(path)
            if (name, real) not in seen and os.path.isfile(path) and os.access(path, os.X_OK):
                seen.add((name, real))
                self.read["files"][self.shown(path)] = text(name)
        self.settle()

    def do_clock(self, _step: dict) -> None:
        """The kernel's own word on its clock; ctypes is not part of every small Python."""
        try:
            from assay.node.clock import kernel_clock  # noqa: PLC0415 - only this step needs ctypes

            self.read["files"] = kernel_clock()
        except ImportError:
            self.read["errors"]["adjtimex"] = "ENOSYS"
        except OSError as e:
            self.read["errors"]["adjtimex"] = name_of(e)
        self.settle()

    # ---- commands ----

    def do_exec(self, step: dict) -> None:
        """The command, or one command per match of `each`."""
        if not step.get("each"):
            self.command(step, step["argv"])
            return
        paths = self.matches(step["each"], EACH_LIMIT)
        if not paths:
            self.settle()
        errors = self.read["errors"]
        for path in paths:
            self.begin(step)
            self.read["errors"], errors = errors, {}
            self.command(step, [word.replace("{}", text(path)) for word in step["argv"]])

    def command(self, step: dict, argv: list) -> None:
        """One command, in its own process group; it ends before the probe must."""
        last = self.until - min(0.3, self.timeout_s / 10)
        until = min(self.started + step.get("timeout_s", 10.0), last)
        self.read["argv"] = argv
        program, state = find(argv[0])
        if program and self.started >= until:
            state = "timed-out"
        elif program:
            out = Sink(step.get("cap", 1 << 20), step.get("keep", "head"))
            outcome = run(program, argv, until, out, self.running)
            self.group = 0
            state = outcome.state
            self.read.update(out=redact(outcome.out), err=redact(outcome.err), cut=outcome.cut)
            if outcome.rc is not None:
                self.read["rc"] = outcome.rc
        self.read["state"] = state
        self.send()

    def running(self, group: int) -> None:
        """Remember what to end."""
        self.group = group


def probe_process(probes: "list[dict]", root: bytes, pipe: int) -> None:
    """Body of the forked process; never returns."""
    code = 70
    try:
        os.setsid()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        keep_only(pipe)
        for probe in probes[:-1]:
            Reader(root, pipe, probe.get("timeout_s", 20.0)).run(probe["steps"])
            os.write(pipe, END)
        Reader(root, pipe, probes[-1].get("timeout_s", 20.0)).run(probes[-1]["steps"])
        code = 0
    finally:
        os._exit(code)


def keep_only(pipe: int) -> None:
    """Close inherited descriptors, so that no other probe's end waits for this one."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
    except OSError:
        fds = list(range(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)))
    for fd in fds:
        if fd > 2 and fd != pipe:
            try:
                os.close(fd)
            except OSError:
                pass
