"""Whether nodes that should be alike are: equal values are counted, the odd nodes are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assay.checks.verdict import ok, skip, some, warn
from assay.model import Verdict

NODES_NAMED = 8


def by_value(values: Mapping[str, str]) -> dict[str, list[str]]:
    """Value -> its nodes, the most common value first."""
    groups: dict[str, list[str]] = {}
    for node, value in values.items():
        groups.setdefault(value, []).append(node)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def told(groups: Mapping[str, list[str]]) -> str:
    """The usual value with its number of nodes, then each other value with the names of its nodes."""
    usual, *odd = groups
    count = len(groups[usual])
    most = f"{usual} on {count} nodes" if count > 1 else f"{usual} on {groups[usual][0]}"
    return some([most, *(f"{value} on {some(groups[value], NODES_NAMED)}" for value in odd)])


def alike(
    what: str, kinds: Mapping[str, Mapping[str, str]], differ: Callable[..., Verdict] = warn, nobody: str = ""
) -> Verdict:
    """Compares nodes of one kind with each other: kind -> node -> value; the kind "" stands for all nodes.

    `nobody` = why there is nothing to judge when no node has a value.
    """
    groups = {kind: by_value(values) for kind, values in kinds.items() if values}
    if not groups:
        return skip(nobody or f"no node tells its {what}", "absent")
    if all(len(values) < 2 for values in kinds.values()):
        return skip(f"{what}: no two nodes of one kind to compare")
    if odd := {kind: found for kind, found in groups.items() if len(found) > 1}:
        words = "; ".join(f"{kind}: {told(found)}" if kind else told(found) for kind, found in odd.items())
        return differ(f"different {what}: {words}", seen=odd.get("", odd))
    values = {kind: next(iter(found)) for kind, found in groups.items()}
    same = some(f"{kind}: {value}" if kind else value for kind, value in values.items())
    nodes = len({node for found in kinds.values() for node in found})
    return ok(f"same {what} on {nodes} nodes: {same}", seen=values.get("", values))
