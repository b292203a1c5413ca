"""sacctmgr: the history of node events (`sacctmgr -P show event`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from assay.model import Fact
from assay.slurm.state import NodeState, node_state
from assay.slurm.table import BLANK, STAMP, Shapes, by_header, table
from assay.slurm.times import stamp
from assay.slurm.words import said

ARGV = ("sacctmgr", "-P", "show", "event", "format=Cluster,NodeName,TimeStart,TimeEnd,State,User,Reason")
_SHAPES: Shapes = {
    "timestart": STAMP,
    "timeend": STAMP,
    "start": STAMP,
    "end": STAMP,
    "state": re.compile(r"(?:[A-Za-z_]+[*~#!%$@^+-]*)?"),
    "reason": None,
}


class NodeEvent(Fact, frozen=True):
    """A time in which a node was not simply idle. Without `node` it is about the cluster; without `end_at` it lasts."""

    cluster: str | None = None
    node: str | None = None
    start_at: str | None = None
    end_at: str | None = None
    state: NodeState | None = None
    state_word: str | None = None
    reason: str | None = None
    user: str | None = None


class NodeEvents(Fact, frozen=True):
    """All events of one answer, in the order printed."""

    events: tuple[NodeEvent, ...] = ()
    unread: tuple[str, ...] = ()


def events(text: str) -> NodeEvents:
    """`sacctmgr -P show event` with its header. Raises ValueError for another text."""
    head, _, body = text.lstrip("\n").partition("\n")
    columns = by_header(head, {"start": "timestart", "end": "timeend"})
    if not {"timestart", "state"} <= {c.name for c in columns}:
        raise ValueError("not the header of sacctmgr show event")
    found = table(body, columns, _SHAPES, ())
    return NodeEvents(events=tuple(_event(r.values) for r in found.rows), unread=found.unread)


def _event(v: dict[str, str]) -> NodeEvent:
    word = said(v.get("state"))
    user = said(v.get("user"))
    return NodeEvent(
        cluster=said(v.get("cluster")),
        node=said(v.get("nodename")),
        start_at=stamp(v.get("timestart")),
        end_at=stamp(v.get("timeend")),
        state=_state(word),
        state_word=word,
        reason=v.get("reason", "").strip(BLANK) or None,
        user=user.partition("(")[0] if user else None,
    )


def _state(word: str | None) -> NodeState | None:
    try:
        return node_state(word) if word else None
    except ValueError:
        return None


FORMATS: dict[str, Callable[[str], Any]] = {"sacctmgr show event": events, "sacctmgr -P show event": events}
