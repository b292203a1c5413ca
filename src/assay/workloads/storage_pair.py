"""Tries directories from two nodes at once: do they share them, and do locks, names and changes hold between them.

One process on each of two nodes, told apart by SLURM_PROCID. In each directory one private subdirectory, named after a
token, is made and taken away again; nothing else is written.
"""

import errno
import fcntl
import hashlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time

from assay.workloads.meeting import PAUSE_S, SIGNALS, TEXT, Ended, Meeting, Voice, code, end, read, write

SIZE = 8 << 20  # bytes of the file whose content is compared
ROUNDS = 20
INCREMENTS = 50
DIRECTORIES = 200
HEAT = 4  # directories made between two starts at once
MODULES = 2000


class Pair(Meeting):
    """The trial of one directory."""

    def checksum(self) -> "tuple[bool, dict]":
        """What one node wrote and synced, the other reads."""
        if self.first:
            data = random.Random(self.token).getrandbits(SIZE * 8).to_bytes(SIZE, "little")
            write(self.path("content"), data, sync=True)
            self.together("written")
        else:
            self.together("written")
            data = read(self.path("content"))
        return True, {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def visibility(self) -> "tuple[bool, dict]":
        """How long the other node looks, without a break, until it sees a change."""
        end = self.box(12.0)
        took = []  # type: list
        while len(took) < ROUNDS and self.round(len(took), took, end):
            pass
        seen = {"rounds": len(took)}  # type: dict
        if took:
            seen.update(median_s=round(sorted(took)[len(took) // 2], 6), max_s=round(max(took), 6))
        if self.first:
            write(self.path("old"))
        for name, change, shown in CHANGES:
            self.together(name)
            if not self.first:
                shown(self)
            self.together(name + "-looked")
            begun = time.monotonic()
            if self.first:
                change(self)
                self.together(name + "-seen")
                seen[name + "_s"] = round(time.monotonic() - begun, 6)
            else:
                seen[name] = wait(lambda shown=shown: shown(self), self.box(4.0))
                self.together(name + "-seen")
        return len(took) == ROUNDS and all(seen.get(name, True) for name, _, _ in CHANGES), seen

    def round(self, number: int, took: list, end: float) -> bool:
        """One there and back; False when it took too long."""
        ping, pong = self.path("ping.%d" % number), self.path("pong.%d" % number)
        begun = time.monotonic()
        if self.first:
            write(ping)
        if not wait(lambda: os.path.exists(pong if self.first else ping), end):
            return False
        took.append((time.monotonic() - begun) / 2)
        if not self.first:
            write(pong)
        return True

    def locks(self, name: str, call) -> "tuple[bool, dict]":
        """One node holds a lock while the other tries; then both count up in one file under it."""
        if self.first:
            write(self.path(name), b"%08d" % 0)
        self.together(name + "-there")
        fd = os.open(self.path(name), os.O_RDWR)
        try:
            seen = self.held(name, call, fd)
            self.together(name + "-count")
            seen["done"] = self.count(call, fd) if seen["lock"] in ("ok", "busy") else 0
            self.together(name + "-counted")
        finally:
            os.close(fd)
        seen["total"] = int(read(self.path(name)) or b"0")
        return seen["lock"] == ("ok" if self.first else "busy"), seen

    def held(self, name: str, call, fd: int) -> dict:
        """What a try says: to the first node while nobody holds the lock, to the second while the first one does."""
        said = attempt(call, fd) if self.first else ""
        self.together(name + "-held")
        said = said or attempt(call, fd)
        self.together(name + "-tried")
        if said == "ok":
            call(fd, fcntl.LOCK_UN)
        return {"lock": said}

    def count(self, call, fd: int) -> int:
        """How many times this node has counted up."""
        end = self.box(8.0)
        for done in range(INCREMENTS):
            if not wait(lambda: attempt(call, fd) == "ok", end):
                return done
            number = int(os.pread(fd, 32, 0) or b"0")
            os.pwrite(fd, b"%08d" % (number + 1), 0)
            call(fd, fcntl.LOCK_UN)
            time.sleep(PAUSE_S)
        return INCREMENTS

    def mkdir(self) -> "tuple[bool, dict]":
        """Both make the same directories: `won` has a bit for each that this node made."""
        won, others = 0, {}  # type: int, dict
        for number in range(DIRECTORIES):
            if number % HEAT == 0:
                self.together("heat%d" % number, tight=True)
            try:
                os.mkdir(self.path("race.%d" % number))
                won |= 1 << number
            except FileExistsError:
                pass
            except OSError as e:
                others[code(e)] = others.get(code(e), 0) + 1
        return not others, {"tried": DIRECTORIES, "won": "%x" % won, "others": others}

    def colon(self) -> "tuple[bool, dict]":
        """A file name with a colon in it."""
        name = "step:1000 2026-01-01T00:00:00.ckpt"
        text, error = self.token.encode("ascii"), ""
        if self.first:
            try:
                write(self.path(name), text)
            except OSError as e:
                error = code(e)
            self.together("named")
            return not error, {"error": error} if error else {}
        self.together("named")
        listed = name in os.listdir(self.top)
        return listed and read(self.path(name)) == text, {"listed": listed}

    def imported(self) -> "tuple[bool, dict]":
        """Import a package of many small modules on the node that did not write them."""
        name = "assay_pair_" + self.token
        if self.first:
            written = self.package(self.path(name), self.box(15.0))
            self.together("packed")
            return written == MODULES, {"written": written}
        self.together("packed")
        sys.dont_write_bytecode = True
        sys.path.insert(0, self.top)
        begun, end, done = time.monotonic(), self.box(self.patience_s * 0.8), 0
        modules = sorted(m[:-3] for m in os.listdir(self.path(name)) if m.startswith("m"))
        for module in modules:
            importlib.import_module(name + "." + module)
            done += 1
            if time.monotonic() > end:
                break
        sys.path.remove(self.top)
        took_s = round(time.monotonic() - begun, 4)
        return done == len(modules), {"modules": done, "import_s": took_s, "caches_dropped": False}

    def package(self, directory: str, end: float) -> int:
        """Write the modules; how many there was time for."""
        os.mkdir(directory)
        write(os.path.join(directory, "__init__.py"))
        for number in range(MODULES):
            write(os.path.join(directory, "m%04d.py" % number), b"VALUE = %d\n" % number)
            if time.monotonic() > end:
                return number + 1
        return MODULES


def _renamed(pair: Pair) -> bool:
    return os.path.exists(pair.path("new")) and not os.path.exists(pair.path("old"))


def _append(pair: Pair) -> None:
    with open(pair.path("new"), "ab") as f:
        f.write(b"x" * 4096)


def _appended(pair: Pair) -> bool:
    try:
        return len(read(pair.path("new"))) == 4096
    except OSError:
        return False


CHANGES = (  # what the first node does, and what the second one then sees
    ("rename", lambda pair: os.rename(pair.path("old"), pair.path("new")), _renamed),
    ("append", _append, _appended),
    ("unlink", lambda pair: os.unlink(pair.path("new")), lambda pair: not os.path.exists(pair.path("new"))),
)
Pair.tests = (
    ("checksum", Pair.checksum),
    ("visibility", Pair.visibility),
    ("flock", lambda pair: pair.locks("flock", fcntl.flock)),
    ("fcntl", lambda pair: pair.locks("fcntl", fcntl.lockf)),
    ("mkdir", Pair.mkdir),
    ("colon", Pair.colon),
    ("import", Pair.imported),
)


def wait(seen, end: float) -> bool:
    """Look until something is seen; False when the time is up."""
    while not seen():
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE_S)
    return True


def attempt(call, fd: int) -> str:
    """Try a lock: "ok", "busy" when another holds it, else the name of the error."""
    try:
        call(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return "busy" if e.errno in (errno.EAGAIN, errno.EACCES) else code(e)
    return "ok"


def login(voice: Voice, nodes: list) -> None:
    """Go to the other node by ssh, as a program would: no password, no question."""
    other = next((node for node in nodes if node != voice.node), "")
    options = ("BatchMode=yes", "ConnectTimeout=5", "StrictHostKeyChecking=yes")
    argv = ["ssh", *(word for option in options for word in ("-o", option)), "--", other, "true"]
    begun, said, rc = time.monotonic(), "", -1
    try:
        done = subprocess.run(
            argv, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=15
        )
        rc, said = done.returncode, done.stderr.decode("ascii", "replace").strip()
    except (OSError, subprocess.TimeoutExpired) as e:
        said = str(e)
    detail = {"to": other, "rc": rc, "said": said[-TEXT:]}
    voice.say(dir=-1, step="ssh", ok=rc == 0, seconds=round(time.monotonic() - begun, 4), detail=detail)


def main(request: str) -> None:
    """Try every directory, one after the other. The request: JSON of {token, directories, seconds, patience_s, ssh}."""
    asked = json.loads(request)
    voice = Voice(os.environ.get("SLURMD_NODENAME") or os.uname().nodename, int(os.environ["SLURM_PROCID"]))
    voice.say(hello={"host": os.uname().nodename, "uid": os.getuid(), "at": round(time.time(), 3)})
    if asked.get("ssh"):
        login(voice, asked["ssh"])
    for number, directory in enumerate(asked["directories"]):
        for signum in SIGNALS:
            signal.signal(signum, end)
        signal.alarm(int(asked.get("seconds", 45.0)) + 5)
        try:
            Pair(voice, number, directory, asked).run()
        except Ended as e:
            sys.exit(128 + e.args[0])
        finally:
            signal.alarm(0)
    voice.say(bye=True)
