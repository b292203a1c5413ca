"""sinfo: its own tables, and any -o or -O format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import field, structs

from assay.model import Fact
from assay.slurm.gres import Gres, gres_or_none
from assay.slurm.hostlist import hosts
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.state import NodeState, node_state
from assay.slurm.table import (
    BLANK,
    SHAPES,
    Column,
    Row,
    Shapes,
    Table,
    aliases,
    by_fields,
    by_header,
    by_letters,
    table,
)
from assay.slurm.times import Limit, limit_or_none, stamp
from assay.slurm.words import decimal, names, said, whole

# What Assay asks for itself: one line per node and partition, the free text last, a separator no reason contains.
NODES_FORMAT = "%N\x1f%n\x1f%o\x1f%P\x1f%T\x1f%c\x1f%C\x1f%m\x1f%e\x1f%O\x1f%G\x1f%f\x1f%v\x1f%u\x1f%H\x1f%E"
NODES_ARGV = ("sinfo", "-N", "-h", "-a", "-o", NODES_FORMAT)

# canonical -> letters of -o | names of -O and of headers
_SPEC = {
    "host": "n|nodehost hostnames",
    "nodelist": "N|nodelist",
    "address": "o|nodeaddr node_addr",
    "partition": "P|partition",
    "partition_name": "R|partitionname",
    "available": "a|available avail",
    "time_limit": "l|time timelimit",
    "count": "D|nodes",
    "state": "t T|state statelong statecompact statecomplete",
    "cpus": "c|cpus",
    "cpus_aiot": "C|cpusstate cpus(a/i/o/t)",
    "nodes_aiot": "F|nodeaiot nodes(a/i/o/t)",
    "nodes_ai": "A|nodeai nodes(a/i)",
    "memory": "m|memory",
    "alloc_memory": "|allocmem",
    "free_memory": "e|freemem free_mem",
    "load": "O|cpusload cpu_load",
    "gres": "G|gres",
    "gres_used": "|gresused gres_used",
    "features": "f|features avail_features avail_fe",
    "active_features": "b|featuresact active_features",
    "reason": "E|reason",
    "reason_at": "H|timestamp",
    "reason_user": "u U|user userlong",
    "version": "v|version",
    "weight": "w|weight",
    "reservation": "i|reservation",
    "comment": "|comment",
    "extra": "|extra",
    "sockets": "X|sockets",
    "cores": "Y|cores",
    "threads": "Z|threads",
    "shape": "z|socketcorethread s:c:t",
    "disk": "d|disk tmp_disk",
}
LETTERS, WORDS = aliases(_SPEC)
_REASON: Shapes = {"reason": None}
_REASON_WIDTH = 20


class SinfoRow(Fact, frozen=True):
    """One line of sinfo. `nodes` is a hostlist; aiot: allocated, idle, other, total; columns in `cut` may be short."""

    nodes: str | None = None
    hostname: str | None = None
    address: str | None = None
    partition: str | None = None
    default: bool | None = None
    available: str | None = None
    time_limit_s: Limit | None = None
    count: int | None = None
    state: NodeState | None = None
    state_word: str | None = None
    nodes_aiot: tuple[int, ...] | None = None
    cpus: int | None = None
    cpus_aiot: tuple[int, ...] | None = None
    memory_mib: int | None = None
    alloc_memory_mib: int | None = None
    free_memory_mib: int | None = None
    cpu_load: float | None = None
    gres: tuple[Gres, ...] | None = None
    gres_used: tuple[Gres, ...] | None = None
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    version: str | None = None
    weight: int | None = None
    reservation: str | None = None
    reason: str | None = None
    reason_user: str | None = None
    reason_at: str | None = None
    cut: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)


class Sinfo(Fact, frozen=True):
    """A table of sinfo. A node stands in it once for each of its partitions."""

    rows: tuple[SinfoRow, ...] = ()
    unread: tuple[str, ...] = ()

    def nodes(self) -> SlurmNodes:
        """Every node once, with all its partitions."""
        found: dict[str, SlurmNode] = {}
        for row in self.rows:
            for name in hosts(row.nodes):
                before = found.get(name)
                mine = (row.partition,) if row.partition else ()
                if before is None:
                    found[name] = _node(name, row, mine)
                else:
                    both = tuple(dict.fromkeys((*before.partitions, *mine)))
                    found[name] = structs.replace(before, partitions=both)
        return SlurmNodes(nodes=tuple(found.values()), unread=self.unread)


def _node(name: str, row: SinfoRow, partitions: tuple[str, ...]) -> SlurmNode:
    return SlurmNode(
        name=name,
        hostname=row.hostname,
        address=row.address,
        state=row.state or NodeState("UNKNOWN"),
        version=row.version,
        cpus=row.cpus,
        cpus_alloc=row.cpus_aiot[0] if row.cpus_aiot else None,
        cpu_load=row.cpu_load,
        real_memory_mib=row.memory_mib,
        alloc_memory_mib=row.alloc_memory_mib,
        free_memory_mib=row.free_memory_mib,
        gres=row.gres,
        gres_used=row.gres_used,
        features=row.features,
        active_features=row.active_features,
        partitions=partitions,
        weight=row.weight,
        reason=row.reason,
        reason_user=row.reason_user,
        reason_at=row.reason_at,
        reservation=row.reservation,
    )


def _state(text: str | None) -> NodeState | None:
    try:
        return node_state(text) if text and said(text) else None
    except ValueError:
        return None


def _aiot(text: str | None) -> tuple[int, ...] | None:
    parts = (text or "").split("/")
    return tuple(int(p) for p in parts) if len(parts) > 1 and all(p.isdecimal() for p in parts) else None


def _user(text: str | None) -> str | None:
    value = said(text)
    return value.partition("(")[0] if value else None


def _row(row: Row) -> SinfoRow:
    v = row.values
    starred = said(v.get("partition"))
    word = said(v.get("state"))
    return SinfoRow(
        nodes=said(v.get("nodelist")) or said(v.get("host")),
        hostname=said(v.get("host")),
        address=said(v.get("address")),
        partition=starred.rstrip("*") if starred else said(v.get("partition_name")),
        default=starred.endswith("*") if starred else None,
        available=said(v.get("available")),
        time_limit_s=limit_or_none(v.get("time_limit")),
        count=whole(v.get("count")),
        state=_state(v.get("state")),
        state_word=word,
        nodes_aiot=_aiot(v.get("nodes_aiot")),
        cpus=whole(v.get("cpus")),
        cpus_aiot=_aiot(v.get("cpus_aiot")),
        memory_mib=whole(v.get("memory")),
        alloc_memory_mib=whole(v.get("alloc_memory")),
        free_memory_mib=whole(v.get("free_memory")),
        cpu_load=decimal(v.get("load")),
        gres=None if "gres" in row.cut else gres_or_none(v.get("gres")),
        gres_used=None if "gres_used" in row.cut else gres_or_none(v.get("gres_used")),
        features=names(v.get("features")),
        active_features=names(v.get("active_features")),
        version=said(v.get("version")),
        weight=whole(v.get("weight")),
        reservation=said(v.get("reservation")),
        reason=said(v.get("reason")),
        reason_user=_user(v.get("reason_user")),
        reason_at=stamp(v.get("reason_at")),
        cut=row.cut,
        other={k: t for k, t in v.items() if k not in _SPEC},
    )


def _read(found: Table) -> Sinfo:
    return Sinfo(rows=tuple(_row(r) for r in found.rows), unread=found.unread)


def sinfo_o(spec: str, text: str) -> Sinfo:
    """Output of `sinfo -o SPEC`, with or without its header."""
    return _read(table(text, by_letters(spec, LETTERS), SHAPES, WORDS))


def sinfo_fields(spec: str, text: str) -> Sinfo:
    """Output of `sinfo -O SPEC`, with or without its header."""
    return _read(table(text, by_fields(spec, WORDS), SHAPES, WORDS))


def sinfo(text: str) -> Sinfo:
    """Any table of sinfo with a header: plain, -N, -N -l, -R, -s, or separated. Raises ValueError for another text."""
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines[:20]) if _heads(line)), None)
    if at is None:
        raise ValueError("no header of sinfo in it")
    body = "\n".join(lines[at + 1 :])
    if "|" in lines[at] or "\x1f" in lines[at]:
        return _read(table(body, by_header(lines[at], WORDS), SHAPES, ()))
    heads = lines[at].split()
    return _read(table(body, tuple(_blank_columns(heads)), _REASON, ()))


def _heads(line: str) -> bool:
    words = [w.strip(BLANK) for w in re.split(r"[|\x1f]|\s+", line) if w.strip(BLANK)]
    return len(words) > 1 and words[0].isupper() and sum(w.lower() in WORDS for w in words) * 2 > len(words)


def _blank_columns(heads: Sequence[str]) -> Iterator[Column]:
    for head in heads:
        name = WORDS.get(head.lower(), head.lower())
        yield Column(name, _REASON_WIDTH if name == "reason" else None, " ")


FORMATS: dict[str, Callable[[str], Any]] = {
    "sinfo": sinfo,
    "sinfo -N": sinfo,
    "sinfo -N -l": sinfo,
    "sinfo -R": sinfo,
    "sinfo -s": sinfo,
}
