"""Active tests that this host schedules by itself, one check per kind of test."""

from __future__ import annotations

from msgspec import Struct

from assay.checks.registry import When, check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.health_programs import HealthPrograms, Programme
from assay.model import Verdict
from assay.profiles.monitoring import Monitoring

_DAY = 86400.0
NO_GPU = "no GPU here"
ELSEWHERE = "no schedule seen on this host; the scheduler or provider may run it elsewhere"


class Active(Struct, frozen=True):
    """A kind of active test: the word for it in `HealthPrograms`, what it serves, what it finds and how to run it."""

    kind: str
    id: str
    criteria: str
    name: str
    why: str
    run: str


KINDS = (
    Active(
        "dcgm-diag",
        "health.active.dcgm",
        "exp-hc-active-dcgm",
        "dcgmi diag",
        "DCGM's own load tests find broken memory, links and power delivery before a job does.",
        "dcgmi diag -r 3 -j",
    ),
    Active(
        "h2d",
        "health.active.h2d",
        "exp-hc-active-h2d",
        "host-device bandwidth",
        "A GPU on a degraded PCIe link loads data and checkpoints at a fraction of the speed of the others.",
        "nvbandwidth -t host_to_device_memcpy_ce,device_to_host_memcpy_ce (AMD: rocm-bandwidth-test)",
    ),
    Active(
        "burn",
        "health.active.burn",
        "exp-hc-active-burn",
        "GPU burn",
        "Thermal paste, power cables and weak chips show only under minutes of full load.",
        "gpu_burn 900 or rvs with gst",
    ),
    Active(
        "nccl-local",
        "health.active.nccl-local",
        "exp-hc-active-nccl-local",
        "local all-reduce",
        "One bad NVLink or NVSwitch slows every job on the node and raises no error.",
        "all_reduce_perf -b 16G -e 16G -g 8",
    ),
    Active(
        "ib-local",
        "health.active.ib-local",
        "exp-hc-active-ib-local",
        "local all-reduce through the fabric adapters",
        "A bad fabric adapter is found by the first job over several nodes, unless the node tests its own adapters.",
        "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 all_reduce_perf -b 1G -e 8G -g 8",
    ),
    Active(
        "pairwise",
        "health.active.pairwise",
        "exp-hc-active-pairwise",
        "pairwise RDMA bandwidth and latency",
        "A bad cable or switch port shows between one pair of nodes only.",
        "ib_write_bw and ib_write_lat per rail, both ways",
    ),
    Active(
        "correctness",
        "health.active.correctness",
        "exp-hc-active-correctness",
        "silent-corruption test",
        "A chip that computes wrongly without an error ruins weeks of training.",
        "cuda_memtest, or repeat a GEMM and compare bits",
    ),
    Active(
        "training",
        "health.active.training",
        "exp-hc-active-training",
        "reference training job",
        "A fault that needs compute, memory and fabric loaded at once passes every smaller test.",
        "a short torchrun job with known TFLOP/s and loss",
    ),
)


def _register(active: Active) -> None:
    @check(
        active.id,
        category="reliability",
        severity="low",
        criteria=(active.criteria,),
        why=active.why,
        fix=f"Schedule on idle nodes: {active.run}",
    )
    def scheduled(gpus: GpuPresence, health: HealthPrograms, when: When, bar: Monitoring) -> Verdict:
        """Looks for this kind of test in what the host starts by itself: timers, cron, Slurm's programs, NHC.

        Passes when one runs it; warns when its last run is older than the bar. Nothing on the host is unknown, because
        the scheduler may run it as a job.
        """
        return _scheduled(active, gpus, health, when.at, bar)


def _scheduled(active: Active, gpus: GpuPresence, health: HealthPrograms, at: float, bar: Monitoring) -> Verdict:
    if not gpus.any or (active.kind == "dcgm-diag" and not gpus.nvidia):
        return skip(NO_GPU)
    found = health.testing(active.kind)
    if not found:
        suites = [p.name for p in health.testing("suite")]
        return unknown(f"{suites[0]} runs; which tests is not told on the host" if suites else ELSEWHERE, "too-little")
    best = max(found, key=lambda p: (p.diag_level or 0, p.last or 0.0))
    words = f"{active.name}: {told(best)}"
    if active.kind == "dcgm-diag" and (best.diag_level or 0) < bar.diag_level.value:
        level = f"level {best.diag_level}" if best.diag_level else "a level that is not told"
        return warn(f"{words}, {level} only", seen=best.diag_level, bar=bar.diag_level.bar(sign=">= "))
    age = age_days(best, at)
    if age is not None and age > max(bar.stale_days.value, (best.period_s or 0.0) / _DAY + 1):
        return warn(f"{words}, last ran {age:.1f} days ago", seen=age, bar=bar.stale_days.bar(" days", "<= "))
    return ok(words, seen=best.name)


