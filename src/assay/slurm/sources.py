"""What is asked of the scheduler: once per cluster, on the login node, in text that every release prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import field

from assay.facts.source import source, why_missing
from assay.model import Exec, Fact, Files, Missing, MissingKind, Probe, RawFact, Which
from assay.slurm import sacct as accounting, sacctmgr
from assay.slurm.conf import CgroupConf, GresConf, Plugstack, cgroup_conf, gres_conf, plugstack_conf, slurm_conf
from assay.slurm.config import Controller, SlurmConfig, ping, show_config
from assay.slurm.job import SlurmJobs
from assay.slurm.node import SlurmNodes, show_node
from assay.slurm.partition import SlurmPartitions, show_partition
from assay.slurm.reservation import SlurmReservations, show_reservation
from assay.slurm.sacct import Sacct
from assay.slurm.sacctmgr import NodeEvents
from assay.slurm.sdiag import Sdiag
from assay.slurm.sinfo import NODES_ARGV, NODES_FORMAT, Sinfo, sinfo_o
from assay.slurm.squeue import JOBS_ARGV, JOBS_FORMAT, squeue_o
from assay.slurm.topology import Topology, topology

T = TypeVar("T")
_MIB = 1 << 20
_WAIT_S = 20.0  # slurmctld under load, and its clients' own retries
PROGRAMS = ("srun", "sbatch", "salloc", "scontrol", "sinfo", "squeue", "scancel", "sacct", "sacctmgr", "sdiag")
_PLACES = (
    "/etc/slurm", "/run/slurm/conf", "/etc/slurm-llnl", "/usr/local/etc", "/usr/local/etc/slurm", "/opt/slurm/etc",
    "/usr/local/slurm/etc", "/cm/shared/apps/slurm/var/etc", "/cm/shared/apps/slurm/var/etc/*",
)  # fmt: skip
_REFUSALS: tuple[tuple[re.Pattern[str], MissingKind], ...] = (
    (re.compile(r"accounting storage is disabled|not running a supported accounting_storage", re.IGNORECASE), "absent"),
    (re.compile(r"access.{0,20}denied|permission denied|not authorized|must be an? \w* ?operator", re.IGNORECASE),
     "denied"),
    (re.compile(r"unable to contact|connection refused|connect failure|timed out", re.IGNORECASE), "unreachable"),
)  # fmt: skip


class SlurmControllers(Fact, frozen=True):
    """Every slurmctld, and whether it answers."""

    controllers: tuple[Controller, ...] = ()


class SlurmClient(Fact, frozen=True):
    """Slurm on the login node: release and the programs a user may run, name -> path."""

    version: str | None = None
    programs: dict[str, str] = field(default_factory=dict)


class SlurmFiles(Fact, frozen=True):
    """Slurm's files as they lie on the login node; `paths` by name, `unread` those that are not what they are called.

    A cluster without files (configless) shows what slurmd or sackd fetched.
    """

    slurm: SlurmConfig | None = None
    gres: GresConf | None = None
    cgroup: CgroupConf | None = None
    topology: Topology | None = None
    plugstack: Plugstack | None = None
    paths: dict[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def _probe(name: str, *argv: str, timeout_s: float = _WAIT_S, cap: int = 4 * _MIB) -> Probe:
    step = Exec("out", argv, timeout_s=timeout_s, cap=cap)
    return Probe(f"slurm.{name}", (step,), timeout_s=timeout_s + 5, place="scheduler")


def _refusal(raw: RawFact) -> Missing | None:
    """Why the command gave no answer, in Slurm's own words; None when it did."""
    read = raw.read("out")
    if gap := why_missing((read,)):
        return gap
    if not read.rc:
        return None
    said = " ".join(f"{read.err} {read.out}".split())[:300]
    for pattern, kind in _REFUSALS:
        if pattern.search(said):
            return Missing(kind, f"{read.argv[0]}: {said}")
    return Missing("failed", f"{read.argv[0]}: {said or f'exit status {read.rc}'}")


def _told(raw: RawFact, reader: Callable[[str], T]) -> T | Missing:
    return _refusal(raw) or reader(raw.out("out"))


@source(_probe("config", "scontrol", "show", "config"))
def config(raw: RawFact) -> SlurmConfig | Missing:
    """The configuration that slurmctld runs with."""
    return _told(raw, show_config)


@source(_probe("nodes", "scontrol", "-a", "-d", "show", "node", cap=40 * _MIB))
def nodes(raw: RawFact) -> SlurmNodes | Missing:
    """Every node with its state, reason, resources and what is in use."""
    return _told(raw, show_node)


@source(_probe("partitions", "scontrol", "-a", "show", "partition"))
def partitions(raw: RawFact) -> SlurmPartitions | Missing:
    """Every partition with its limits and defaults, hidden ones too."""
    return _told(raw, show_partition)


