"""Lines of slurmctld.log and slurmd.log that tell of nodes drained, lost or refused, and of prologs that failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from assay.model import Fact
from assay.slurm.times import stamp

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT[\d:.]+)\]\s+(?:\[([\d.]+(?:batch|extern|\d+)?)\]\s+)?(.*)")
_SYSLOG = re.compile(r"(?:<\d+>)?(?:slurmctld|slurmd)(?:\[\d+\])?: ")
_NODE = r"(?P<node>[\w.:-]+(?:\[[\d,-]+\])?(?:,[\w.:-]+(?:\[[\d,-]+\])?)*)"
_JOB = r"(?:JobId=|job )(?P<job>\d{1,18})"
# First that fits.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reason-set", re.compile(rf"update_node: node {_NODE} reason set to: (?P<text>.*)")),
    ("state-set", re.compile(rf"update_node: node {_NODE} state set to (?P<text>\w+)")),
    ("not-responding", re.compile(rf"(?:error: )?Nodes {_NODE} not responding, setting DOWN")),
    ("not-responding", re.compile(rf"(?:error: )?Nodes {_NODE} not responding\b")),
    ("rebooted", re.compile(rf".*?Node {_NODE} unexpectedly rebooted")),
    ("invalid", re.compile(rf"(?:error: )?Setting node {_NODE} state to INVAL with reason:(?P<text>.*)")),
    ("resume-timeout", re.compile(rf"node {_NODE} not resumed by ResumeTimeout\(\d+\)")),
    ("requeued", re.compile(rf"(?:error: )?[Rr]equeue job {_JOB} due to failure of node {_NODE}")),
    ("killed", re.compile(rf"(?:error: )?Killing {_JOB}\S* on failed node {_NODE}")),
    ("drained", re.compile(rf"(?:error: )?drain_nodes: node {_NODE} state set to DRAIN")),
    ("drained", re.compile(rf"(?:error: )?.*?[Dd]raining node {_NODE}")),
    ("prolog-failed", re.compile(rf".*?\[{_JOB}\] prolog failed status=(?P<text>\d+:\d+)", re.IGNORECASE)),
    ("epilog-failed", re.compile(rf".*?\[{_JOB}\] epilog failed status=(?P<text>\d+:\d+)", re.IGNORECASE)),
    ("prolog-failed", re.compile(rf".*?(?:prolog_error for|prolog launch failure,) {_JOB}", re.IGNORECASE)),
    ("epilog-failed", re.compile(rf".*?epilog.*?error.*?{_NODE} for {_JOB}", re.IGNORECASE)),
    ("node-failure", re.compile(
        r".*?\*\*\* (?:JOB|STEP) (?P<job>\d{1,18})\S* ON (?P<node>\S+) CANCELLED AT \S+ DUE TO NODE FAIL",
    )),
    ("responding", re.compile(rf"Node {_NODE} now responding")),
    ("returned", re.compile(rf"(?:node_did_resp|Node) {_NODE} returned to service")),
    ("kill-failed", re.compile(r".*?(?P<text>UnkillableStep|Kill task failed)")),
    ("reboot-asked", re.compile(r"Node reboot request being processed")),
    ("health-check", re.compile(r".*?health_check failed: (?P<text>.*)")),
    ("differs", re.compile(r"Node configuration differs from hardware: (?P<text>.*)")),
)  # fmt: skip
_LONGEST = 4096


class LogEvent(Fact, frozen=True):
    """One line. `nodes` is a hostlist; `step` is the step whose slurmstepd wrote it; `text` what the line adds."""

    at: str | None = None
    kind: str = ""
    nodes: str | None = None
    job: int | None = None
    step: str | None = None
    text: str | None = None
    message: str = ""


def slurm_log(text: str) -> tuple[LogEvent, ...]:
    """The events of a log, in order; other lines are passed over. Raises ValueError when no line has a time."""
    found: list[LogEvent] = []
    lines = 0
    for line in text.split("\n"):
        head = _LINE.match(line[:_LONGEST])
        if head:
            lines += 1
            if event := _event(head):
                found.append(event)
    if text.strip() and not lines:
        raise ValueError("not a log of slurmctld or slurmd")
    return tuple(found)


def _event(head: re.Match[str]) -> LogEvent | None:
    message = _SYSLOG.sub("", head[3], count=1)
    for kind, pattern in _KINDS:
        if found := pattern.match(message):
            groups = found.groupdict()
            return LogEvent(
                at=stamp(head[1]),
                kind=kind,
                nodes=groups.get("node"),
                job=int(groups["job"]) if groups.get("job") else None,
                step=head[2],
                text=groups.get("text"),
                message=message,
            )
    return None


FORMATS: dict[str, Callable[[str], Any]] = {"slurmctld.log": slurm_log, "slurmd.log": slurm_log}
