"""What monitoring shows and collects: dcgm-exporter's counter list, metrics of a Grafana dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

_FIELD = re.compile(r"(?:DCGM|DCGM_FI|DCGM_EXP)_[A-Z0-9_]+")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_SELECTOR = re.compile(r"\{[^}]*\}|\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_CALL = re.compile(r"\b[a-z_]\w*\s*(?=\()")
_WORDS = frozenset(
    {
        "and",
        "or",
        "unless",
        "offset",
        "bool",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "inf",
        "nan",
        "e",
    }
)


class Counters(Struct, frozen=True, kw_only=True):
    """A counter list of dcgm-exporter: fields it exports, and fields somebody commented out."""

    path: str = ""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    bad_lines: int = 0


class Dashboard(Struct, frozen=True, kw_only=True):
    """A Grafana dashboard: its panels and the metrics that their queries name, in order of first use."""

    title: str = ""
    panels: int = 0
    metrics: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


def counters(text: str, path: str = "") -> Counters:
    """dcgm-exporter's CSV "field, type, help": a line behind "#" is off, its metric does not exist (it is not 0)."""
    enabled: list[str] = []
    disabled: list[str] = []
    bad = 0
    for line in text.splitlines():
        body = line.strip()
        off = body.startswith("#")
        cells = body.lstrip("# ").split(",")
        field = cells[0].strip()
        if len(cells) >= 2 and _FIELD.fullmatch(field):
            (disabled if off else enabled).append(field)
        elif body and not off:
            bad += 1
    if not enabled and not disabled:
        raise ValueError("no DCGM field in it")
    return Counters(
        path=path, enabled=tuple(enabled), disabled=tuple(f for f in disabled if f not in enabled), bad_lines=bad
    )


def dashboard(text: str) -> Dashboard:
    """Dashboard JSON as exported, or wrapped in {"dashboard": ...} as the API answers."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f"not JSON: {e}") from e
    body = document.get("dashboard", document) if isinstance(document, dict) else None
    if not isinstance(body, dict) or not ("panels" in body or "rows" in body):
        raise ValueError("not a Grafana dashboard")
    panels = list(_panels(body))
    queries = [q for p in panels for t in _dicts(p.get("targets")) if isinstance(q := t.get("expr"), str)]
    metrics = dict.fromkeys(m for q in queries for m in promql_metrics(q))
    return Dashboard(
        title=str(body.get("title", "")), panels=len(panels), metrics=tuple(metrics), queries=tuple(queries)
    )


def _panels(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Panels in rows of either layout; a row itself is no panel."""
    for panel in [*_dicts(body.get("panels")), *_dicts(body.get("rows"))]:
        if panel.get("type") != "row" and ("type" in panel or "targets" in panel):
            yield panel
        yield from _panels({"panels": panel.get("panels")})


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def promql_metrics(query: str) -> list[str]:
    """Metric names in a PromQL expression: what is left without strings, selectors, functions and keywords."""
    bare = _SELECTOR.sub(" ", _QUOTED.sub(" ", query))
    bare = _CALL.sub(" ", _GROUPING.sub(" ", bare))
    names = (m for m in _METRIC.findall(bare) if m.lower() not in _WORDS and not m.startswith("__"))
    return [n for n in names if len(n) > 2]


FORMATS: dict[str, Callable[[str], Any]] = {
    "dcgm-exporter counters": counters,
    "grafana dashboard": dashboard,
}