def told(programme: Programme) -> str:
    """Who starts it and how often."""
    return f"{programme.name}{f' ({programme.schedule})' if programme.schedule else ''}"


def age_days(programme: Programme, at: float) -> float | None:
    """Days since the last run; None where it is not told or lies in the future."""
    return None if programme.last is None or programme.last > at + _DAY else max(at - programme.last, 0.0) / _DAY


for _active in KINDS:
    _register(_active)


@check(
    "health.active.content",
    category="reliability",
    severity="low",
    criteria=("rel-active-content",),
    why="Each kind of active test finds faults that the others cannot.",
    fix="Add the missing kinds to the weekly suite on idle nodes.",
)
def content(gpus: GpuPresence, health: HealthPrograms) -> Verdict:
    """Counts the kinds of active test that the host schedules by itself; passes when all are there, warns for some."""
    if not gpus.any:
        return skip(NO_GPU)
    kinds = [a for a in KINDS if gpus.nvidia or a.kind != "dcgm-diag"]
    seen = [a.name for a in kinds if health.testing(a.kind)]
    absent = [a.name for a in kinds if a.name not in seen]
    if not seen:
        return unknown(ELSEWHERE, "too-little")
    if not absent:
        return ok(f"all {len(seen)} kinds of active test are scheduled here", seen=seen)
    return warn(f"{len(seen)} of {len(kinds)} kinds scheduled here; not seen: {', '.join(absent)}", seen=seen)


@check(
    "health.active.weekly",
    category="reliability",
    severity="low",
    criteria=("exp-hc-weekly-idle", "rel-active-suite-weekly"),
    why="Faults that need heat or full load grow between jobs: they are found weekly on idle nodes, or by a user.",
    fix="A timer or a low-priority job per node and week: dcgmi diag -r 3, burn, all-reduce, then resume the node.",
)
def weekly(gpus: GpuPresence, health: HealthPrograms, bar: Monitoring) -> Verdict:
    """Passes when a heavy test (dcgmi diag 3, burn, all-reduce, training) is repeated within the bar on this host."""
    if not gpus.any:
        return skip(NO_GPU)
    heavy = [p for p in health.programs if p.how != "installed" and _heavy(p, bar) and p.period_s]
    if not heavy:
        return unknown(ELSEWHERE, "too-little")
    best = min(heavy, key=lambda p: p.period_s or 0.0)
    days = (best.period_s or 0.0) / _DAY
    limit = bar.weekly_days.bar(" days", "<= ")
    words = f"{told(best)}, every {days:.3g} days"
    return ok(words, seen=days, bar=limit) if days <= bar.weekly_days.value else warn(words, seen=days, bar=limit)


def _heavy(programme: Programme, bar: Monitoring) -> bool:
    load = {"burn", "nccl-local", "ib-local", "training", "suite"}
    return bool(load.intersection(programme.tests)) or (programme.diag_level or 0) >= bar.diag_level.value


@check(
    "health.active.light",
    category="reliability",
    severity="low",
    criteria=("rel-active-suite-light",),
    why="A short test around each job keeps a node that broke last night from taking today's job.",
    fix="dcgmi diag -r 1 in the prolog, -r 2 in the epilog, or an hourly timer on idle nodes.",
)
def light(gpus: GpuPresence, health: HealthPrograms, bar: Monitoring) -> Verdict:
    """Passes when an active test runs around jobs (prolog, epilog) or is repeated within a day."""
    if not gpus.any:
        return skip(NO_GPU)
    tests = [p for p in health.programs if p.tests and p.how != "installed"]
    near = [
        p
        for p in tests
        if "prolog" in p.name or "epilog" in p.name or 0 < (p.period_s or 0) <= bar.light_days.value * _DAY
    ]
    if near:
        return ok(f"{', '.join(near[0].tests)}: {told(near[0])}", seen=[p.name for p in near])
    return unknown(ELSEWHERE, "too-little", seen=[p.name for p in tests])
