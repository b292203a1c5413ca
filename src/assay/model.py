"""Values that travel between the layers: frozen, typed, JSON.

A `Probe` says what to read; a `RawFact` is what one node answered, verbatim; a `Fact` is what a parser made
of it, or `Missing` with the reason; a `Finding` is what a rule says about facts.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct, field

Category = Literal[
    "security", "lifecycle", "orchestration", "storage", "networking",
    "reliability", "monitoring", "pricing", "partnerships", "availability",
]  # fmt: skip
CATEGORIES: tuple[Category, ...] = (
    "security", "lifecycle", "orchestration", "storage", "networking",
    "reliability", "monitoring", "pricing", "partnerships", "availability",
)  # fmt: skip
Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
Effect = Literal["read", "job", "load", "disruptive"]


class Status(str, enum.Enum):
    """Closed set of outcomes. `skip` = not applicable or denied; `unknown` = could not tell; `error` = our fault."""

    FAIL = "fail"
    ERROR = "error"
    UNKNOWN = "unknown"
    WARN = "warn"
    SKIP = "skip"
    PASS = "pass"  # noqa: S105

    @property
    def judged(self) -> bool:
        """True when a rule reached a verdict about the node itself."""
        return self in (Status.PASS, Status.WARN, Status.FAIL)


WORST_FIRST: tuple[Status, ...] = tuple(Status)


# ---- what to read -------------------------------------------------------------------------------------------


class Exec(Struct, frozen=True, tag="exec", omit_defaults=True):
    """Run argv, never a shell. `keep` = the end of the output that survives the cap.

    `each` = globs: the command runs once per match, "{}" in argv being the path; without a match it does not run.
    """

    key: str
    argv: tuple[str, ...]
    timeout_s: float = 10.0
    cap: int = 1 << 20
    keep: Literal["head", "tail"] = "head"
    each: tuple[str, ...] = ()


class Files(Struct, frozen=True, tag="files", omit_defaults=True):
    """Read every file that matches the globs; `cap` bytes of each, at most `limit` files."""

    key: str
    paths: tuple[str, ...]
    cap: int = 1 << 16
    limit: int = 4096


class Links(Struct, frozen=True, tag="links", omit_defaults=True):
    """Read the target of every symbolic link that matches the globs."""

    key: str
    paths: tuple[str, ...]
    limit: int = 4096


class Stat(Struct, frozen=True, tag="stat", omit_defaults=True):
    """Per match: "type mode uid gid rdev access", e.g. "c 0666 0 0 195:0 rw" (access = what this user may do)."""

    key: str
    paths: tuple[str, ...]
    limit: int = 4096


class Env(Struct, frozen=True, tag="env", omit_defaults=True):
    """Environment variables whose names match the globs."""

    key: str
    names: tuple[str, ...]


class Which(Struct, frozen=True, tag="which", omit_defaults=True):
    """Every executable of these names on PATH, in the system directories and at the extra globs: path -> name."""

    key: str
    names: tuple[str, ...]
    also: tuple[str, ...] = ()


class Clock(Struct, frozen=True, tag="clock", omit_defaults=True):
    """What the kernel says of its clock (adjtimex, reading only): synchronised, maxerror_us, esterror_us."""

    key: str


Step = Exec | Files | Links | Stat | Env | Which | Clock


SCHEDULER = "@slurm"
"""Under this name, which no node can have, lies what the scheduler said."""


class Probe(Struct, frozen=True, omit_defaults=True):
    """What one source reads on a node. `root` = why it wants root, "" when any user can read it.

    A probe whose place is the scheduler runs once, on the login node; its answer belongs to `SCHEDULER`. One whose
    place is a pair runs on two nodes at once, and only where it was asked for.
    """

    name: str
    steps: tuple[Step, ...]
    effect: Effect = "read"
    timeout_s: float = 20.0
    root: str = ""
    place: Literal["node", "scheduler", "pair"] = "node"


# ---- what a node answered -----------------------------------------------------------------------------------

ReadState = Literal["ok", "absent", "denied", "timed-out", "error"]


class Read(Struct, frozen=True, omit_defaults=True):
    """The verbatim answer to one step, secrets redacted. `files` and `errors` are keyed by path (or name)."""

    key: str
    state: ReadState = "ok"
    argv: tuple[str, ...] = ()
    rc: int | None = None
    out: str = ""
    err: str = ""
    files: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    took_s: float = 0.0


class RawFact(Struct, frozen=True, omit_defaults=True):
    """Everything one probe read on one node: immutable evidence. `at` = UTC epoch seconds on the node's clock."""

    probe: str
    node: str
    reads: tuple[Read, ...]
    at: float = 0.0
    took_s: float = 0.0
    uid: int = -1

    def read(self, key: str) -> Read:
        """The first answer to the step `key`; an absent one when the step was never run."""
        return next((r for r in self.reads if r.key == key), Read(key=key, state="absent"))

    def every(self, key: str) -> Iterator[Read]:
        """All answers to a step that ran once per match."""
        return (r for r in self.reads if r.key == key)

    def out(self, key: str) -> str:
        """Standard output of a command, or the content of the only file read."""
        read = self.read(key)
        return read.out if read.argv or not read.files else next(iter(read.files.values()))

    def files(self, key: str) -> dict[str, str]:
        """Path -> content (or link target, or stat line) of a step."""
        return self.read(key).files


