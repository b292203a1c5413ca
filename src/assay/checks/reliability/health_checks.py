"""Whether anything watches this host's health, whether it covers what breaks, and whether its results are fresh."""

from __future__ import annotations

from assay.checks.registry import When, check
from assay.checks.reliability.active_tests import NO_GPU, age_days, told
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.dcgm import DcgmHealth
from assay.facts.exporters import MonitoringAgents
from assay.facts.gpu_presence import GpuPresence
from assay.facts.health_programs import HealthPrograms
from assay.model import Missing, Verdict
from assay.profiles.monitoring import Monitoring

_DAY = 86400.0
_HIDDEN = "processes of other users are hidden here: a health daemon may run"
# What each watch of DCGM looks at, in the words of the passive suite.
_DCGM = {"PCIe": "pcie", "NVLINK": "link", "Memory": "ecc", "Thermal": "thermal"}
_SUITE = ("off-bus", "pcie", "link", "thermal", "ecc", "xid", "collective")
_XID_FIELDS = frozenset({"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"})


@check(
    "health.automated",
    category="monitoring",
    severity="high",
    criteria=("mon-auto-health",),
    why="Without automated checks the first to notice a broken node is a user's job.",
    fix="Run a health daemon (gpud, NVSentinel, NHC) for passive checks and schedule active tests on idle nodes.",
)
def automated(gpus: GpuPresence, health: HealthPrograms, dcgm: DcgmHealth | Missing) -> Verdict:
    """Passes when this host runs both passive watching and scheduled active tests; warns when it runs neither.

    One of the two is unknown: the scheduler may run the other as jobs.
    """
    if not gpus.any:
        return skip(NO_GPU)
    own = [p for p in health.programs if p.how != "installed"]
    passive = [p.name for p in own if p.watches or p.how == "daemon" or (p.how == "slurm" and not p.tests)]
    passive += ["DCGM health watches"] if isinstance(dcgm, DcgmHealth) and any(dcgm.watches.values()) else []
    active = [p.name for p in own if p.tests]
    if passive and active:
        return ok(f"passive: {passive[0]}; active: {active[0]}", seen=[*passive, *active])
    if passive or active:
        half = f"passive only ({passive[0]})" if passive else f"active only ({active[0]})"
        return unknown(f"{half}; the other half may run as jobs", "too-little", seen=[*passive, *active])
    if health.hidden or health.denied:
        return unknown(_HIDDEN if health.hidden else f"may not be read: {health.denied[0]}", "too-little")
    return warn("no health programme seen on this host: no daemon, timer, cron entry or Slurm program")


@check(
    "health.fresh",
    category="monitoring",
    severity="high",
    criteria=("mon-freshness",),
    why="An old green result proves nothing: a node with a dead fabric adapter stays green until the next test.",
    fix="Look why it stopped: systemctl list-timers --all; journalctl -u UNIT; export the age of each result.",
)
def fresh(gpus: GpuPresence, health: HealthPrograms, when: When, bar: Monitoring) -> Verdict:
    """Fails when a scheduled health programme's last run is older than the bar and than its own period."""
    if not gpus.any:
        return skip(NO_GPU)
    planned = [p for p in health.programs if p.how in {"timer", "cron"}]
    aged = [(age, p) for p in planned if (age := age_days(p, when.at)) is not None]
    if not planned:
        return unknown("no health programme with a schedule of its own on this host", "too-little")
    if not aged:
        return unknown(f"the last run of {planned[0].name} is not told", "too-little")
    limit = bar.stale_days.bar(" days", "<= ")
    stale = [(age, p) for age, p in aged if age > bar.stale_days.value]
    late = [(age, p) for age, p in stale if age > (p.period_s or 0.0) / _DAY + 1]
    if late:
        age, worst = max(late, key=lambda pair: pair[0])
        return fail(f"stale: {told(worst)} last ran {age:.1f} days ago", seen=age, bar=limit)
    if stale:
        age, rare = stale[0]
        return warn(f"{told(rare)} last ran {age:.1f} days ago, as scheduled", seen=age, bar=limit)
    age, oldest = max(aged, key=lambda pair: pair[0])
    return ok(f"{oldest.name} last ran {age:.1f} days ago", seen=age, bar=limit)


@check(
    "health.passive",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="A fault that nobody watches for is found by the next job on the node.",
    fix="Run a GPU health daemon, switch on all DCGM health watches, and add the missing kinds to NHC.",
)
def passive_suite(
    gpus: GpuPresence, health: HealthPrograms, agents: MonitoringAgents, dcgm: DcgmHealth | Missing
) -> Verdict:
    """Compares what daemons, DCGM's watches and scheduled scripts on this host look at with the full passive suite."""
    if not gpus.any:
        return skip(NO_GPU)
    seen = _watched(health, dcgm)
    absent = [kind for kind in _SUITE if kind not in seen]
    if not seen:
        if health.hidden or agents.hidden:
            return unknown(_HIDDEN, "too-little")
        return warn("nothing on this host watches for faults", seen=[])
    if not absent:
        return ok("GPU off bus, PCIe, links, thermals, ECC, Xid and stalled collectives are watched", seen=seen)
    return warn(f"watched: {', '.join(seen)}; not seen: {', '.join(absent)}", seen=seen, expected=list(_SUITE))


def _watched(health: HealthPrograms, dcgm: DcgmHealth | Missing) -> list[str]:
    kinds = {w for p in health.programs if p.how != "installed" for w in p.watches}
    if isinstance(dcgm, DcgmHealth):
        kinds |= {_DCGM[name] for name, on in dcgm.watches.items() if on and name in _DCGM}
    return [kind for kind in _SUITE if kind in kinds]


@check(
    "kernel.log.watched",
    category="reliability",
    severity="high",
    criteria=("exp-hc-xid",),
    why="An Xid is the earliest and often the only sign that a GPU has failed.",
    fix="Run gpud or NVSentinel, or a node problem detector with an Xid rule; export DCGM_FI_DEV_XID_ERRORS.",
)
def xids_watched(gpus: GpuPresence, health: HealthPrograms, agents: MonitoringAgents) -> Verdict:
    """Passes when something on this host looks for Xids; a shipped log may be watched elsewhere and is unknown."""
    if not gpus.nvidia:
        return skip("no NVIDIA GPU here" if not gpus.amd else "Xids are NVIDIA's; this is an AMD host")
    watchers = sorted({p.name for p in health.programs if p.how != "installed" and "xid" in p.watches})
    if agents.counters and not _XID_FIELDS.isdisjoint(agents.counters.enabled):
        watchers.append("dcgm-exporter (Xid field)")
    if watchers:
        return ok(f"Xids are watched by {', '.join(watchers)}", seen=watchers)
    if shippers := agents.role("logs"):
        return unknown(f"the log is shipped by {', '.join(shippers)}; alerts on it cannot be seen here", "too-little")
    if "dcgm-exporter" in agents.role("gpu"):
        return unknown("dcgm-exporter runs; its counter list is not on this host or has no Xid field", "too-little")
    if agents.hidden or health.hidden:
        return unknown(_HIDDEN, "too-little")
    return warn("nothing on this host watches for Xids")
