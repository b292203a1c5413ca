"""The end of slurmd's log: health checks whose result nobody takes, prologs that fail, processes that do not die."""

from __future__ import annotations

import re
from collections import Counter

from msgspec import field

from assay.facts.source import source
from assay.model import Exec, Fact, Missing, Probe, RawFact

_HEALTH = re.compile(r"health_check (?:failed|timed out)[^\n]{0,200}")
_RC = re.compile(r"\brc:(\d{1,3})|[Tt]imed out|signal (\d{1,3})")
_PROLOG = re.compile(r"(?:prolog|epilog)(?:_run)? (?:failed|timed out|error)[^\n]{0,200}", re.IGNORECASE)
_STUCK = re.compile(r"Kill task failed|UNKILLABLE|not killed by SIGKILL", re.IGNORECASE)
_ANY = re.compile(r"^\[\d{4}-\d\d-\d\dT[^\]\n]{0,40}\] ", re.MULTILINE)


class SlurmdLog(Fact, frozen=True):
    """Counts over the last lines of the log. `health` = failed health checks by how they ended: "rc 3", "timed out"."""

    path: str = ""
    lines: int = 0
    health: dict[str, int] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    unkillable: int = 0


@source(
    Probe(
        "slurm.slurmd-log",
        (
            Exec(
                "tail",
                ("tail", "-n", "500", "{}"),
                timeout_s=3.0,
                cap=1 << 17,
                keep="tail",
                each=("/var/log/slurm/slurmd*.log", "/var/log/slurmd*.log", "/var/log/slurm-llnl/slurmd.log"),
            ),
        ),
        root="slurmd's log is readable by root only",
    ),
    sees_missing=True,
)
def slurmd_log(raw: RawFact) -> SlurmdLog | Missing:
    """The first log that has lines of slurmd."""
    found = [r for r in raw.every("tail") if r.state == "ok" and not r.rc and _ANY.search(r.out)]
    if not found:
        denied = any("ermission denied" in r.err or r.state == "denied" for r in raw.every("tail"))
        return Missing("denied" if denied else "absent", "no log of slurmd to read on this node")
    text = found[0].out
    return SlurmdLog(
        path=found[0].argv[-1],
        lines=len(_ANY.findall(text)),
        health=dict(Counter(_ended(line) for line in _HEALTH.findall(text))),
        hooks=tuple(dict.fromkeys(" ".join(line.split())[:120] for line in _PROLOG.findall(text)))[:8],
        unkillable=len(_STUCK.findall(text)),
    )


def _ended(line: str) -> str:
    found = _RC.search(line)
    if not found:
        return "failed"
    return f"rc {found[1]}" if found[1] else f"signal {found[2]}" if found[2] else "timed out"