@source(_probe("reservations", "scontrol", "show", "reservation"))
def reservations(raw: RawFact) -> SlurmReservations | Missing:
    """Reservations, maintenance windows among them."""
    return _told(raw, show_reservation)


@source(_probe("topology", "scontrol", "show", "topology"))
def network(raw: RawFact) -> Topology | Missing:
    """The network as the scheduler knows it; flat where it knows nothing."""
    read = raw.read("out")
    if "No topology information" in f"{read.out}{read.err}":
        return Topology()
    return _told(raw, topology)


@source(_probe("sinfo", *NODES_ARGV, cap=20 * _MIB))
def overview(raw: RawFact) -> Sinfo | Missing:
    """Nodes once per partition: what a user sees who may not ask scontrol."""
    return _told(raw, lambda text: sinfo_o(NODES_FORMAT, text))


@source(_probe("queue", *JOBS_ARGV, cap=8 * _MIB))
def queue(raw: RawFact) -> SlurmJobs | Missing:
    """Jobs that wait or run, as far as this user may see them."""
    return _told(raw, lambda text: squeue_o(JOBS_FORMAT, text))


@source(_probe("events", *sacctmgr.ARGV))
def events(raw: RawFact) -> NodeEvents | Missing:
    """When and why nodes were out of service, yesterday and today."""
    return _told(raw, sacctmgr.events)


@source(
    _probe(
        "failures", *accounting.ARGV, "-X", "-S", "now-1days", "-E", "now",
        "-s", "NODE_FAIL,BOOT_FAIL,FAILED,OUT_OF_MEMORY,TIMEOUT",
    )
)  # fmt: skip
def failures(raw: RawFact) -> Sacct | Missing:
    """Jobs of the last day that failed, requeued ones each time."""
    return _told(raw, accounting.sacct)


@source(_probe("diag", "sdiag"))
def diagnosis(raw: RawFact) -> Sdiag | Missing:
    """How busy slurmctld is."""
    from assay.slurm.sdiag import sdiag  # noqa: PLC0415 - the name of the module is the name of the function

    return _told(raw, sdiag)


@source(_probe("controllers", "scontrol", "ping"), sees_missing=True)
def controllers(raw: RawFact) -> SlurmControllers | Missing:
    """Whether slurmctld and its backups answer. `scontrol ping` fails when none does, and says so all the same."""
    read = raw.read("out")
    try:
        return SlurmControllers(controllers=ping(read.out))
    except ValueError:
        return _refusal(raw) or Missing("unparsable", f"{read.argv[0]}: {read.out.strip()[:200]}")


_VERSION = re.compile(r"slurm(?:-wlm)?\s+(\S+)")


@source(
    Probe(
        "slurm.client",
        (Exec("out", ("sinfo", "--version")), Which("programs", PROGRAMS)),
        place="scheduler",
    )
)
def client(raw: RawFact) -> SlurmClient | Missing:
    """Release and programs of Slurm on the login node."""
    programs = {name: path for path, name in sorted(raw.files("programs").items(), reverse=True)}
    found = _VERSION.search(raw.out("out"))
    if not found and not programs:
        return _refusal(raw) or Missing("absent", "no program of Slurm on the login node")
    return SlurmClient(version=found[1] if found else None, programs=programs)


_READERS: dict[str, Callable[[str], Any]] = {
    "slurm": slurm_conf, "gres": gres_conf, "cgroup": cgroup_conf, "topology": topology, "plugstack": plugstack_conf,
}  # fmt: skip


@source(
    Probe(
        "slurm.files",
        tuple(Files(name, tuple(f"{place}/{name}.conf" for place in _PLACES), cap=4 * _MIB) for name in _READERS),
        place="scheduler",
    )
)
def files(raw: RawFact) -> SlurmFiles | Missing:
    """Slurm's configuration files on the login node; of several copies the first in the order looked at."""
    read = {name: first for name in _READERS if (first := _first(raw.files(name)))}
    values: dict[str, Any] = {}
    unread: list[str] = []
    for name, (path, text) in read.items():
        try:
            values[name] = _READERS[name](text)
        except ValueError as e:
            unread.append(f"{path}: {e}")
    return SlurmFiles(**values, paths={name: path for name, (path, _) in read.items()}, unread=tuple(unread))


def _first(found: Mapping[str, str]) -> tuple[str, str] | None:
    ranked: Iterator[tuple[str, str]] = iter(sorted(found.items(), key=lambda item: _rank(item[0])))
    return next(ranked, None)


def _rank(path: str) -> tuple[int, str]:
    place = path.rpartition("/")[0]
    return (_PLACES.index(place) if place in _PLACES else len(_PLACES), path)
