"""What a lab consists of, as values: its settings, its hosts, their names and addresses."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Literal

from msgspec import Struct

from assay.errors import UsageError
from assay.lab.hardware.shapes import SHAPES as MACHINES, Shape as Machine

Role = Literal["control", "login", "gpu"]

CONTROL, LOGIN = "ctl", "login"
MOST_NODES = 512
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_MANAGEMENT, _FABRIC = IPv4Address("10.77.0.0"), IPv4Address("10.78.0.0")
PREFIX = 16
_FIRST_NODE = 10  # addresses below are for hosts that are no nodes


class Shape(Struct, frozen=True):
    """A kind of node. `hardware` = what it is made of, `gres` = type of its GPUs in Slurm, `device` = their files."""

    name: str
    hardware: str
    gres: str
    device: str

    @property
    def machine(self) -> Machine:
        """Its parts."""
        return MACHINES[self.hardware]


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("hgx-h100", "hgx-h100", "h100", "/dev/nvidia[0-7]"),
        Shape("hgx-b300", "hgx-b300", "b300", "/dev/nvidia[0-7]"),
        Shape("gb300-nvl72", "gb300-tray", "gb300", "/dev/nvidia[0-3]"),
        Shape("mi355x", "mi355x", "mi355x", "/dev/dri/renderD[128-135]"),
    )
}


class Spec(Struct, frozen=True):
    """One lab. `nodes` are in service, one more is the spare. `constrain` = by what jobs are kept to their GPUs."""

    name: str = "lab"
    nodes: int = 4
    shape: str = "hgx-h100"
    accounting: bool = False
    slow_defaults: bool = False
    scenario: str = "healthy"
    constrain: Literal["", "cgroup/v1"] = ""
    uptime_s: int = 1_987_654
    reboot_s: float = 2.0  # Slurm compares boot times in whole seconds: below 2 it may not see that a node rebooted

    @property
    def gpu_shape(self) -> Shape:
        """The shape of its GPU nodes."""
        return SHAPES[self.shape]


class Host(Struct, frozen=True):
    """A machine of the lab. `fabric` is "" where it has no card in the second network."""

    name: str
    role: Role
    management: str
    fabric: str = ""

    @property
    def interfaces(self) -> dict[str, str]:
        """Interface -> address."""
        return {"eth0": self.management} | ({"ib0": self.fabric} if self.fabric else {})


def check(spec: Spec) -> None:
    """UsageError for a lab that cannot be."""
    if not _NAME.fullmatch(spec.name):
        raise UsageError(f"not a name for a lab: {spec.name!r}", hint="small letters, digits and dashes")
    if spec.shape not in SHAPES:
        raise UsageError(f"unknown shape {spec.shape!r}", hint=f"one of {', '.join(SHAPES)}")
    if not 1 <= spec.nodes <= MOST_NODES:
        raise UsageError(f"a lab has 1 to {MOST_NODES} nodes, not {spec.nodes}")


def node_name(number: int, spec: Spec) -> str:
    """gpu01, or gpu001 where there are that many."""
    return f"gpu{number:0{max(2, len(str(spec.nodes + 1)))}d}"


def spare(spec: Spec) -> str:
    """The last node, in no partition."""
    return node_name(spec.nodes + 1, spec)


def gpu_nodes(spec: Spec) -> tuple[str, ...]:
    """All GPU nodes, the spare last."""
    return tuple(node_name(number, spec) for number in range(1, spec.nodes + 2))


def hosts(spec: Spec) -> tuple[Host, ...]:
    """All hosts, in the order in which they start."""
    nodes = (
        Host(name, "gpu", str(_MANAGEMENT + _FIRST_NODE + n), str(_FABRIC + _FIRST_NODE + n))
        for n, name in enumerate(gpu_nodes(spec), 1)
    )
    return (
        Host(CONTROL, "control", str(_MANAGEMENT + 1)),
        Host(LOGIN, "login", str(_MANAGEMENT + 2)),
        *nodes,
    )
