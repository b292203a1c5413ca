"""Which RDMA devices are the compute network of a node. Shared by all rules about it."""

from __future__ import annotations

from collections.abc import Iterable

from assay.facts.infiniband import RdmaDevice

Group = list[RdmaDevice]


def rails(devices: Iterable[RdmaDevice]) -> tuple[RdmaDevice, ...]:
    """The largest set of like devices at the highest active rate; empty when no port is active.

    Like = same driver, type, board and link layer: front-end cards, the ConnectX functions that manage NVLink on
    HGX baseboards (another board) and virtual functions of this host fall out. Down members of the set stay in it,
    except the second ports of two-port cards where none of them is in use.
    """
    groups: dict[tuple[str, str, str, str], Group] = {}
    for d in devices:
        if not d.virtual and d.ports:
            groups.setdefault((d.driver, d.hca_type, d.board_id, d.ports[0].link_layer), []).append(d)
    best = max(groups.values(), key=_rank, default=[])
    if top_rate(best) is None:
        return ()
    used = {_function(d) for d in best if any(p.active for p in d.ports)}
    return tuple(d for d in best if _function(d) in used)


def top_rate(devices: Iterable[RdmaDevice]) -> float | None:
    """Highest rate of an active port, Gb/s."""
    return max((p.rate_gbps for d in devices for p in d.ports if p.active and p.rate_gbps is not None), default=None)


def _rank(group: Group) -> tuple[float, int, bool, int]:
    active = sum(any(p.active for p in d.ports) for d in group)
    return top_rate(group) or 0.0, active, group[0].ports[0].link_layer == "InfiniBand", len(group)


def _function(device: RdmaDevice) -> str:
    return device.pci.rpartition(".")[2]
