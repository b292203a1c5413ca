"""Network topology: topology.conf, topology.yaml and `scontrol show topology`; trees and blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from assay.model import Fact
from assay.slurm.conf import logical_lines, pairs
from assay.slurm.hostlist import expand
from assay.slurm.words import said, whole


class Switch(Struct, frozen=True):
    """One switch. `nodes` and `switches` are hostlists; a leaf has no switches below it."""

    name: str
    nodes: str | None = None
    switches: str | None = None
    level: int | None = None
    link_speed: int | None = None


class Block(Struct, frozen=True):
    """One block (an NVLink domain, as a rule), or with `aggregated` a block made of several."""

    name: str
    nodes: str | None = None
    index: int | None = None
    size: int | None = None
    aggregated: bool = False


class Topology(Fact, frozen=True):
    """One topology. With neither switches nor blocks it is flat: Slurm knows nothing of the network."""

    name: str | None = None
    default: bool | None = None
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """tree, block or flat."""
        return "tree" if self.switches else "block" if self.blocks else "flat"

    @property
    def leaves(self) -> tuple[Switch, ...]:
        """Switches with no switch below them."""
        return tuple(s for s in self.switches if not s.switches)

    @property
    def roots(self) -> tuple[Switch, ...]:
        """Switches below no other: more than one and no job can span them."""
        below = {name for s in self.switches for name in expand(s.switches)}
        return tuple(s for s in self.switches if s.name not in below)

    @property
    def levels(self) -> int:
        """Tiers of switches."""
        below = {s.name: expand(s.switches) for s in self.switches}

        @functools.cache
        def height(name: str, most: int) -> int:
            return 1 + max((height(child, most - 1) for child in below.get(name, ()) if most), default=0)

        return max((height(s.name, 8) for s in self.switches), default=0)

    def nodes(self) -> tuple[str, ...]:
        """Every node a leaf or a plain block names, each once, in order."""
        lists = [*(s.nodes for s in self.leaves), *(b.nodes for b in self.blocks if not b.aggregated)]
        return tuple(dict.fromkeys(name for text in lists for name in expand(text)))


def topology(text: str) -> Topology:
    """topology.conf or `scontrol show topology`. Raises ValueError when it names no switch and no block."""
    switches: list[Switch] = []
    blocks: list[Block] = []
    sizes: tuple[int, ...] = ()
    unread: list[str] = []
    for line in logical_lines(text):
        values = pairs(line)
        if values.get("switchname"):
            switches.append(_switch(values))
        elif values.get("blockname") or values.get("aggregatedblock"):
            blocks.append(_block(values))
        elif "blocksizes" in values:
            sizes = tuple(int(n) for n in values["blocksizes"].split(",") if n.strip().isdecimal())
        else:
            unread.append(line)
    if not (switches or blocks):
        raise ValueError("neither a switch nor a block in it")
    return Topology(switches=tuple(switches), blocks=tuple(blocks), block_sizes=sizes, unread=tuple(unread))


def _switch(values: dict[str, str]) -> Switch:
    return Switch(
        name=values["switchname"],
        nodes=_list(values.get("nodes")),
        switches=_list(values.get("switches")),
        level=whole(values.get("level")),
        link_speed=whole(values.get("linkspeed")),
    )


def _block(values: dict[str, str]) -> Block:
    return Block(
        name=values.get("blockname") or values["aggregatedblock"],
        nodes=_list(values.get("nodes")),
        index=whole(values.get("blockindex")),
        size=whole(values.get("blocksize")),
        aggregated="aggregatedblock" in values,
    )


def _list(text: Any) -> str | None:
    value = said(str(text)) if text is not None else None
    if value:
        expand(value)  # a list cut short must not look like a smaller cluster
    return value


def topology_yaml(text: str) -> tuple[Topology, ...]:
    """topology.yaml (25.05 on): several named topologies. Raises ValueError for another shape."""
    import yaml  # noqa: PLC0415 - slow to import, and few clusters have the file

    if len(text) > 4 << 20 or "&" in text:  # anchors are not needed, and nested ones grow without bound
        raise ValueError("too long, or with anchors, for a topology.yaml")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as e:
        raise ValueError(f"not YAML: {e}") from e
    if not isinstance(found, list) or not all(isinstance(t, dict) and "topology" in t for t in found) or not found:
        raise ValueError("not a topology.yaml")
    return tuple(_named(t) for t in found)


def _named(found: dict[str, Any]) -> Topology:
    tree, block = found.get("tree") or {}, found.get("block") or {}
    try:
        return Topology(
            name=str(found["topology"]),
            default=bool(found.get("cluster_default", False)),
            switches=tuple(_switches(tree.get("switches") or ())),
            blocks=tuple(Block(str(b["block"]), _list(b.get("nodes"))) for b in block.get("blocks") or ()),
            block_sizes=tuple(int(n) for n in block.get("block_sizes") or ()),
        )
    except (AttributeError, KeyError, TypeError) as e:
        raise ValueError(f"not a topology.yaml: {e}") from e


def _switches(found: Any) -> Iterator[Switch]:
    for s in found:
        yield Switch(str(s["switch"]), _list(s.get("nodes")), _list(s.get("children")))


FORMATS: dict[str, Callable[[str], Any]] = {
    "topology.conf": topology,
    "scontrol show topology": topology,
    "topology.yaml": topology_yaml,
}
