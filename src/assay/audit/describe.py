"""What a node is, in a few words, and which one it is. Pure."""

from __future__ import annotations

from collections import Counter

from assay.audit.inventory import gpu_names
from assay.checks.engine import NodeFacts
from assay.facts.identity import Identity, identity
from assay.facts.nvidia import NvidiaSmi


def node_words(node: NodeFacts) -> str:
    """`8 x NVIDIA H100 80GB HBM3`, or "no GPU answers" where none does."""
    counts = Counter(gpu_names(node))
    return ", ".join(f"{n} x {name}" for name, n in sorted(counts.items())) or "no GPU answers"


def fleet_words(words: Counter[str]) -> str:
    """The commonest kinds of node, with their number where there is more than one node."""
    total = sum(words.values())
    return "; ".join(f"{n} nodes with {what}" if total > 1 else what for what, n in words.most_common(4))


def node_identity(node: NodeFacts) -> str:
    """Stable short name of the machine; "" when nothing identifies it."""
    who, nvidia = node.facts.get(Identity), node.facts.get(NvidiaSmi)
    uuids = [gpu.uuid for gpu in nvidia.gpus if gpu.uuid] if isinstance(nvidia, NvidiaSmi) else []
    if not isinstance(who, Identity):
        return identity(None, None, uuids)
    return identity(who.machine_id, who.board_serial or who.serial, uuids)
