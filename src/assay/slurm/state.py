"""States of nodes and jobs, from every spelling of every release."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

# What a symbol at the end of a state means: sinfo in all releases, scontrol up to 20.11.
SYMBOLS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED", "+": "COMPLETING",
}  # fmt: skip
_BASES = frozenset({"IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "UNKNOWN", "FUTURE"})
# sinfo's words: (base, flags). Where sinfo hides the base (a drained node may be idle or down) the word is the base.
_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ALLOC": ("ALLOCATED", ()), "MIX": ("MIXED", ()), "ERR": ("ERROR", ()), "UNK": ("UNKNOWN", ()),
    "FUTR": ("FUTURE", ()), "FUTUR": ("FUTURE", ()),
    "DRAIN": ("DRAINED", ("DRAIN",)), "DRAINED": ("DRAINED", ("DRAIN",)),
    "DRNG": ("DRAINING", ("DRAIN",)), "DRAINING": ("DRAINING", ("DRAIN",)),
    "COMP": ("IDLE", ("COMPLETING",)), "COMPLETING": ("IDLE", ("COMPLETING",)),
    "MAINT": ("IDLE", ("MAINTENANCE",)), "RESV": ("IDLE", ("RESERVED",)), "RESERVED": ("IDLE", ("RESERVED",)),
    "PLND": ("IDLE", ("PLANNED",)), "PLANNED": ("IDLE", ("PLANNED",)),
    "BLOCK": ("IDLE", ("BLOCKED",)), "BLOCKED": ("IDLE", ("BLOCKED",)),
    "FAIL": ("FAIL", ("FAIL",)), "FAILG": ("FAILING", ("FAIL",)), "FAILING": ("FAILING", ("FAIL",)),
    "BOOT": ("REBOOT", ("REBOOT_ISSUED",)), "REBOOT": ("REBOOT", ("REBOOT_ISSUED",)),
    "INVAL": ("INVAL", ("INVALID_REG",)),
    "POW_DN": ("IDLE", ("POWERING_DOWN",)), "POWERING_DOWN": ("IDLE", ("POWERING_DOWN",)),
    "POW_UP": ("IDLE", ("POWERING_UP",)), "POWERING_UP": ("IDLE", ("POWERING_UP",)),
    "POWER_DOWN": ("IDLE", ("POWER_DOWN",)), "POWERED_DOWN": ("IDLE", ("POWERED_DOWN",)),
    "NPC": ("IDLE", ("PERFCTRS",)), "PERFCTRS": ("IDLE", ("PERFCTRS",)),
}  # fmt: skip
_FLAG_WORDS = {"DRAINED": "DRAIN", "DRAINING": "DRAIN", "NO_RESPOND": "NOT_RESPONDING"}
_POWER = frozenset({"POWERED_DOWN", "POWER", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "POWER_DRAIN"})
_BAD = _POWER | {
    "DRAIN", "NOT_RESPONDING", "FAIL", "INVALID_REG", "REBOOT_ISSUED", "REBOOT_REQUESTED", "MAINTENANCE", "BLOCKED",
}  # fmt: skip
_HARMLESS = frozenset({
    "CLOUD", "DYNAMIC", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "COMPLETING", "PLANNED", "RESERVED", "PERFCTRS", "UNDRAIN",
    "EXTERNAL",
})  # fmt: skip
_BROKEN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "INVAL"})
_SPELLING = re.compile(r"\s*([A-Za-z][\w/]*)([*~#!%$@^+-]*)((?:\+[\w*~#!%$@^-]*)*)\s*")


class NodeState(Struct, frozen=True):
    """A base and flags, upper case. The base is DRAINED, DRAINING, FAIL, REBOOT or INVAL where sinfo says no more."""

    base: str
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((self.base, *self.flags))

    @property
    def usable(self) -> bool:
        """Slurm can start a job on it now, given a free share and, if RESERVED, the reservation."""
        return self.base in ("IDLE", "MIXED", "ALLOCATED") and _BAD.isdisjoint(self.flags)

    @property
    def drain(self) -> Literal["", "draining", "drained"]:
        """Whether an administrator (or Slurm) drains it, and whether jobs still run on it."""
        if "DRAIN" not in self.flags:
            return ""
        busy = self.base in ("ALLOCATED", "MIXED", "DRAINING") or "COMPLETING" in self.flags
        return "draining" if busy else "drained"

    @property
    def responding(self) -> bool:
        """False when slurmctld marks it as not answering."""
        return "NOT_RESPONDING" not in self.flags

    @property
    def asleep(self) -> bool:
        """Powered down, or on the way down or up, by Slurm's power saving: no failure."""
        return not _POWER.isdisjoint(self.flags) and not self.failed

    @property
    def failed(self) -> bool:
        """Down, failing, wrongly registered, or silent without being switched by power saving."""
        if self.base in _BROKEN or not {"FAIL", "INVALID_REG"}.isdisjoint(self.flags):
            return True
        return not self.responding and _POWER.isdisjoint(self.flags) and self.base != "FUTURE"

    @property
    def unknown_flags(self) -> tuple[str, ...]:
        """Flags this release of Assay has no meaning for."""
        return tuple(f for f in self.flags if f not in _BAD and f not in _HARMLESS)


