"""What comes back from a target: one hello, raw facts and one end per node; jobs, before they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from assay.model import Job, Missing, Probe, RawFact, Read, ReadState, Step

_STATE_OF_KIND: dict[str, ReadState] = {"timed-out": "timed-out", "denied": "denied"}


class Hello(Struct, frozen=True):
    """The collector runs: who answers under this node's name. `at` = the node's clock, UTC epoch seconds."""

    node: str
    host: str = ""
    uid: int = -1
    python: str = ""
    at: float = 0.0
    boot_id: str = ""


class NodeDone(Struct, frozen=True):
    """The end of a node. `missing` says why it did not answer everything; `log` are lines that were not answers."""

    node: str
    ok: bool
    missing: Missing | None = None
    stderr: str = ""
    log: str = ""
    garbage: int = 0
    took_s: float = 0.0


Answer = Hello | RawFact | NodeDone | Job


def unanswered(node: str, probes: Iterable[Probe], missing: Missing) -> Iterator[RawFact]:
    """Evidence that probes were asked and not answered, so that silence is never taken for absence."""
    for probe in probes:
        yield RawFact(probe.name, node, tuple(_silence(step, missing) for step in probe.steps))


def _silence(step: Step, missing: Missing) -> Read:
    return Read(
        key=step.key,
        state=_STATE_OF_KIND.get(missing.kind, "error"),
        argv=getattr(step, "argv", ()),
        err=missing.reason,
    )
