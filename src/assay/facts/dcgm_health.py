"""`dcgmi health -c`: what the background watches have found. Users may mail it; an audit only fetches the watches."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct, field

# Before 2.x: "| Overall Health: Warning |", "| GPU ID: 0 | Warning |", "| | PCIe system: Warning - words |".
_OVERALL = re.compile(r"^\s*Overall Health:\s*(\w+)\s*$")
_OLD_GPU = re.compile(r"^GPU ID:?\s*(\d+)$")
_OLD_LINE = re.compile(r"^(\w[\w ]*system): (\w+) - (.*)$")
_GROUPS = {"GPU", "Switch", "NvSwitch", "CPU", "Link", "GPU-I", "GPU-CI"}


class Incident(Struct, frozen=True, kw_only=True):
    """One subsystem of one entity that is not healthy."""

    entity: str = ""
    system: str = ""
    health: str = ""
    message: str = ""


class HealthCheck(Struct, frozen=True, kw_only=True):
    """`overall` as printed (Healthy, Warning, Failure); `watched` False = no watch was on, so nothing was judged."""

    overall: str | None = None
    watched: bool = True
    incidents: tuple[Incident, ...] = ()


def health_check(text: str) -> HealthCheck:
    """Box or JSON; healthy without watches does not exist: DCGM says they are not enabled."""
    if "watches not enabled" in text.lower():
        return HealthCheck(watched=False)
    if '"body"' in text and "{" in text:
        return _from_json(tree(text))
    rows = [cells for line in text.splitlines() if (cells := _cells(line))]
    overall = next((value for _, key, value in rows if key.startswith("Overall")), None)
    if overall is None:
        raise ValueError("no overall health in it")
    return HealthCheck(overall=overall, incidents=tuple(_incidents(rows)))


def _cells(line: str) -> tuple[int, str, str] | None:
    """Depth, key and value of a row of the box."""
    cells = line.strip().strip("|").split("|", 1)
    if len(cells) == 1 and (overall := _OVERALL.match(cells[0])):
        return 0, "Overall Health", overall[1]
    return (cells[0].count("->"), cells[0].replace("->", "").strip(), cells[1].strip()) if len(cells) == 2 else None


def _incidents(rows: list[tuple[int, str, str]]) -> list[Incident]:
    found: list[dict[str, str]] = []
    group = entity = ""
    for depth, key, value in rows:
        if key in _GROUPS and depth == 0:
            group = key
        elif key.isdigit():
            entity = f"{group} {key}".strip()
        elif old := _OLD_GPU.match(key):
            entity = f"GPU {old[1]}"
        elif not key and (line := _OLD_LINE.match(value)):
            found.append({"entity": entity, "system": line[1], "health": line[2], "message": line[3]})
        elif "system" in key.lower() or key == "Driver":
            found.append({"entity": entity, "system": key, "health": value, "message": ""})
        elif not key and value and found:
            found[-1]["message"] = f"{found[-1]['message']} {value}".strip()
    return [Incident(**f) for f in found]


class Node(Struct, frozen=True):
    """A node of the tree that dcgmi writes as JSON."""

    value: str | None = None
    overflow: tuple[str, ...] = ()
    children: dict[str, Node] = field(default_factory=dict)


class Tree(Struct, frozen=True):
    """The whole document; "Health monitor systems report" may stand in front of it."""

    body: dict[str, Node]


def tree(text: str) -> dict[str, Node]:
    """The body of dcgmi's JSON; ValueError when it has none."""
    try:
        return msgspec.json.decode(text[text.find("{") :] if "{" in text else text, type=Tree).body
    except msgspec.DecodeError as e:
        raise ValueError(f"not the JSON of dcgmi health: {e}") from e


def _from_json(body: dict[str, Node]) -> HealthCheck:
    if "Overall Health" not in body:
        raise ValueError("no overall health in it")
    found = [
        Incident(entity=f"{group} {entity}", system=system, health=state.value or "", message=" ".join(state.overflow))
        for group in body.keys() & _GROUPS
        for entity, one in body[group].children.items()
        for system, state in one.children.get("Errors", Node()).children.items()
    ]
    return HealthCheck(overall=body["Overall Health"].value, incidents=tuple(found))
