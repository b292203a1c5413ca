"""Whether the kernel log can be read, reaches back far enough and is kept somewhere."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import When, check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.exporters import MonitoringAgents
from assay.facts.kernel_log import KernelLog
from assay.facts.log_pipeline import LogPipeline
from assay.facts.virtualisation import Virtualisation
from assay.model import Bar, Missing, Verdict
from assay.profiles.monitoring import Monitoring

_DAY = 86400.0


@check(
    "kernel.log.readable",
    category="monitoring",
    severity="medium",
    criteria=("mon-dmesg",),
    why="Xids, link flaps and memory kills are told only there: who may not read it cannot tell why a job died.",
    fix="Add the users to the groups adm or systemd-journal, or sysctl kernel.dmesg_restrict=0.",
)
def readable(log: KernelLog, place: Virtualisation | Missing) -> Verdict:
    """Passes when the user of the audit can read kernel messages, journal or ring buffer; warns when denied."""
    if elsewhere := not_the_host(place, "log"):
        return elsewhere
    if log.readable:
        return ok(f"{log.lines} kernel lines from the {log.source}", seen=log.lines)
    restrict = {0: ", kernel.dmesg_restrict=0", 1: ", kernel.dmesg_restrict=1"}.get(log.dmesg_restrict or 0, "")
    if log.denied == "the kernel log is empty":
        return unknown("no kernel line in the journal or the ring buffer", "too-little")
    return warn(
        f"this user cannot read the kernel log: {log.denied}{restrict if log.dmesg_restrict is not None else ''}"
    )


@check(
    "kernel.log.history",
    category="monitoring",
    severity="low",
    criteria=("mon-dmesg",),
    why="A fault is followed by a reboot: a log that starts at the reboot has lost the fault.",
    fix="mkdir -p /var/log/journal; systemctl restart systemd-journald; raise SystemMaxUse= in journald.conf.",
)
def history(log: KernelLog, kept: LogPipeline | Missing, when: When, bar: Monitoring) -> Verdict:
    """Passes when kernel lines reach back over the bar, or over a shorter time in a journal that survives reboots.

    Warns when only the ring buffer of this boot is at hand, or the journal is kept in memory.
    """
    if not log.readable:
        return skip(f"the kernel log is not readable: {log.denied}", "denied")
    if log.first_at is None:
        return unknown("the kernel log has no dates", "too-little")
    days = max((when.at - log.first_at) / _DAY, 0.0)
    limit = bar.log_days.bar(" days")
    if log.source == "dmesg":
        return warn(f"only the ring buffer of this boot ({_days(days)}): earlier boots are lost", seen=days, bar=limit)
    if days >= bar.log_days.value - 0.5 or log.boots > 1:
        return ok(f"{_days(days)} of kernel log, {log.boots} boot{'s' if log.boots > 1 else ''}", seen=days, bar=limit)
    return _short(days, kept.persistent if isinstance(kept, LogPipeline) else None, limit)


def _short(days: float, persistent: bool | None, limit: Bar) -> Verdict:  # noqa: FBT001 - a fact with three values
    """A log shorter than the bar: a young node, or one that forgets."""
    if persistent:
        return ok(f"{_days(days)} of kernel log in a journal that survives reboots", seen=days, bar=limit)
    if persistent is False:
        return warn(f"{_days(days)} of kernel log, kept in memory: lost at the next reboot", seen=days, bar=limit)
    return unknown(
        f"the kernel log starts {_days(days)} ago; nothing tells whether older lines were lost", "too-little"
    )


def _days(days: float) -> str:
    return f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"


@check(
    "kernel.log.kept",
    category="monitoring",
    severity="medium",
    criteria=("mon-dmesg",),
    why="A node that is replaced takes its logs along: without a copy elsewhere nobody can search what happened.",
    fix="Run a log shipper (promtail, alloy, fluent-bit, vector, rsyslog omfwd) that includes the kernel log.",
)
def kept(pipeline: LogPipeline, agents: MonitoringAgents) -> Verdict:
    """Passes when a log shipper runs or a running syslog daemon forwards; warns when logs stay on this node."""
    running = {a.name for a in agents.agents}
    forwards = [f for f in pipeline.forwards if f in running or agents.hidden]
    if shippers := sorted({*agents.role("logs"), *forwards}):
        return ok(f"shipped by {', '.join(shippers)}", seen=shippers)
    local = ["the journal"] if pipeline.persistent else []
    local += [f.rsplit("/", 1)[1] for f in pipeline.files]
    if agents.hidden:
        return unknown("processes of other users are hidden here: a log shipper may run", "too-little")
    if local:
        return warn(f"kept on this node only ({', '.join(local)}): no log shipper seen", seen=local)
    if pipeline.persistent is False:
        return fail("kernel log in memory only: no shipper, no file, volatile journal")
    return unknown("no journal, no syslog file and no log shipper seen", "too-little")
