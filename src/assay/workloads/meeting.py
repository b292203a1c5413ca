"""Two processes on two nodes that meet in a directory, wait for each other by files, and leave no trace.

Runs under any Python from 3.6 on, with the standard library only. Answers are lines of JSON that begin with "@assay ".
"""

import errno
import json
import os
import shutil
import signal
import time

PREFIX = ".assay-pair-"
TEXT = 200  # characters of a message
PAUSE_S = 0.0005
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


class Gone(Exception):
    """The other node did not come to a step in time, or the time for a directory is up."""


class Ended(Exception):
    """A signal asked for the end."""


class Voice:
    """Says things in short lines, which a scheduler passes on whole."""

    def __init__(self, node: str, rank: int) -> None:
        self.node, self.rank = node, rank

    def say(self, **said) -> None:
        """One line. A listener who is gone changes nothing: there may still be something to clean up."""
        line = json.dumps(dict(said, node=self.node, rank=self.rank), separators=(",", ":"))
        try:
            os.write(1, b"@assay " + line.encode("ascii") + b"\n")
        except OSError:
            pass


class Meeting:
    """One node's side of the trial of one directory: tests that both nodes come to, and no trace of them."""

    tests = ()  # type: tuple

    def __init__(self, voice: Voice, number: int, directory: str, asked: dict) -> None:
        self.voice, self.first, self.number, self.directory = voice, voice.rank == 0, number, directory
        self.token = asked["token"]
        self.patience_s = asked.get("patience_s", 20.0)
        self.until = time.monotonic() + asked.get("seconds", 45.0)
        self.top = os.path.join(directory, PREFIX + self.token)
        self.made = self.met = False

    def run(self) -> None:
        """Every step to which both nodes come."""
        try:
            if self.step("same-inode", type(self).meet):
                for name, test in self.tests:
                    self.together(name)
                    self.step(name, test)
                self.together("end")
        except Gone as e:
            self.say("together", False, 0, {"error": str(e)[:TEXT]})
        finally:
            self.clean()

    def step(self, name: str, test) -> bool:
        """Run one test and say how it went: (it held as far as this node can tell, what was seen)."""
        begun = time.monotonic()
        try:
            held, detail = test(self)
        except (OSError, ValueError, ImportError) as e:
            held, detail = False, {"error": code(e)}
        self.say(name, held, time.monotonic() - begun, detail)
        return bool(held)

    def say(self, step: str, held: bool, seconds: float, detail: dict) -> None:
        """One line on one step."""
        self.voice.say(dir=self.number, step=step, ok=held, seconds=round(seconds, 4), detail=detail)

    def box(self, seconds: float) -> float:
        """The monotonic time at which something that may take so long has to end."""
        return float(min(time.monotonic() + seconds, self.until))

    def path(self, name: str) -> str:
        """A path in the private subdirectory."""
        return os.path.join(self.top, name)

    def together(self, name: str, tight: bool = False) -> None:
        """Go on once the other node has come here too; Gone when it does not."""
        write(self.path("sync/%s.%d" % (name, self.voice.rank)))
        other, end, pause = "%s.%d" % (name, 1 - self.voice.rank), self.box(self.patience_s), PAUSE_S / 10
        while not there(self.path("sync"), other):
            if time.monotonic() > end:
                why = "the time was up" if end == self.until else "the other node did not come"
                raise Gone("%s: %s" % (name, why))
            time.sleep(pause)
            pause = pause if tight else min(pause * 1.2, 0.02)

    def clean(self) -> None:
        """Take the private subdirectory away: the first node, or the second one when that is gone."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.met and not self.first:
            end = time.monotonic() + min(self.patience_s, 10.0)
            while os.path.lexists(self.top) and time.monotonic() < end:
                time.sleep(0.02)
        if self.made or (self.met and os.path.lexists(self.top)):
            for _ in range(3):
                shutil.rmtree(self.top, ignore_errors=True)
                if not os.path.lexists(self.top):
                    break
                time.sleep(0.2)
            self.say("clean", not os.path.lexists(self.top), 0, {})

    def meet(self) -> "tuple[bool, dict]":
        """Find the same new directory on both nodes."""
        seen = where(self.directory)
        end = self.box(self.patience_s)
        if self.first:
            os.mkdir(self.top, 0o700)
            self.made = True
            os.mkdir(self.path("sync"))
            write(self.path("sync/meet.0"))
        elif not os.access(self.directory, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, "not writable")
        while not there(self.path("sync"), "meet.%d" % (1 - self.voice.rank)):
            touch(self.directory)
            if time.monotonic() > end:
                return False, dict(seen, met=False)
            time.sleep(0.02)
        self.met = True
        if not self.first:
            write(self.path("sync/meet.1"))
        return True, dict(seen, met=True, inode=os.stat(self.directory).st_ino, private=os.stat(self.top).st_ino)


def code(e: Exception) -> str:
    """The name of an error."""
    return errno.errorcode.get(getattr(e, "errno", None) or 0, ("%s: %s" % (type(e).__name__, e))[:TEXT])


def write(path: str, data: bytes = b"", sync: bool = False) -> None:
    """Write a new file, whole."""
    with open(path, "wb") as f:
        f.write(data)
        if sync:
            f.flush()
            os.fsync(f.fileno())


def read(path: str) -> bytes:
    """A file, whole."""
    with open(path, "rb") as f:
        return f.read()


def touch(directory: str) -> None:
    """Open a directory: network file systems then look whether what they remember of it is still true."""
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        pass


def there(directory: str, name: str) -> bool:
    """True when the directory has such an entry, asked anew."""
    touch(directory)
    return os.path.lexists(os.path.join(directory, name))


def where(directory: str) -> dict:
    """What the directory lies on here."""
    stat = os.stat(directory)
    seen = {"device": "%d:%d" % (os.major(stat.st_dev), os.minor(stat.st_dev)), "inode": stat.st_ino}  # type: dict
    best, path = "", os.path.realpath(directory)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            target = left.split()[4]
            if len(target) >= len(best) and (path + "/").startswith(target.rstrip("/") + "/"):
                best = target
                seen.update(target=target[:100], type=right.split()[0], source=right.split()[1][:100])
    return seen


def end(number: int, _frame) -> None:
    """Turn a signal into the end of the step at hand."""
    raise Gone("the time was up") if number == signal.SIGALRM else Ended(number)
