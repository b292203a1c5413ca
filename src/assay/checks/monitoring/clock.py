"""Whether the clocks of the nodes can be compared."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, unknown, warn
from assay.facts.time_sync import TimeSync
from assay.model import Verdict
from assay.profiles.monitoring import Monitoring


@check(
    "time.synchronised",
    category="monitoring",
    severity="high",
    why="Where clocks run apart the order of faults on several nodes cannot be told, and logins and tokens break.",
    fix="systemctl enable --now chronyd; chronyc sources -v to see why no source is selected.",
)
def synchronised(clock: TimeSync) -> Verdict:
    """Passes when the time daemon, else the kernel, says that the clock follows a source; PTP alone is unknown."""
    seen = {"by": clock.by, "leap": clock.leap, "stratum": clock.stratum, "reference": clock.reference}
    if clock.synchronised:
        source = f", stratum {clock.stratum}" if clock.stratum is not None else ""
        return ok(f"synchronised ({clock.by}{source})", seen=seen)
    if clock.ptp:
        return unknown("PTP runs here and keeps the clock; its state is not read", "too-little", seen=seen)
    if clock.synchronised is False:
        return fail(f"the clock is not synchronised ({clock.by})", seen=seen)
    return unknown(f"no time daemon answered{f': {clock.error}' if clock.error else ''}", "too-little", seen=seen)


@check(
    "time.offset",
    category="monitoring",
    severity="medium",
    why="Clocks that run apart put the events of several nodes in the wrong order: the effect comes before its cause.",
    fix="chronyc makestep; then look at chronyc sourcestats for a source with a long or lopsided path.",
)
def offset(clock: TimeSync, bar: Monitoring) -> Verdict:
    """Compares the offset that the daemon reports with two bars; an unsynchronised clock has no offset."""
    if clock.offset_s is None:
        why = "the clock is not synchronised" if clock.synchronised is False else "no daemon tells the offset"
        return unknown(why, "too-little")
    ms = abs(clock.offset_s) * 1000
    words = f"{ms:.3g} ms {'ahead' if clock.offset_s > 0 else 'behind'}"
    if ms > bar.offset_fail_ms.value:
        return fail(words, seen=ms, bar=bar.offset_fail_ms.bar(" ms", "<= "))
    limit = bar.offset_ms.bar(" ms", "<= ")
    return warn(words, seen=ms, bar=limit) if ms > bar.offset_ms.value else ok(words, seen=ms, bar=limit)


@check(
    "time.clocksource",
    category="monitoring",
    severity="medium",
    why="With a slow clock source every time stamp costs microseconds: profilers, NCCL and Python loops slow down.",
    fix="Look for 'clocksource tsc as unstable' in the kernel log; boot with tsc=reliable on sound hardware.",
)
def clocksource(clock: TimeSync, bar: Monitoring) -> Verdict:
    """Passes for the CPU's own counter or the hypervisor's; warns for timers that are read over a slow bus."""
    name = clock.clocksource
    if not name:
        return unknown("the kernel does not tell its clock source", "too-little")
    limit = bar.clock_sources.cited(", ".join(sorted(bar.clock_sources.good)))
    if name in bar.clock_sources.slow:
        return warn(f"clock source {name}", seen=name, bar=limit)
    return ok(f"clock source {name}", seen=name) if name in bar.clock_sources.good else unknown(f"clock source {name}")
