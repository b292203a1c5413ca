"""Field outputs of scontrol, in text. Read in place, never copied."""

import pathlib
from typing import Any

import pytest

from assay.slurm import config, job, node, partition, reservation, topology
from assay.slurm.hostlist import expand
from assay.slurm.words import whole
from slurm_field import FIELD, Alt, View, cases, decoded, differences
from slurm_views import jobs_view, nodes_view, tres_names

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
    found = partition.show_partition(decoded(data))
    every = {
        p.name: {
            **{name: getattr(p, name) for name in p.__struct_fields__},
            "nodes": Alt((p.node_count, p.nodes)), "gpus": p.gpus, "tres": tres_names(p.tres),
            "max_nodes": Alt((p.max_nodes, None if p.max_nodes == "UNLIMITED" else p.max_nodes)),
        }
        for p in found.partitions
    }  # fmt: skip
    default = found.default()
    return {
        **every,
        **{f"{p.name}_state": p.state for p in found.partitions},
        **{f"{p.name}_nodes": p.node_count for p in found.partitions},
        "partitions": Alt((len(every), list(every))),
        "default": default.name if default else None,
        "all_nodes_incl_future": max((p.node_count or 0 for p in found.partitions), default=0),
    }


def view_reservations(data: bytes, _: str) -> View:
    found = reservation.show_reservation(decoded(data))
    first = found.reservations[0] if found.reservations else None
    return {
        **({name: getattr(first, name) for name in first.__struct_fields__} if first else {}),
        "reservations": len(found.reservations),
        "names": [r.name for r in found.reservations],
        "text": decoded(data).strip(),
        "absolute_time_stamps": all(r.start_at and r.end_at for r in found.reservations),
    }


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
    "scontrol show config": view_config,
    "scontrol show topology": view_topology,
    "topology.conf": view_topology,
}


@pytest.mark.parametrize("path", cases(VIEWS), ids=lambda p: f"{p.parent.name}/{p.name.split('.expected')[0]}")
def test_field_output(path: pathlib.Path) -> None:
    assert not differences(path, VIEWS, WRONG)
