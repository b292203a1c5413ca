"""Field outputs of scontrol, in text. Read in place, never copied."""

import pathlib
from typing import Any

import pytest

from assay.slurm import config, hostlist, job, node, partition, reservation, topology
from assay.slurm.hostlist import expand
from assay.slurm.license import show_license
from assay.slurm.words import whole
from slurm_field import FIELD, Alt, View, cases, decoded, differences
from slurm_views import jobs_view, licenses_view, nodes_view, partitions_view, reservations_view

if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG = {
    ("slurm-22.05.8-here/01-nodes-idle", "configured_nodes"): "a fact about slurm.conf, which is not in this text",
}


def view_nodes(data: bytes, _: str) -> View:
    return nodes_view(node.show_node(decoded(data)), decoded(data))


def view_jobs(data: bytes, _: str) -> View:
    return jobs_view(job.show_job(decoded(data)), data)


def view_partitions(data: bytes, _: str) -> View:
    return partitions_view(partition.show_partition(decoded(data)))


def view_reservations(data: bytes, _: str) -> View:
    return reservations_view(reservation.show_reservation(decoded(data)), decoded(data))


def view_licenses(data: bytes, _: str) -> View:
    return licenses_view(show_license(decoded(data)))


def view_hostnames(data: bytes, _: str) -> View:
    found = hostlist.show_hostnames(decoded(data))
    return {"nodes": Alt((len(found), list(found))), "names": list(found), "count": len(found), "lines": len(found)}


def config_fact(found: config.SlurmConfig, name: str) -> Any:
    """A parameter under its name in snake case, with the unit at its end."""
    short = {"auth": "authtype", "proctrack": "proctracktype"}
    if name.endswith("_s"):
        return found.seconds(name.removesuffix("_s").replace("_", ""))
    key = short.get(name, name.replace("_", ""))
    text = found.value(key) or found.value(f"slurm_{key.removeprefix('slurm')}")
    return Alt((text, whole(text), found.listed(key), {"yes": True, "no": False}.get((text or "").lower())))


class ConfigView(dict[str, Any]):
    def __init__(self, found: config.SlurmConfig, known: View) -> None:
        super().__init__(known)
        self.found = found

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return config_fact(self.found, name)


def view_config(data: bytes, _: str) -> View:
    found = config.show_config(decoded(data))
    return ConfigView(
        found,
        {
            "controllers": {c.role: "UP" if c.up else "DOWN" for c in found.controllers},
            "slurmctld_hosts": list(found.hosts),
            "sections": list(found.sections),
            "as_of": found.as_of,
            "accounting_tres_has_gpu": "gres/gpu" in found.listed("AccountingStorageTRES"),
        },
    )


def view_topology(data: bytes, _: str) -> View:
    found = topology.topology(decoded(data))
    each = {len(expand(b.nodes)) for b in found.blocks if not b.aggregated}
    tops = [s.name for s in found.roots if s.switches]
    return {
        "kind": found.kind, "switches": len(found.switches), "leaf_switches": len(found.leaves),
        "roots": len(found.roots), "levels": found.levels, "nodes": len(found.nodes()),
        "spine": tops[0] if len(tops) == 1 else tops, "spines": tops,
        "blocks": len(found.blocks), "nodes_per_block": each.pop() if len(each) == 1 else None,
        "block_sizes": list(found.block_sizes),
    }  # fmt: skip


def view_refused(data: bytes, _: str) -> View:
    return {"supported": "unrecognized option" not in decoded(data)}


VIEWS = {
    "scontrol show nodes --json (stderr)": view_refused,
    "scontrol show lic --json": None,
    "scontrol show licenses --json": None,
    "scontrol show nodes --json": None,
    "scontrol show node --json": None,
    "scontrol show jobs --json": None,
    "scontrol show job --json": None,
    "scontrol show partitions --json": None,
    "scontrol show reservations --json": None,
    "scontrol show node": view_nodes,
    "scontrol -a show node": view_nodes,
    "scontrol -o show node": view_nodes,
    "scontrol -d show node": view_nodes,
    "scontrol show job": view_jobs,
    "scontrol -d show job": view_jobs,
    "scontrol -o show job": view_jobs,
    "scontrol show partition": view_partitions,
    "scontrol -o show partition": view_partitions,
    "scontrol show reservation": view_reservations,
    "scontrol show res": view_reservations,
    "scontrol show lic": view_licenses,
    "scontrol show hostnames": view_hostnames,
    "scontrol show config": view_config,
    "scontrol show topology": view_topology,
    "topology.conf": view_topology,
}


@pytest.mark.parametrize("path", cases(VIEWS), ids=lambda p: f"{p.parent.name}/{p.name.split('.expected')[0]}")
def test_field_output(path: pathlib.Path) -> None:
    assert not differences(path, VIEWS, WRONG)
