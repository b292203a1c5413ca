"""Slurm's configuration files. Pure: settings in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from assay.lab.scenario import Scenario
from assay.lab.spec import CONTROL, Spec, gpu_nodes, node_name, spare

JWT_KEY = "/etc/slurmctld/jwt.key"  # on ctl only
ACCOUNTS = {"alice": "research", "bob": "acme"}
PARTITIONS = ("batch", "all")
_LEAF, _TRAYS = 4, 18  # nodes of a rack: what its power allows, or one NVLink domain
_FOR_JOBS = 0.96  # of the memory; the rest is the system's

_CLUSTER = {
    "ClusterName": "lab",
    "SlurmctldHost": CONTROL,
    "SlurmUser": "slurm",
    "AuthType": "auth/munge",
    "AuthAltTypes": "auth/jwt",
    "AuthAltParameters": f"jwt_key={JWT_KEY}",
    "StateSaveLocation": "/var/spool/slurmctld",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd.pid",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/slurmd.log",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
    "SlurmdParameters": "config_overrides",  # the emulated hardware is not the machine's
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": "4000",
    "GresTypes": "gpu",
    "MpiDefault": "none",
    "SwitchType": "switch/none",
    "ReturnToService": "1",
    "MailProg": "/usr/bin/true",
    "RebootProgram": "/usr/sbin/reboot",
    "PropagateResourceLimits": "NONE",
    "PrologFlags": "Alloc",
}

# What makes a failure visible in seconds; without them Slurm's own defaults hold.
_QUICK = {
    "AuthInfo": "cred_expire=5",
    "SlurmdTimeout": "10",
    "SlurmctldTimeout": "10",
    "MessageTimeout": "5",
    "TCPTimeout": "2",
    "KillWait": "5",
    "UnkillableStepTimeout": "30",
    "BatchStartTimeout": "10",
    "SchedulerParameters": "bf_interval=5,sched_interval=5,sched_min_interval=100000",
}

_ACCOUNTING = {
    "JobAcctGatherType": "jobacct_gather/linux",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": CONTROL,
    "AccountingStorageTRES": "gres/gpu",
    "AccountingStorageEnforce": "associations,limits,qos",
    "AccountingStoreFlags": "job_comment",
}


def slurm_conf(spec: Spec, scenario: Scenario) -> str:
    """slurm.conf."""
    keys = _CLUSTER | _tracking(spec) | ({} if spec.slow_defaults else _QUICK)
    keys |= {"DefCpuPerGPU": str(_cpus_per_gpu(spec))}
    keys |= {"TopologyPlugin": "topology/tree"} if scenario.topology != "none" else {}
    keys |= _ACCOUNTING if spec.accounting else {"AccountingStorageType": "accounting_storage/none"}
    keys |= {"JobSubmitPlugins": "lua"} if _rules(spec, scenario) else {}
    for key, value in scenario.slurm.items():
        keys.pop(key, None)
        if value is not None:
            keys[key] = value
    lines = [f"{key}={value}" for key, value in keys.items()]
    return "\n".join([*lines, *_node_lines(spec, scenario), *_partition_lines(spec, scenario)]) + "\n"


def _cpus_per_gpu(spec: Spec) -> int:
    """A job that asks for GPUs gets its share of the cores, too."""
    cpu = spec.gpu_shape.machine.cpu
    return cpu.sockets * cpu.cores * cpu.threads // spec.gpu_shape.machine.gpus


def _tracking(spec: Spec) -> dict[str, str]:
    kind = ("cgroup", "cgroup") if spec.constrain else ("linuxproc", "none")
    return {"ProctrackType": f"proctrack/{kind[0]}", "TaskPlugin": f"task/{kind[1]}"}


def _node_lines(spec: Spec, scenario: Scenario) -> Iterator[str]:
    """One line for nodes that are alike, as an administrator would write it."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in gpu_nodes(spec):
        groups.setdefault(tuple(node_keys(name, spec, scenario).items()), []).append(name)
    for keys, names in groups.items():
        yield f"NodeName={_folded(names)} {_joined(dict(keys))} State=UNKNOWN"


def node_keys(name: str, spec: Spec, scenario: Scenario) -> dict[str, str]:
    """What slurm.conf says about one node."""
    shape, machine = spec.gpu_shape, spec.gpu_shape.machine
    rack = next(n for n, names in enumerate(racks(spec), 1) if name in names)
    keys = {
        "Sockets": str(machine.cpu.sockets),
        "CoresPerSocket": str(machine.cpu.cores),
        "ThreadsPerCore": str(machine.cpu.threads),
        "RealMemory": str(int(machine.memory_gib * 1024 * _FOR_JOBS)),
        "Gres": f"gpu:{shape.gres}:{machine.gpus}",
        "Feature": f"{shape.gres},rack{rack}",
    }
    for glob, changes in scenario.node_lines.items():
        if named(name, glob, spec):
            keys.update(changes)
    return {key: value for key, value in keys.items() if value}


