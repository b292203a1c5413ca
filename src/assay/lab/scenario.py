"""What a lab's provider does well or badly, as changes to a plain cluster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from assay.lab.site import SCRIPTS

Verb = Literal["audit", "inject", "bench"]
Topology = Literal["tree", "flat", "none"]


class File(Struct, frozen=True):
    """A file that a scenario puts into a host, before it starts. {then} in a text becomes the time of `days` ago."""

    text: str
    mode: int = 0o644
    days: float = 0.0

    def now(self) -> str:
        """Its text."""
        then = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=self.days)
        return self.text.replace("{then}", f"{then:%Y-%m-%dT%H:%M:%SZ}") if self.days else self.text


class Trouble(Struct, frozen=True):
    """What befalls hosts once all nodes are idle. Hosts are named by globs, as in `Scenario`.

    `states` = fields of the state of their hardware; `cut` = interfaces without a cable; `slow` = interface -> rate
    in tc's words; `kernel_log` = records as their kernels would write them.
    """

    states: Mapping[str, Mapping[str, Any]] = {}
    cut: Mapping[str, tuple[str, ...]] = {}
    slow: Mapping[str, Mapping[str, str]] = {}
    kernel_log: Mapping[str, tuple[str, ...]] = {}


class Scenario(Struct, frozen=True):
    """Hosts are named by globs over "gpu01", "login", ... and "spare".

    `found_by` = verbs that can find what is wrong; none where all is well. `slurm` = keys of slurm.conf (None takes
    one away); `node_lines` = host glob -> keys of its NodeName line; `partitions` = further lines, {all} is every
    node; `submit` = body of a rule of job_submit.lua; `topology` = what Slurm is told of switches; `files` = host
    glob -> path -> file, where /etc/slurm is one directory shared by all and goes under "*"; `after` = (host, argv)
    run once all nodes are idle, after `trouble`. `shape` and `nodes` = what it needs, where it needs something.
    """

    name: str
    summary: str
    found_by: tuple[Verb, ...] = ()
    slurm: Mapping[str, str | None] = {}
    node_lines: Mapping[str, Mapping[str, str]] = {}
    partitions: tuple[str, ...] = ()
    submit: str = ""
    topology: Topology = "tree"
    files: Mapping[str, Mapping[str, File]] = {}
    trouble: Trouble = Trouble()
    after: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shape: str = ""
    nodes: int = 0


def program(name: str) -> File:
    """A script of the operator's, as a file of a host."""
    return File((SCRIPTS / "operator" / name).read_text(encoding="utf-8"), 0o755)


def settings(**values: str) -> File:
    """Settings of an operator's script, as the shell reads them."""
    return File("".join(f"{name.upper()}='{value}'\n" for name, value in values.items()))
