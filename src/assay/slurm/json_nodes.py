"""Nodes in JSON: `scontrol show nodes --json`, `sinfo --json`, slurmrestd."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from assay.facts.shapes import shaped
from assay.slurm.data_parser import (
    Object,
    counted,
    envelope,
    load,
    moment,
    number,
    objects,
    part,
    text_of,
    texts,
    whole,
)
from assay.slurm.gres import gres_or_none
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.state import node_state_of
from assay.slurm.tres import tres

_LOAD_SCALE_UNKNOWN = "0.0.37"


def node(o: Object, api: str | None = None) -> SlurmNode:
    """One node object of any version. Raises ValueError when it has no state."""
    load_ = number(o.get("cpu_load"))
    return SlurmNode(
        name=str(o.get("name") or ""),
        hostname=text_of(o.get("hostname")),
        address=text_of(o.get("address")),
        state=node_state_of(o.get("state") or "", texts(o.get("state_flags"))),
        version=text_of(o.get("version")) or text_of(o.get("slurmd_version")),
        arch=text_of(o.get("architecture")),
        os=text_of(o.get("operating_system")),
        cpus=whole(o.get("cpus")),
        cpus_alloc=whole(o.get("alloc_cpus")),
        cpus_effective=whole(o.get("effective_cpus")),
        cpu_load=None if load_ is None or api == _LOAD_SCALE_UNKNOWN else load_ / 100,
        boards=whole(o.get("boards")),
        sockets=whole(o.get("sockets")),
        cores_per_socket=whole(o.get("cores")),
        threads_per_core=whole(o.get("threads")),
        real_memory_mib=whole(o.get("real_memory")),
        alloc_memory_mib=whole(o.get("alloc_memory")),
        free_memory_mib=whole(o.get("free_mem", o.get("free_memory"))),
        gres=gres_or_none(o.get("gres")),
        gres_used=gres_or_none(o.get("gres_used")),
        cfg_tres=tres(o.get("tres")),
        alloc_tres=tres(o.get("tres_used")),
        features=texts(o.get("features")),
        active_features=texts(o.get("active_features")),
        partitions=texts(o.get("partitions")),
        weight=whole(o.get("weight")),
        **_remarks(o),
        boot_at=moment(o.get("boot_time")),
        slurmd_start_at=moment(o.get("slurmd_start_time")),
        last_busy_at=moment(o.get("last_busy")),
        resume_after=moment(o.get("resume_after")),
    )


def _remarks(o: Object) -> dict[str, Any]:
    return {
        "reason": text_of(o.get("reason")),
        "reason_user": text_of(o.get("reason_set_by_user")),
        "reason_at": moment(o.get("reason_changed_at")),
        "comment": text_of(o.get("comment")),
        "extra": text_of(o.get("extra")),
        "reservation": text_of(o.get("reservation")),
        "instance_id": text_of(o.get("instance_id")),
    }


@shaped("Slurm nodes")
def nodes(text: str) -> SlurmNodes:
    """All nodes of an answer, or one bare node object. An answer of errors alone has none. Raises ValueError."""
    doc = load(text)
    about = envelope(doc)
    api = about.api if about else None
    if isinstance(doc.get("nodes"), list | dict):
        return SlurmNodes(nodes=tuple(node(o, api) for o in objects(doc["nodes"])), envelope=about)
    if isinstance(doc.get("sinfo"), list):
        return SlurmNodes(nodes=tuple(_group_nodes(objects(doc["sinfo"]))), envelope=about)
    if "name" in doc and "state" in doc:
        return SlurmNodes(nodes=(node(doc),))
    if about and about.errors:
        return SlurmNodes(envelope=about)
    raise ValueError("no nodes in it")


def _group_nodes(groups: list[Object]) -> list[SlurmNode]:
    """`sinfo --json` from 23.11 on: groups of like nodes, once per partition."""
    found: dict[str, SlurmNode] = {}
    partitions: dict[str, dict[str, None]] = {}
    for group in groups:
        mine = text_of(part(group, "partition").get("name"))
        for name in texts(part(group, "nodes").get("nodes")):
            partitions.setdefault(name, {}).update({mine: None} if mine else {})
            found.setdefault(name, _group_node(name, group))
    return [structs.replace(n, partitions=tuple(partitions[name])) for name, n in found.items()]


def _group_node(name: str, group: Object) -> SlurmNode:
    alone = whole(part(group, "nodes").get("total")) == 1
    cpus, memory, gres = part(group, "cpus"), part(group, "memory"), part(group, "gres")
    why = part(group, "reason")
    return SlurmNode(
        name=name,
        state=node_state_of(part(group, "node").get("state") or ""),
        cpus=whole(cpus.get("maximum")) if cpus.get("minimum") == cpus.get("maximum") else None,
        cpus_alloc=whole(cpus.get("allocated")) if alone else None,
        real_memory_mib=whole(memory.get("maximum")) if memory.get("minimum") == memory.get("maximum") else None,
        gres=gres_or_none(gres.get("total")),
        gres_used=gres_or_none(gres.get("used")) if alone else None,
        features=texts(part(group, "features").get("total")),
        active_features=texts(part(group, "features").get("active")),
        reason=text_of(why.get("description")),
        reason_user=text_of(why.get("user")),
        reason_at=moment(why.get("time")),
        weight=counted(part(group, "weight").get("maximum")),
    )
