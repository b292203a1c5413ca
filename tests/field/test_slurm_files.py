"""Field files and logs of Slurm. Read in place, never copied."""

import pathlib
from typing import Any

import pytest

from assay.slurm import conf, logs
from assay.slurm.gres import by_type, gres, total
from assay.slurm.hostlist import expand
from assay.slurm.words import whole
from slurm_field import FIELD, Alt, Lazy, View, cases, decoded, differences

if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG = {
    (
        "slinky-slurm-client/02-cgroup-conf-disabled",
        "constrain_devices_configured",
    ): "not in the file",
}


def view_slurm_conf(data: bytes, _: str) -> View:
    found = conf.slurm_conf(decoded(data))
    nodes = conf.nodes_of(found)
    first = next(iter(nodes.values()), {})
    devices = gres(first.get("gres"))

    def with_state(word: str) -> list[str]:
        return [name for name, values in nodes.items() if values.get("state", "").upper() == word]

    def more(name: str) -> Any:
        if name.endswith("_s"):
            return found.seconds(name.removesuffix("_s").replace("_", ""))
        text = found.value({"auth": "authtype", "proctrack": "proctracktype"}.get(name, name.replace("_", "")))
        return Alt((text, whole(text), found.listed(name.replace("_", ""))))

    return Lazy(
        {
            "nodes": Alt((len(nodes), list(nodes))), "nodes_configured": len(nodes),
            "cloud": with_state("CLOUD"), "future": with_state("FUTURE"),
            "partitions": [line.name for line in found.of_kind("partitionname")],
            "real_memory_mib": whole(first.get("realmemory")),
            "gpus_per_node": total(devices), "shards_per_node": total(devices, "shard"), "gpu_types": by_type(devices),
            "slurmctld_hosts": list(found.hosts), "includes": list(found.includes),
            "accounting_tres_has_gpu": "gres/gpu" in found.listed("AccountingStorageTRES"),
        },
        more,
    )  # fmt: skip


def view_cgroup_conf(data: bytes, _: str) -> View:
    found = conf.cgroup_conf(decoded(data))
    return {
        "cgroup_plugin": found.plugin, "constrain_devices_configured": found.constrain_devices,
        "constrain_devices": found.constrain_devices, "constrain_cores": found.constrain_cores,
        "constrain_ram_space": found.constrain_ram, "constrain_swap_space": found.constrain_swap,
        "gpu_isolation_effective": found.isolates_devices,
    }  # fmt: skip


def view_gres_conf(data: bytes, _: str) -> View:
    found = conf.gres_conf(decoded(data))
    return {
        "auto_detect": found.auto_detect, "lines": len(found.lines),
        "types": sorted({line.type for line in found.lines if line.type}),
        "gpus": sum(line.devices or 0 for line in found.lines if line.name == "gpu"),
        "nodes": sorted({name for line in found.lines for name in expand(line.nodes)}),
    }  # fmt: skip


def view_plugstack(data: bytes, _: str) -> View:
    found = conf.plugstack_conf(decoded(data))
    return {
        "include": bool(found.includes), "includes": list(found.includes), "plugins": len(found.plugins),
        "required": [p.path for p in found.plugins if p.required],
        "optional": [p.path for p in found.plugins if not p.required],
    }  # fmt: skip


def view_log(data: bytes, _: str) -> View:
    found = logs.slurm_log(decoded(data))
    by_kind = {e.kind: e for e in reversed(found)}
    prolog, failure = by_kind.get("prolog-failed"), by_kind.get("node-failure")

    class Said:
        """Every [time of day, message] that is wanted is among the events."""

        def __eq__(self, wanted: object) -> bool:
            mine = [((e.at or "")[11:], e.message) for e in found]
            return isinstance(wanted, list) and all(
                any(at == when and message.startswith(text) for at, message in mine) for when, text in wanted
            )

        __hash__ = None  # type: ignore[assignment]

    return {
        "events": Said(),
        "prolog_failed_job": prolog.job if prolog else None,
        "prolog_rc": int((prolog.text or "").partition(":")[0]) if prolog and prolog.text else None,
        "node_failure_time": (failure.at or "")[:19] if failure else None,
        "step": failure.step if failure else None,
        "kinds": sorted(by_kind),
    }


VIEWS = {
    "slurm.conf": view_slurm_conf,
    "cgroup.conf": view_cgroup_conf,
    "gres.conf": view_gres_conf,
    "plugstack.conf": view_plugstack,
    "slurmctld.log": view_log,
    "slurmd.log": view_log,
}


@pytest.mark.parametrize("path", cases(VIEWS), ids=lambda p: f"{p.parent.name}/{p.name.split('.expected')[0]}")
def test_field_output(path: pathlib.Path) -> None:
    assert not differences(path, VIEWS, WRONG)