@functools.lru_cache(maxsize=4096)
def node_state(text: str) -> NodeState:
    """One spelling: `drng*`, `DOWN*+CLOUD`, `IDLE+DRAIN+PLANNED`, `mixed-`. Raises ValueError for what is no state."""
    found = _SPELLING.fullmatch(text)
    if not found:
        raise ValueError(f"not a node state: {text!r}")
    word, symbols, rest = found.groups()
    flags = [SYMBOLS[c] for c in symbols]
    for part in rest.split("+"):
        bare = part.rstrip("*~#!%$@^-")
        flags += [bare] * bool(bare) + [SYMBOLS[c] for c in part[len(bare) :]]
    return _state(word, flags)


def node_state_of(words: str | Iterable[str], flags: Iterable[str] = ()) -> NodeState:
    """The state of a JSON answer: a string (with state_flags beside it) or a list. Raises ValueError if it is empty."""
    if isinstance(words, str):
        state = node_state(words)
        return _state(state.base, (*state.flags, *flags))
    every = [str(w).strip() for w in words]
    if not every or not every[0]:
        raise ValueError("a node state without a word")
    return _state(every[0], (*every[1:], *flags))


def _state(word: str, flags: Iterable[str]) -> NodeState:
    raised = [flag.strip().upper() for flag in flags if flag.strip()]
    first = word.upper()
    if first not in _BASES and (base := next((f for f in raised if f in _BASES), None)):
        raised = [first, *(f for f in raised if f != base)]
        first = base
    base, implied = _WORDS.get(first, (first, ()))
    if first == "DRAIN" and "COMPLETING" in raised:
        base = "DRAINING"
    named = (_FLAG_WORDS.get(flag, flag) for flag in (*implied, *raised))
    return NodeState(base, tuple(dict.fromkeys(named)))


_JOB_CODES = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "LF": "LAUNCH_FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED", "TO": "TIMEOUT", "PO": "POWER_UP_NODE",
    "RE": "RECONFIG_FAIL", "EX": "EXPEDITING",
}  # fmt: skip
JOB_STATES = frozenset(_JOB_CODES.values())
_JOB = re.compile(r"\s*([A-Za-z][A-Za-z_]*)(\+?)(?:\s+by\s+(\S+))?\s*")
ENDED_BADLY = frozenset({"BOOT_FAIL", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"})


class JobState(Struct, frozen=True):
    """A job's state by its long name, further flags of JSON answers, and who cancelled it (uid or name)."""

    base: str
    flags: tuple[str, ...] = ()
    cancelled_by: str | None = None

    def __str__(self) -> str:
        return f"{self.base} by {self.cancelled_by}" if self.cancelled_by else "+".join((self.base, *self.flags))

    @property
    def ended(self) -> bool:
        """No longer waiting or running, and not about to run again."""
        return self.base in ENDED_BADLY | {"CANCELLED", "COMPLETED", "PREEMPTED", "REVOKED", "SPECIAL_EXIT"}


@functools.lru_cache(maxsize=4096)
def job_state(text: str) -> JobState:
    """`R`, `RUNNING`, `CANCELLED by 1000`, `CANCELLED+` (cut by sacct). Raises ValueError for what is no state."""
    word, _, rest = text.partition("+")
    if rest and re.fullmatch(r"[A-Z_]+(?:\+[A-Z_]+)*", rest):
        return job_state_of([word, *rest.split("+")])
    found = _JOB.fullmatch(text)
    if not found:
        raise ValueError(f"not a job state: {text!r}")
    name = found[1].upper()
    return JobState(_JOB_CODES.get(name, name), (), found[3])


def job_state_of(words: str | Iterable[str]) -> JobState:
    """The state of a JSON answer: a string or a list. Raises ValueError if it is empty."""
    if isinstance(words, str):
        return job_state(words)
    base, *flags = [str(w).strip().upper() for w in words] or [""]
    if not base:
        raise ValueError("a job state without a word")
    return JobState(_JOB_CODES.get(base, base), tuple(flags))