MissingKind = Literal[
    "absent", "denied", "not-applicable", "not-asked", "unreachable", "timed-out", "unparsable", "failed"
]
SKIPPED_KINDS: frozenset[MissingKind] = frozenset({"absent", "denied", "not-applicable", "not-asked"})


class Missing(Struct, frozen=True):
    """A fact that is not there, and why. `failed` = the tool ran and said it cannot answer."""

    kind: MissingKind
    reason: str

    @property
    def status(self) -> Status:
        """`skip` where there is nothing to judge or we were not let in, `unknown` where something went wrong."""
        return Status.SKIP if self.kind in SKIPPED_KINDS else Status.UNKNOWN


class Fact(Struct, frozen=True, kw_only=True):
    """Base of everything a parser returns. Inside a fact, None means: the source does not say."""


# ---- what a rule said ---------------------------------------------------------------------------------------


class Bar(Struct, frozen=True):
    """The number a verdict was held against, and where that number comes from."""

    value: str
    source: str


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What one rule says about one node or one fleet."""

    status: Status
    message: str
    reason: str = ""
    seen: Any = None
    expected: Any = None
    bar: Bar | None = None


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One verdict over the nodes that share it. `subject` is folded; `seen_nodes` of `expected_nodes` answered."""

    check: str
    category: Category
    criteria: tuple[str, ...]
    subject: str
    nodes: int
    status: Status
    severity: Severity
    message: str
    reason: str = ""
    seen: Any = None
    expected: Any = None
    seen_nodes: int | None = None
    expected_nodes: int | None = None
    bar: Bar | None = None
    evidence: tuple[str, ...] = ()
    fix: str = ""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine as observed. `identity` tells a replacement under the same name from the old node."""

    name: str
    identity: str = ""
    role: Literal["gpu", "cpu", "login", "control", "unknown"] = "unknown"
    rack: str = ""
    nvlink_domain: str = ""


TargetKind = Literal["local", "ssh", "slurm", "kubernetes", "replay"]


class SlurmOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How jobs are asked for. `gres` "" = all GPUs of each node, "none" = no GPU; `extra` goes to srun and sbatch.

    `partition` may be a comma list, "" is the default one. `workdir` is shared by login and nodes; sbatch needs it.
    `try_ssh` = under --load, a node goes to another by ssh.
    """

    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    time: str = "00:10:00"
    gres: str = ""
    extra: tuple[str, ...] = ()
    container_image: str = ""
    container_mounts: str = ""
    container_writable: bool = False
    method: Literal["auto", "srun", "sbatch"] = "auto"
    workdir: str = "~/.assay-jobs"
    try_ssh: bool = False


class Target(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What to audit and how to get in. `nodes` is a folded node set; `ssh_options` go to the system's ssh verbatim.

    `via` = the command that enters the login node of a scheduler, e.g. ssh login; empty = we are on it.
    """

    name: str = ""
    kind: TargetKind = "local"
    nodes: str = ""
    profile: str = ""
    user: str = ""
    ssh_options: tuple[str, ...] = ()
    sudo: bool = False
    python: str = "python3"
    access: Literal["lent", "bought", "own", "unknown"] = "unknown"
    fanout: int = 64
    timeout_s: float = 60.0
    via: tuple[str, ...] = ()
    emulated: bool = False
    slurm: SlurmOptions = SlurmOptions()


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of the scheduler that was asked for; `name` is unique, so that it can be found before its id is known."""

    name: str
    method: Literal["srun", "sbatch"]
    nodes: tuple[str, ...]
    state: Literal["planned", "submitted", "ended"] = "planned"
    id: str = ""


class LeftOut(Struct, frozen=True):
    """Nodes of the target that are not looked at, folded, and why."""

    nodes: str
    why: str


class RunInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Identity of a run. Times are UTC epoch seconds of the controller."""

    id: str
    target: Target
    started: float
    tool_version: str
    method: str
    plan: str = ""
    emulated: bool = False
    nodes: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
