"""What Slurm's programs say when something does not start or ends early. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from assay.launch.outcome import last_line
from assay.model import Missing, MissingKind
from assay.slurm.hostlist import hosts

_DOWN = re.compile(
    r"unable to contact slurm controller|slurm_receive_msg.*(?:zero bytes|connection refused)|"
    r"(?:unable|failed) to contact.*(?:controller|slurmctld)|communications connection failure",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"requested nodes are busy|nodes required for job are down|job allocation request.*timed out|"
    r"unable to allocate resources: (?:connection timed out|interrupted system call|socket timed out)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"(?:unable to allocate resources|(?:batch )?job submission failed|lua|cli_filter|invalid \w+)\b", re.IGNORECASE
)
_RIGHTS = re.compile(
    r"invalid (?:account|qos|partition)|not permitted|permission denied|access|violates|lua|cli_filter", re.IGNORECASE
)
_NOT_RUN = re.compile(r"srun cannot be started|srun: not found|salloc cannot be started|not allowed", re.IGNORECASE)
_NOISE = re.compile(r"queued and waiting|has been allocated|Force Terminated|forcing job termination|Waiting up to")
_OF_NODE: tuple[tuple[re.Pattern[str], MissingKind, str], ...] = (
    (re.compile(r"python\S*: (?:No such file|command not found|not found)|execve\(\)", re.IGNORECASE), "failed",
     "cannot run Python there"),
    (re.compile(r"node fail|not responding|Communication connection failure|Unable to (?:contact|connect)|Timed out",
                re.IGNORECASE), "unreachable", "lost"),
    (re.compile(r"due to time limit", re.IGNORECASE), "timed-out", "the job's time was up"),
    (re.compile(r"prolog", re.IGNORECASE), "failed", "the prolog failed"),
    (re.compile(r"pyxis|enroot|container", re.IGNORECASE), "failed", "the container did not start"),
    (re.compile(r"exited with exit code|killed|aborted|out of memory|oom", re.IGNORECASE), "failed", "ended early"),
)  # fmt: skip


class Trouble(Struct, frozen=True):
    """Why no job ran: slurmctld is down, the nodes are busy, or the job was refused; in Slurm's words."""

    kind: Literal["down", "busy", "refused"]
    words: str


def contact_lost(stderr: str) -> str:
    """The line in which a program of Slurm says that it cannot reach slurmctld."""
    return _line(_DOWN, stderr)


def trouble(stderr: str) -> Trouble | None:
    """Why no task of a job started, if the job itself was the trouble."""
    if words := contact_lost(stderr):
        return Trouble("down", words)
    if words := _line(_BUSY, stderr):
        return Trouble("busy", words)
    if words := _line(_REFUSED, stderr) or _line(_NOT_RUN, stderr):
        refusal = [line for line in said(stderr) if _REFUSED.search(line) or _RIGHTS.search(line)]
        return Trouble("refused", "; ".join(dict.fromkeys(refusal[:3])) or words)
    return None


def said(stderr: str) -> list[str]:
    """The lines that say something, without the names of the programs and what is said of every job."""
    lines = (
        re.sub(r"^(?:(?:srun|sbatch|slurmstepd(?:-\S+)?|assay): )?(?:error: )?", "", x) for x in stderr.split("\n")
    )
    return [line.strip() for line in lines if line.strip() and not _NOISE.search(line)]


def lines_about(node: str, stderr: str) -> list[str]:
    """The lines that name a node, alone or in a hostlist."""
    return [line for line in stderr.splitlines() if (node in line or "[" in line) and node in _names(line)]


def why_silent(node: str, stderr: str, *, greeted: bool, left: int, timed_out: bool) -> Missing:
    """Why a node of a job that ran did not answer everything, in words that name the node."""
    about = lines_about(node, stderr)
    for pattern, kind, words in _OF_NODE:
        for line in about or said(stderr):
            if pattern.search(line) and (about or kind == "timed-out"):
                return Missing(kind, f"{node}: {words} ({line.strip()[:200]})")
    words = last_line("\n".join(about)) or last_line("\n".join(said(stderr)))
    quoted = f" ({words[:200]})" if words else ""
    state = f"ended with {left} probes unanswered" if greeted else "its task did not start"
    return Missing("timed-out" if timed_out else "failed", f"{node}: {state}{quoted}")


def _names(line: str) -> Sequence[str]:
    found: list[str] = []
    for word in re.findall(r"[A-Za-z0-9_.,\[\]-]+", line):
        bare = word.strip(".,").removeprefix("slurmstepd-")
        found += [bare, *(hosts(bare) if "[" in bare or "," in bare else ())]
    return found


def _line(pattern: re.Pattern[str], text: str) -> str:
    return next((line.strip() for line in text.splitlines() if pattern.search(line)), "")
