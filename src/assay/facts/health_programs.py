"""Health checks that this host runs by itself: who starts them, how often, what they test and when they last ran."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from assay.facts.exporters import pids_hidden
from assay.facts.health_kinds import WATCHES, clean, diag_level, kinds_of_test, kinds_of_watch
from assay.facts.kernel_log import epoch
from assay.facts.schedule import cron_lines, cron_period, list_timers
from assay.facts.source import source
from assay.facts.systemd import control_groups
from assay.model import Exec, Fact, Files, Links, Missing, Probe, RawFact, Stat

How = Literal["daemon", "timer", "cron", "slurm", "installed"]

_ALL = tuple(w for w in WATCHES if w != "collective")
# Daemons and what they watch as shipped. The node problem detector's own configuration has no rule for Xids.
DAEMONS: dict[str, tuple[str, ...]] = {
    "gpud": _ALL,
    "nvsentinel": _ALL,
    "assay-healthd": _ALL,
    "node-problem-detector": (),
}
_COMMS = {
    "gpud": "gpud",
    "node-problem-de": "node-problem-detector",
    "gpu-health-moni": "nvsentinel",
    "syslog-health-m": "nvsentinel",
    "assay-healthd": "assay-healthd",
}
_UNITS = {
    "gpud": "gpud",
    "node-problem-detector": "node-problem-detector",
    "nvsentinel": "nvsentinel",
    "assay-healthd": "assay-healthd",
    "healthd": "assay-healthd",
}
_NAMED = re.compile(
    r"health|\bnhc\b|\bdiag|dcgm|gpu[-_]?(?:burn|fryer|test|check)|nccl|rccl|nvbandwidth|superbench|perftest|\brvs\b",
    re.IGNORECASE,
)
_NHC = re.compile(r"\bnhc\b")
_NOT_OURS = re.compile(
    r"smartd|fwupd|snapd|dpkg|apt-|certbot|mdcheck|mdmonitor|raid|btrfs|zfs|ceph|docker|podman|unhealthy"
)
_SLURM = re.compile(
    r"^\s*(HealthCheckProgram|HealthCheckInterval|HealthCheckNodeState|Prolog|Epilog|TaskProlog)\s*=\s*([^#\n]+?)\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_EXEC = re.compile(r"^[ \t]*ExecStart\s*=\s*[-@:+!]*(.+?)\s*$", re.MULTILINE)
_CALENDAR = re.compile(r"^[ \t]*(On(?:Calendar|UnitActiveSec|BootSec|UnitInactiveSec))\s*=\s*(.+?)\s*$", re.MULTILINE)
_DATE = re.compile(r"\b(\d{4})-?(\d\d)-?(\d\d)[T ](\d\d:\d\d:\d\d)")


class Programme(Struct, frozen=True, kw_only=True):
    """One thing that checks health. `tests` = kinds of active test, `watches` = what it looks at without load.

    `last` = UTC epoch seconds of the last run, `period_s` = the longest gap its schedule allows; None = not told.
    """

    name: str
    how: How
    command: str = ""
    schedule: str = ""
    tests: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    diag_level: int | None = None
    period_s: float | None = None
    last: float | None = None


class HealthPrograms(Fact, frozen=True):
    """Everything found. `denied` = schedules that this user may not read, `hidden` = processes cannot be seen."""

    programs: tuple[Programme, ...] = ()
    denied: tuple[str, ...] = ()
    hidden: bool = False

    def testing(self, kind: str) -> tuple[Programme, ...]:
        """Scheduled programmes that run this kind of active test; a program that is only installed runs nothing."""
        return tuple(p for p in self.programs if kind in p.tests and p.how != "installed")


_SCRIPTS = (
    "/etc/nhc/scripts/*.nhc", "/etc/slurm/*.sh", "/etc/slurm/prolog*/*", "/etc/slurm/epilog*/*", "/etc/slurm/prolog*",
    "/etc/slurm/epilog*", "/etc/slurm/*health*", "/opt/slurm/etc/*health*", "/usr/local/sbin/*health*",
    "/usr/local/bin/*health*", "/opt/*health*/*.sh", "/opt/*health*/bin/*", "/opt/*/*health*.sh", "/root/*health*.sh",
    "/usr/local/sbin/*gpu*", "/usr/local/bin/*gpu*check*", "/opt/slurm/etc/prolog*", "/opt/slurm/etc/epilog*",
)  # fmt: skip
_UNIT_WORDS = ("health", "diag", "nhc", "gpu", "burn", "dcgm", "nccl", "check", "superbench", "validat")
_LOGS = (
    "/var/log/*health*.log",
    "/var/log/*diag*.log",
    "/var/log/*burn*.log",
    "/var/log/*nccl*.log",
    "/var/log/nhc.log",
)


@source(
    Probe(
        "monitoring.health",
        (
            Exec(
                "timers",
                ("systemctl", "list-timers", "--all", "--no-pager", "--no-legend", "-o", "json"),
                timeout_s=5.0,
            ),
            Exec("daemons", ("ps", "-C", ",".join(sorted(_COMMS)), "-o", "comm="), timeout_s=5.0, cap=1 << 13),
            Exec("logs", ("tail", "-n", "20", "{}"), timeout_s=3.0, cap=1 << 13, keep="tail", each=_LOGS),
            Files(
                "units",
                tuple(f"/etc/systemd/system/*{w}*.{kind}" for w in _UNIT_WORDS for kind in ("timer", "service")),
                cap=1 << 13,
                limit=64,
            ),
            Files("cron", ("/etc/crontab", "/etc/cron.d/*"), cap=1 << 14, limit=128),
            Files("user_cron", ("/var/spool/cron/crontabs/*", "/var/spool/cron/*"), cap=1 << 14, limit=64),
            Files("periodic", ("/etc/cron.hourly/*", "/etc/cron.daily/*", "/etc/cron.weekly/*"), cap=1 << 13, limit=64),
            Files("nhc", ("/etc/nhc/*.conf",), cap=1 << 15, limit=8),
            Files(
                "slurm",
                (
                    "/etc/slurm/slurm.conf",
                    "/run/slurm/conf/slurm.conf",
                    "/etc/slurm-llnl/slurm.conf",
                    "/opt/slurm/etc/slurm.conf",
                ),
                cap=1 << 17,
            ),
            Files("scripts", _SCRIPTS, cap=1 << 13, limit=48),
            Stat("running", control_groups(*_UNITS)),
            Stat(
                "installed",
                ("/usr/sbin/nhc", "/usr/libexec/nhc", "/usr/bin/dcgmi", "/usr/local/bin/gpud", "/opt/rocm/bin/rvs"),
            ),
            Links("pidns", ("/proc/self/ns/pid",)),
            Stat("init", ("/proc/1/stat",)),
        ),
        root="crontabs of other users and some Slurm files are readable by root only",
    ),
    sees_missing=True,
)
def health_programs(raw: RawFact) -> HealthPrograms | Missing:
    """Daemons, timers, cron, and what Slurm is told to run; comments never count."""
    scripts = raw.files("scripts") | raw.files("periodic")
    nhc = clean("\n".join(raw.files("nhc").values()))
    logs = {r.argv[-1]: r.out for r in raw.every("logs") if r.argv}
    found = [*_daemons(raw), *_timers(raw), *_cron(raw), *_slurm(raw), *_installed(raw)]
    return HealthPrograms(
        programs=tuple(p for f in found if about_health(p := finished(f, scripts, nhc, logs))),
        denied=tuple(sorted(path for read in raw.reads for path in read.errors if "/cron" in path or "slurm" in path)),
        hidden=pids_hidden(raw),
    )


def about_health(programme: Programme) -> bool:
    """True for what tests something, and for what says by its name or command that it is about health."""
    if programme.tests or programme.how not in {"timer", "cron"}:
        return True
    words = programme.name if programme.how == "timer" else ""
    return any(_NAMED.search(w) and not _NOT_OURS.search(w) for w in (words, programme.command))


def finished(programme: Programme, scripts: dict[str, str], nhc: str, logs: dict[str, str]) -> Programme:
    """With what is found in its command, the scripts it names, and NHC's configuration where it runs NHC."""
    text = clean(programme.command)
    text += "".join(clean(body) for path, body in scripts.items() if path in programme.command)
    text += nhc if _NHC.search(text) else ""
    dated = (last_date(log) for path, log in logs.items() if path in programme.command)
    watches = {*programme.watches, *kinds_of_watch(text)}
    return replace(
        programme,
        tests=kinds_of_test(text),
        watches=tuple(w for w in WATCHES if w in watches),
        diag_level=diag_level(text),
        last=programme.last or next((d for d in dated if d), None),
    )


