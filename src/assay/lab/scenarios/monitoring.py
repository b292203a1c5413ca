"""Health checks that do harm or no good: each keeps a healthy node out, or leaves a sick one in."""

from __future__ import annotations

from msgspec.structs import replace

from assay.lab.scenario import File, Scenario, Trouble, Verb, program
from assay.lab.scenarios.provider import HEALTH, but, cared_for, health, watched

_STALE_DAYS = 8.2
_RUN = "{then} gpu-suite: dcgmi diag -r 3: Pass\n{then} gpu-suite: all_reduce_perf: 481.2 GB/s, ok\n"
_SUITE = "#!/bin/bash\nset -eu\ndcgmi diag -r 3 -j\nall_reduce_perf -b 8G -e 8G -g 8\n"


def checked(name: str, summary: str, found_by: tuple[Verb, ...], check: File) -> Scenario:
    """A provider with a health check, and nobody who cares for drained nodes."""
    return Scenario(name, summary, found_by, slurm=watched(), files={"*": {HEALTH: check}})


def active_check(days: float) -> dict[str, File]:
    """A daily test under load by cron, that last ran `days` ago."""
    return {
        "/etc/cron.d/gpu-suite": File("0 2 * * * root /usr/local/sbin/gpu-suite >>/var/log/gpu-diag.log 2>&1\n"),
        "/usr/local/sbin/gpu-suite": File(_SUITE, 0o755),
        "/var/log/gpu-diag.log": File(_RUN, days=days),
    }


_DIAG = checked(
    "diag-timeout-drains-healthy",
    "A diag that a job holds up is taken for a failed one: nodes are drained for being busy.",
    ("inject",),
    health(checks="kernel diag"),
)
_SOFTLOCKUP = checked(
    "softlockup-storage-drain",
    "The end of a job locks a CPU up, which starves the storage client: drained, but not for a GPU.",
    ("audit", "inject"),
    health(),
)

ALL = (
    cared_for(
        "circular-gate",
        "A drained node must first pass a job in the partition that it is drained from.",
        ("inject",),
        health(),
        gate="partition",
        swap="no",
        repair="no",
    ),
    replace(_DIAG, files={**_DIAG.files, "gpu*": {"/usr/local/sbin/gpu-diag": program("gpu-diag")}}),
    checked(
        "output-nobody-reads",
        "The health check writes what it finds into a file and ends with 1; nobody looks.",
        ("audit", "inject"),
        health(act="log"),
    ),
    checked(
        "wrong-node-name-loop",
        "The health check drains a name that Slurm does not have, again and again.",
        ("audit", "inject"),
        health(node="$(hostname -s).cluster.internal", act="insist"),
    ),
    replace(
        cared_for(
            "bad-spare",
            "The spare that takes a bad node's place has lost a GPU, and nobody tries it first.",
            ("inject",),
            health(checks="kernel"),
            validate_spare="no",
        ),
        trouble=Trouble(states={"spare": {"gpus": {"3": ["off-bus"]}}}),
    ),
    but(
        "stale-active-check",
        "The test under load last ran eight days ago, and nothing says so.",
        ("audit",),
        files={"gpu*": active_check(_STALE_DAYS)},
    ),
    replace(
        _SOFTLOCKUP,
        slurm={**_SOFTLOCKUP.slurm, "Epilog": "/etc/slurm/epilog"},
        files={"*": {**_SOFTLOCKUP.files["*"], "/etc/slurm/epilog": program("epilog-softlockup")}},
        after=(("ctl", ("srun", "--quiet", "-N1", "-w", "gpu02", "true")),),
    ),
)
