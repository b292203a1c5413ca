"""Monitoring agents of this host: what runs, what is installed, what it is told to collect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from assay.facts.dashboards import Counters, counters
from assay.facts.source import source
from assay.facts.systemd import control_groups
from assay.model import Exec, Fact, Files, Links, Missing, Probe, RawFact, Stat

Role = Literal["gpu", "node", "logs", "health", "engine", "server"]
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_COLLECTORS = re.compile(r"(?:^|\s)(?:-f|--collectors)[\s=]+(\S+)")
_COLLECTORS_ENV = re.compile(r"^[^#\n]*\bDCGM_EXPORTER_COLLECTORS=[\"']?([^\s\"']+)", re.MULTILINE)
_DEFAULT_COUNTERS = "/etc/dcgm-exporter/default-counters.csv"


class Known(Struct, frozen=True):
    """An agent: process names (as `ps` cuts them, 15 characters), unit names and what it collects."""

    name: str
    comms: tuple[str, ...]
    units: tuple[str, ...]
    roles: tuple[Role, ...]


KNOWN = (
    Known("dcgm-exporter", ("dcgm-exporter",), ("dcgm-exporter", "nvidia-dcgm-exporter"), ("gpu",)),
    Known("nv-hostengine", ("nv-hostengine",), ("nvidia-dcgm", "dcgm", "nvidia-hostengine"), ("engine",)),
    Known("nvidia_gpu_exporter", ("nvidia_gpu_expo", "nvidia_smi_expo"), ("nvidia_gpu_exporter",), ("gpu",)),
    Known(
        "amd-metrics-exporter",
        ("amd-metrics-exp", "device-metrics-", "amd_smi_exporte", "gpuagent"),
        ("amd-metrics-exporter", "amd_smi_exporter", "gpuagent"),
        ("gpu",),
    ),
    Known(
        "node_exporter", ("node_exporter", "prometheus-node"), ("node_exporter", "prometheus-node-exporter"), ("node",)
    ),
    Known(
        "ipmi_exporter", ("ipmi_exporter", "prometheus-ipmi"), ("ipmi_exporter", "prometheus-ipmi-exporter"), ("node",)
    ),
    Known("redfish_exporter", ("redfish_exporte",), ("redfish_exporter",), ("node",)),
    Known("telegraf", ("telegraf",), ("telegraf",), ("gpu", "node", "logs")),
    Known("datadog-agent", ("datadog-agent", "trace-agent"), ("datadog-agent",), ("gpu", "node", "logs")),
    Known("netdata", ("netdata",), ("netdata",), ("gpu", "node")),
    Known("zabbix-agent", ("zabbix_agentd", "zabbix_agent2"), ("zabbix-agent", "zabbix-agent2"), ("gpu", "node")),
    Known("collectd", ("collectd",), ("collectd",), ("gpu", "node")),
    Known("metricbeat", ("metricbeat",), ("metricbeat",), ("node",)),
    Known("ganglia", ("gmond",), ("gmond", "ganglia-monitor"), ("node",)),
    Known("grafana-alloy", ("alloy",), ("alloy", "grafana-alloy"), ("node", "logs")),
    Known("grafana-agent", ("grafana-agent", "agent-linux-amd"), ("grafana-agent",), ("node", "logs")),
    Known(
        "otelcol", ("otelcol", "otelcol-contrib", "otelcontribcol"), ("otelcol", "otelcol-contrib"), ("node", "logs")
    ),
    Known("google-ops-agent", ("google_cloud_op",), ("google-cloud-ops-agent",), ("gpu", "node", "logs")),
    Known("amazon-cloudwatch-agent", ("amazon-cloudwat",), ("amazon-cloudwatch-agent",), ("gpu", "node", "logs")),
    Known("azure-monitor-agent", ("mdsd", "amacoreagent"), ("azuremonitoragent",), ("node", "logs")),
    Known("promtail", ("promtail",), ("promtail",), ("logs",)),
    Known("fluent-bit", ("fluent-bit",), ("fluent-bit", "td-agent-bit"), ("logs",)),
    Known("fluentd", ("fluentd", "td-agent"), ("fluentd", "td-agent"), ("logs",)),
    Known("vector", ("vector",), ("vector",), ("logs",)),
    Known("filebeat", ("filebeat",), ("filebeat",), ("logs",)),
    Known("journalbeat", ("journalbeat",), ("journalbeat",), ("logs",)),
    Known("systemd-journal-upload", ("systemd-journal",), ("systemd-journal-upload",), ("logs",)),
    Known("splunk-forwarder", ("splunkd",), ("SplunkForwarder", "splunk"), ("logs",)),
    Known("syslog-ng", ("syslog-ng",), ("syslog-ng",), ()),
    Known("rsyslogd", ("rsyslogd",), ("rsyslog",), ()),
    Known("gpud", ("gpud",), ("gpud",), ("health", "gpu")),
    Known("node-problem-detector", ("node-problem-de",), ("node-problem-detector",), ("health",)),
    Known("nvsentinel", ("gpu-health-moni", "syslog-health-m"), ("nvsentinel",), ("health",)),
    Known("assay-healthd", ("assay-healthd",), ("assay-healthd", "healthd"), ("health",)),
    Known("prometheus", ("prometheus",), ("prometheus",), ("server",)),
)
# One name in /proc may stand for something else: systemd-journald is no uploader.
_UNIT_ONLY = frozenset({"systemd-journal-upload"})
BY_COMM = {comm: known for known in KNOWN for comm in known.comms if known.name not in _UNIT_ONLY}
BY_UNIT = {unit: known for known in KNOWN for unit in known.units}
BY_NAME = {known.name: known for known in KNOWN}


class Agent(Struct, frozen=True, kw_only=True):
    """An agent that runs: how it was seen (a process or a unit's control group) and its command line."""

    name: str
    roles: tuple[Role, ...] = ()
    seen: Literal["process", "unit"] = "process"
    command: str = ""
    unit: bool = False


class MonitoringAgents(Fact, frozen=True):
    """Agents running here, installed ones that do not run, counter lists and alert rule files on disk.

    `hidden` = other users' processes cannot be seen from here, so an agent that is not listed may still run.
    `counters` = the list that dcgm-exporter uses, None where it could not be told. `amd_fields` = the fields that
    the AMD exporter's configuration names, empty = all of its defaults, None = no configuration seen.
    """

    agents: tuple[Agent, ...] = ()
    installed: tuple[str, ...] = ()
    hidden: bool = False
    counters: Counters | None = None
    counter_files: tuple[str, ...] = ()
    amd_fields: tuple[str, ...] | None = None
    alert_rules: tuple[str, ...] = ()

    def role(self, role: Role) -> tuple[str, ...]:
        """Running agents with this role."""
        return tuple(a.name for a in self.agents if role in a.roles)


_UNIT_FILES = tuple(
    f"{top}/systemd/system/{unit}.service" for top in ("/etc", "/usr/lib", "/lib") for unit in sorted(BY_UNIT)
)


@source(
    Probe(
        "monitoring.agents",
        (
            Exec(
                "processes",
                ("ps", "-ww", "-C", ",".join(sorted(BY_COMM)), "-o", "comm=,args="),
                timeout_s=5.0,
                cap=1 << 16,
            ),
            Links("pidns", ("/proc/self/ns/pid",)),
            Stat("init", ("/proc/1/stat",)),
            Stat("running", control_groups("*")),
            Stat("unit_files", _UNIT_FILES),
            Files(
                "counters",
                (
                    "/etc/dcgm-exporter/*.csv",
                    "/var/lib/kubelet/pods/*/volumes/kubernetes.io~configmap/*/*metrics*.csv",
                    "/var/lib/kubelet/pods/*/volumes/kubernetes.io~configmap/*/*counters*.csv",
                ),
                cap=1 << 15,
                limit=16,
            ),
            Files(
                "environment",
                (
                    "/etc/default/*dcgm-exporter",
                    "/etc/sysconfig/*dcgm-exporter",
                    "/etc/systemd/system/*dcgm-exporter.service",
                    "/etc/systemd/system/*dcgm-exporter.service.d/*.conf",
                ),
                cap=1 << 13,
            ),
            Files("amd", ("/etc/metrics/config.json",), cap=1 << 15),
            Stat(
                "rules",
                ("/etc/prometheus/*rule*.y*ml", "/etc/prometheus/rules*/*.y*ml", "/etc/prometheus/*alert*.y*ml"),
            ),
        ),
        root="a pod's counter list lies in the kubelet's directory; with hidepid other users' processes are hidden",
    ),
    sees_missing=True,
)
def monitoring_agents(raw: RawFact) -> MonitoringAgents | Missing:
    """Processes by name plus running units; a container or hidepid is told apart from "nothing runs"."""
    processes = raw.read("processes")
    hidden = pids_hidden(raw)
    if processes.state == "timed-out":
        return Missing("timed-out", "ps did not answer in time")
    if processes.rc not in {0, 1} and not raw.files("running"):
        hidden = True
    agents = running_agents(processes.out, raw.files("running"))
    names = {a.name for a in agents}
    lists = {path: text for path, text in raw.files("counters").items() if "DCGM_" in text}
    return MonitoringAgents(
        agents=agents,
        installed=tuple(sorted(_names(raw.files("unit_files")) - names)),
        hidden=hidden,
        counters=counters_in_use(agents, lists, "\n".join(raw.files("environment").values())),
        counter_files=tuple(sorted(lists)),
        amd_fields=amd_fields(raw.out("amd")),
        alert_rules=tuple(sorted(raw.files("rules"))),
    )


def pids_hidden(raw: RawFact) -> bool:
    """True in a process namespace of our own, or where process 1 is hidden (hidepid)."""
    namespace = next(iter(raw.files("pidns").values()), INITIAL_PID_NAMESPACE)
    return namespace != INITIAL_PID_NAMESPACE or not raw.files("init")


def running_agents(processes: str, units: Iterable[str]) -> tuple[Agent, ...]:
    """Known agents among the lines "comm args" of ps and the control groups of units, each once."""
    found: dict[str, Agent] = {}
    by_unit = _names(units)
    for line in processes.splitlines():
        comm, _, args = line.strip().partition(" ")
        if known := BY_COMM.get(comm):
            found.setdefault(
                known.name,
                Agent(name=known.name, roles=known.roles, command=args.strip()[:400], unit=known.name in by_unit),
            )
    for name in by_unit - found.keys():
        found[name] = Agent(name=name, roles=BY_NAME[name].roles, seen="unit", unit=True)
    return tuple(found[name] for name in sorted(found))


def _names(paths: Iterable[str]) -> set[str]:
    stems = (path.rsplit("/", 1)[-1].removesuffix(".service") for path in paths)
    return {BY_UNIT[stem].name for stem in stems if stem in BY_UNIT}


def counters_in_use(agents: Iterable[Agent], lists: dict[str, str], environment: str = "") -> Counters | None:
    """The list that the running dcgm-exporter reads: from its -f, its unit's environment, or the default.

    A pod's exporter has its own file system: only a list that the kubelet mounts under the same name is its own.
    """
    exporter = next((a for a in agents if a.name == "dcgm-exporter"), None)
    if exporter is None:
        return None
    named = _COLLECTORS.search(exporter.command)
    if exporter.unit:
        named = named or _COLLECTORS_ENV.search(environment)
        path = named[1] if named else _DEFAULT_COUNTERS
        return counters(lists[path], path=path) if path in lists else None
    name = named[1].rsplit("/", 1)[-1] if named else ""
    mounted = next(
        (p for p in sorted(lists) if name and p.startswith("/var/lib/kubelet/") and p.endswith("/" + name)), None
    )
    return counters(lists[mounted], path=mounted) if mounted else None


def amd_fields(text: str) -> tuple[str, ...] | None:
    """GPU fields of the AMD exporter's config.json; an empty list there means its defaults."""
    if not text.strip():
        return None
    fields = json.loads(text).get("GPUConfig", {}).get("Fields") or []
    return tuple(sorted(map(str, fields)))