def last_date(log: str) -> float | None:
    """The last date in a log that has dates with a year; a date without a zone is read as UTC."""
    found = _DATE.findall(log)
    return epoch("{}-{}-{}T{}".format(*found[-1])) if found else None


def _daemons(raw: RawFact) -> Iterator[Programme]:
    names = {_COMMS[c.strip()] for c in raw.out("daemons").splitlines() if c.strip() in _COMMS}
    names |= {_UNITS[p.rsplit("/", 1)[1].removesuffix(".service")] for p in raw.files("running")}
    for name in sorted(names):
        yield Programme(name=name, how="daemon", schedule="all the time", watches=DAEMONS[name])


def _timers(raw: RawFact) -> Iterator[Programme]:
    units = {path.rsplit("/", 1)[1]: text for path, text in raw.files("units").items()}
    for timer in list_timers(raw.out("timers"), raw.at):
        service = units.get(timer.service, "")
        command = " ; ".join(_EXEC.findall(service))
        calendar = ", ".join(f"{k}={v}" for k, v in _CALENDAR.findall(units.get(timer.name, "")))
        yield Programme(
            name=timer.name,
            how="timer",
            command=command or timer.service,
            schedule=calendar,
            period_s=timer.period_s,
            last=timer.last,
        )


def _cron(raw: RawFact) -> Iterator[Programme]:
    tables = [(p, t, True) for p, t in raw.files("cron").items()] + [
        (p, t, False) for p, t in raw.files("user_cron").items()
    ]
    for path, text, system in sorted(tables):
        for when, command in cron_lines(text, system=system):
            yield Programme(name=path, how="cron", command=command[:400], schedule=when, period_s=cron_period(when))
    for path in sorted(raw.files("periodic")):
        word = path.split("/")[2].removeprefix("cron.")
        yield Programme(name=path, how="cron", command=path, schedule=word, period_s=cron_period("@" + word))


def _slurm(raw: RawFact) -> Iterator[Programme]:
    values = {k.lower(): v for k, v in _SLURM.findall(raw.out("slurm")) if v.lower() not in {"(null)", "none", "n/a"}}
    interval = values.get("healthcheckinterval", "0")
    if program := values.get("healthcheckprogram"):
        period = float(interval) if interval.isdigit() and interval != "0" else None
        states = values.get("healthchecknodestate", "")
        schedule = f"every {interval} s on {states or 'ANY'}" if period else "HealthCheckInterval=0: never"
        how: How = "slurm" if period else "installed"
        yield Programme(name="slurm HealthCheckProgram", how=how, command=program, schedule=schedule, period_s=period)
    for key in ("prolog", "epilog"):
        if program := values.get(key):
            yield Programme(name=f"slurm {key}", how="slurm", command=program, schedule="around every job")


def _installed(raw: RawFact) -> Iterator[Programme]:
    for path in sorted(raw.files("installed")):
        yield Programme(name=path, how="installed")
