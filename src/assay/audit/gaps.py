"""What a run lacks of what was planned: nodes and answers that never came, or that are damaged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from assay.checks.registry import Check
from assay.facts.source import sources
from assay.model import Missing
from assay.run import chain
from assay.run.store import Run

UNREAD = Missing("failed", "the run ended before it was read")


def said_missing(run: Run) -> dict[str, Missing]:
    """Why a node did not answer, or not everything: the last word about it."""
    return {answer.node: answer.missing for answer in run.answers() if answer.missing}


def silent(run: Run, answered: Collection[str], gaps: Mapping[str, Missing]) -> dict[str, Missing]:
    """Nodes without any evidence, those that the run ended before among them."""
    planned = dict.fromkeys(run.info.nodes, UNREAD) | dict(gaps)
    return {node: gap for node, gap in planned.items() if node not in answered}


def lost(run: Run, answered: Collection[str], rules: Iterable[Check]) -> Iterator[str]:
    """Why findings may be missing: answers that these rules need and that the run does not hold whole."""
    needed = {fact for rule in rules for fact in rule.needs}
    asked = {name for name, s in sources().items() if s.probe.place == "node" and s.fact in needed}
    asked &= set(run.info.probes)
    have = run.index.seen()
    gone = sum((node, probe) not in have for node in run.info.nodes if node in answered for probe in asked)
    if gone:
        yield f"{gone} of {len(asked) * len(answered)} answers are not in the run"
    if run.damaged:
        yield f"{len(run.damaged)} answers are damaged"
    if chain.verify(run.path):
        yield "the record is not as it was sealed"


def tried(run: Run) -> bool:
    """True when the run holds what two nodes said of what they share."""
    return any(known.probe.place == "pair" for _, name in run.index.seen() if (known := sources().get(name)))


def untried(run: Run) -> Iterator[str]:
    """What was asked for by --load and never done."""
    known = sources()
    if not tried(run) and any(known[name].probe.place == "pair" for name in run.info.probes if name in known):
        yield "no two nodes tried what they share: asked for by --load, and not done"


def by_reason(gaps: Mapping[str, Missing], fold: Callable[[list[str]], str]) -> dict[str, Missing]:
    """Folded nodes -> the one reason that holds for all of them."""
    groups: dict[Missing, list[str]] = {}
    for node, gap in gaps.items():
        groups.setdefault(gap, []).append(node)
    return {fold(nodes): gap for gap, nodes in groups.items()}
