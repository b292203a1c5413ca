"""Answers from evidence that is already there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.launch.answer import Answer, Hello, NodeDone
from assay.model import RawFact


def replay(facts: Iterable[RawFact]) -> Iterator[Answer]:
    """The recorded facts as if every node answered now, each node greeted before its first and done at the end."""
    nodes: dict[str, None] = {}
    for fact in facts:
        if fact.node not in nodes:
            nodes[fact.node] = None
            yield Hello(fact.node, fact.node, fact.uid, at=fact.at)
        yield fact
    yield from (NodeDone(node, ok=True) for node in nodes)