def named(name: str, glob: str, spec: Spec) -> bool:
    """True when a scenario's glob means this host."""
    return fnmatchcase(name, glob) or (glob == "spare" and name == spare(spec))


def _partition_lines(spec: Spec, scenario: Scenario) -> Iterator[str]:
    nodes = _folded([node_name(number, spec) for number in range(1, spec.nodes + 1)])
    yield f"PartitionName={PARTITIONS[0]} Nodes={nodes} Default=YES MaxTime=1-00:00:00 State=UP"
    yield f"PartitionName={PARTITIONS[1]} Nodes={nodes} Default=NO MaxTime=INFINITE State=UP"
    for line in scenario.partitions:
        yield line.format(all=_folded(list(gpu_nodes(spec))))


def _folded(names: list[str]) -> str:
    """gpu[01-04,06] of names that differ in their number only."""
    if len(names) == 1:
        return names[0]
    digits = [name.removeprefix("gpu") for name in names]
    runs: list[list[str]] = []
    for number in digits:
        if runs and int(runs[-1][-1]) + 1 == int(number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"gpu[{','.join(run[0] if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]"


def _joined(keys: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in keys.items())


def racks(spec: Spec) -> list[list[str]]:
    """The nodes of each rack: an NVLink domain fills one, of the others some."""
    size = _TRAYS if spec.gpu_shape.machine.domain else _LEAF
    names = list(gpu_nodes(spec))
    return [names[first : first + size] for first in range(0, len(names), size)]


def topology_conf(spec: Spec, scenario: Scenario) -> str:
    """topology.conf: a leaf switch per rack below one spine, or, flat, one switch as if all were alike near."""
    if scenario.topology == "flat":
        return f"SwitchName=switch Nodes={_folded(list(gpu_nodes(spec)))}\n"
    leaves = racks(spec)
    lines = [f"SwitchName=leaf{number} Nodes={_folded(leaf)}" for number, leaf in enumerate(leaves, 1)]
    switches = "leaf1" if len(leaves) == 1 else f"leaf[1-{len(leaves)}]"
    return "\n".join([*lines, f"SwitchName=spine Switches={switches}"]) + "\n"


def gres_conf(spec: Spec) -> str:
    """gres.conf."""
    shape = spec.gpu_shape
    return f"AutoDetect=off\nName=gpu Type={shape.gres} Count={shape.machine.gpus} File={shape.device}\n"


def cgroup_conf(spec: Spec) -> str:
    """cgroup.conf; cores are never constrained, since most of the emulated ones do not exist."""
    if not spec.constrain:
        return ""
    return (
        "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainDevices=yes\n"
        "ConstrainCores=no\nConstrainRAMSpace=no\nConstrainSwapSpace=no\n"
    )


def slurmdbd_conf(password: str) -> str:
    """slurmdbd.conf, which only its owner may read."""
    keys = {
        "DbdHost": CONTROL,
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={JWT_KEY}",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "127.0.0.1",
        "StorageUser": "slurm",
        "StoragePass": password,
        "StorageLoc": "slurm_acct_db",
        "LogFile": "/var/log/slurm/slurmdbd.log",
        "PidFile": "/run/slurmdbd.pid",
    }
    return "".join(f"{key}={value}\n" for key, value in keys.items())


_ACCOUNT_RULE = """\
if job.account == nil and uid ~= 0 then
   slurm.log_user("name the account that pays for this job: --account=NAME")
   return slurm.ERROR
end
"""


def _rules(spec: Spec, scenario: Scenario) -> list[str]:
    """What every job is held against when it is submitted."""
    return [rule for rule in (_ACCOUNT_RULE if spec.accounting else "", scenario.submit) if rule]


def job_submit(rules: list[str]) -> str:
    """job_submit.lua."""
    body = "".join(f"   {line}\n" for rule in rules for line in rule.splitlines())
    return (
        f"function slurm_job_submit(job, partitions, uid)\n{body}   return slurm.SUCCESS\nend\n\n"
        "function slurm_job_modify(job, record, partitions, uid)\n   return slurm.SUCCESS\nend\n"
    )


def files(spec: Spec, scenario: Scenario) -> dict[str, str]:
    """All of /etc/slurm that every host may read: name -> text."""
    texts = {
        "slurm.conf": slurm_conf(spec, scenario),
        "gres.conf": gres_conf(spec),
        "cgroup.conf": cgroup_conf(spec),
        "plugstack.conf": "",
    }
    texts |= {"topology.conf": topology_conf(spec, scenario)} if scenario.topology != "none" else {}
    rules = _rules(spec, scenario)
    return texts | ({"job_submit.lua": job_submit(rules)} if rules else {})
