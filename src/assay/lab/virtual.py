"""An invented host and the answers it gives to probes: what the collector would have printed there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct

from assay.lab.tree import Tree, TreeError
from assay.model import Clock, Env, Exec, Files, Links, Probe, RawFact, Read, ReadState, Stat, Step, Which
from assay.node.commands import SYSTEM_PATH
from assay.node.files import CONSUMING
from assay.node.reader import EACH_LIMIT, STEP_CAP
from assay.node.redact import redact, redact_value

_GONE = ("ENOENT", "ENOTDIR")
_DENIED = frozenset({"EACCES", "EPERM"})
_LAST_S = 0.3


class Output(Struct, frozen=True):
    """What a program prints before it ends."""

    out: str = ""
    err: str = ""
    rc: int = 0


Tool = Callable[[tuple[str, ...], "VirtualHost"], Output]


@dataclass(frozen=True, eq=False)
class VirtualHost:
    """A machine that is only described.

    `modes` = "type mode uid gid rdev" where it is not the usual one; `commands` = path of a program -> what it does;
    `hung` = paths of programs and files that never answer; `denied` = paths that are refused whatever their mode says;
    `clock` = what the kernel says of its clock.
    The reader is `uid`, a member of `groups`.
    """

    name: str
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, Tool] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hung: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    clock: Mapping[str, str] = field(default_factory=dict)
    uid: int = 0
    groups: frozenset[int] = frozenset()
    at: float = 0.0

    @functools.cached_property
    def tree(self) -> Tree:
        """Its files."""
        programs = dict.fromkeys(self.commands, "f 0755 0 0 0:0")
        return Tree(self.files, self.links, programs | dict(self.modes), self.uid, self.groups)

    def directories(self) -> list[str]:
        """PATH completed as the collector does it."""
        own = [d for d in self.environment.get("PATH", "").split(":") if d.startswith("/")]
        return list(dict.fromkeys([*own, *SYSTEM_PATH]))

    def find(self, program: str) -> tuple[str, ReadState]:
        """(path, "ok"), or why a program cannot be run."""
        state: ReadState = "absent"
        for place in [program] if "/" in program else [f"{d}/{program}" for d in self.directories()]:
            try:
                regular = self.tree.mode(place).kind == "f"
            except TreeError as e:
                if place == program and e.code in _DENIED:
                    return "", "denied"
                continue
            if regular and self.tree.may(place, "x"):
                return place, "ok"
            state = "denied" if regular else state
        return "", state


def answer(host: VirtualHost, probe: Probe) -> RawFact:
    """What the collector prints for `probe` on `host`; LookupError for a command the host has no answer to."""
    return RawFact(probe.name, host.name, tuple(_Answering(host, probe).run()), at=host.at, uid=host.uid)


class _Answering:
    """One probe on one host. `spent` = seconds that commands without an answer have used up."""

    def __init__(self, host: VirtualHost, probe: Probe) -> None:
        self.host, self.probe, self.spent, self.over = host, probe, 0.0, False

    def run(self) -> Iterator[Read]:
        """All steps, in order."""
        for step in self.probe.steps:
            if self.over:
                yield Read(key=step.key, state="timed-out", argv=getattr(step, "argv", ()))
            elif isinstance(step, Exec):
                yield from self.exec(step)
            else:
                yield self.paths(step)

    def paths(self, step: Step) -> Read:
        """The read of a step that runs nothing."""
        if isinstance(step, (Files, Links, Stat)):
            return self.gather(step)
        if isinstance(step, Env):
            return _settled(step.key, self.variables(step), {}, 0)
        if isinstance(step, Which):
            return _settled(step.key, self.which(step), {}, 0)
        if isinstance(step, Clock):
            return _settled(step.key, dict(self.host.clock), {}, 0)
        raise LookupError(f"a step of an unknown kind: {step}")

    def variables(self, step: Env) -> dict[str, str]:
        """Variables whose names match."""
        own = sorted(self.host.environment.items())
        return {name: redact_value(name, value) for name, value in own if any(fnmatchcase(name, p) for p in step.names)}

    def matches(self, patterns: tuple[str, ...], limit: int) -> tuple[list[str], dict[str, str], int]:
        """Existing paths in order, each once; what could not be searched; how many were left out."""
        found: dict[str, None] = {}
        errors: dict[str, str] = {}
        for pattern in patterns:
            found.update(dict.fromkeys(self.host.tree.expand(pattern, errors)))
        errors = dict(list(errors.items())[:limit])
        over = max(len(found) - limit, 0)
        if over:
            errors[patterns[0]] = "LIMIT"
        return list(found)[:limit], errors, over

    def gather(self, step: Files | Links | Stat) -> Read:
        """One read of many paths."""
        places, errors, cut = self.matches(step.paths, step.limit)
        found: dict[str, str] = {}
        budget = STEP_CAP
        for path in places:
            if path in self.host.hung:
                self.over = True
                return Read(key=step.key, state="timed-out", files=found, errors=errors | {path: "timed-out"}, cut=cut)
            try:
                value, lost, size = self.take(step, path, budget)
            except TreeError as e:
                if e.code not in _GONE:
                    errors[path] = e.code
                continue
            budget, cut = budget - size, cut + lost
            if value is not None:
                found[path] = value
        return _settled(step.key, found, errors, cut)

    def take(self, step: Files | Links | Stat, path: str, budget: int) -> tuple[str | None, int, int]:
        """(what to keep of one path, bytes cut, bytes kept)."""
        tree = self.host.tree
        if isinstance(step, Links):
            link = tree.mode(path, follow=False).kind == "l"
            return (tree.links[tree.real(path, follow=False)] if link else None), 0, 0
        if isinstance(step, Stat):
            return self.stat_line(path), 0, 0
        if tree.mode(path).kind == "d":
            return None, 0, 0
        if path in self.host.denied:
            raise TreeError("EACCES")
        if CONSUMING.search(tree.real(path).encode()):
            raise TreeError("not-regular")
        raw = tree.content(path).encode()
        cap = min(step.cap, max(budget, 0))
        kept = raw[:cap]
        return redact(kept.decode("utf-8", "backslashreplace")), len(raw) - len(kept), len(kept)

    def stat_line(self, path: str) -> str:
        """Type, mode, uid, gid, rdev and access of what the path leads to, or of a dangling link itself."""
        tree = self.host.tree
        try:
            mode = tree.mode(path)
        except TreeError as e:
            if e.code not in _GONE:
                raise
            mode = tree.mode(path, follow=False)
        access = "".join(right for right in "rwx" if tree.may(path, right)) or "-"
        return f"{mode.kind} {mode.bits:04o} {mode.uid} {mode.gid} {mode.device} {access}"

    def which(self, step: Which) -> dict[str, str]:
        """Every executable of the names: path -> name; two paths to one file count once."""
        places = [f"{directory}/{name}" for name in step.names for directory in self.host.directories()]
        tree = self.host.tree
        found: dict[str, str] = {}
        seen: set[tuple[str, str]] = set()
        for path in (*self.matches(tuple(places), 4096)[0], *self.matches(step.also, 4096)[0]):
            name = path.rpartition("/")[2]
            try:
                real = tree.real(path)
            except TreeError:
                continue
            if (name, real) not in seen and tree.mode(real).kind == "f" and tree.may(real, "x"):
                seen.add((name, real))
                found[path] = name
        return found

    def exec(self, step: Exec) -> Iterator[Read]:
        """The command, or one per match of `each`."""
        if not step.each:
            yield self.command(step, step.argv, {})
            return
        paths, errors, cut = self.matches(step.each, EACH_LIMIT)
        if not paths:
            yield _settled(step.key, {}, errors, cut, step.argv)
        for path in paths:
            yield self.command(step, tuple(word.replace("{}", path) for word in step.argv), errors)
            errors = {}

    def command(self, step: Exec, argv: tuple[str, ...], errors: dict[str, str]) -> Read:
        """One command."""
        program, state = self.host.find(argv[0])
        read = Read(key=step.key, argv=argv, state=state, errors=errors)
        if not program:
            return read
        last = self.probe.timeout_s - min(_LAST_S, self.probe.timeout_s / 10)
        if self.spent >= last:
            return msgspec.structs.replace(read, state="timed-out")
        if program in self.host.hung:
            took = min(step.timeout_s, last - self.spent)
            self.spent += took
            return msgspec.structs.replace(read, state="timed-out", took_s=took)
        tool = self.host.commands.get(self.host.tree.real(program))
        if tool is None:
            raise LookupError(f"{self.host.name}: nobody says what {program} does")
        said = tool(argv, self.host)
        raw = said.out.encode()
        kept = raw[-step.cap :] if step.keep == "tail" else raw[: step.cap]
        out = redact(kept.decode("utf-8", "backslashreplace"))
        return msgspec.structs.replace(read, rc=said.rc, out=out, err=redact(said.err), cut=len(raw) - len(kept))


def _settled(key: str, found: dict[str, str], errors: dict[str, str], cut: int, argv: tuple[str, ...] = ()) -> Read:
    """The read of many paths with its state."""
    state: ReadState = "ok"
    if not found:
        state = "absent" if not errors else "denied" if set(errors.values()) <= _DENIED else "error"
    return Read(key=key, state=state, argv=argv, files=found, errors=errors, cut=cut)
