"""Slurm's files as text: slurm.conf, gres.conf, cgroup.conf, plugstack.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from assay.model import Fact
from assay.slurm.config import ConfLine, SlurmConfig, flag
from assay.slurm.hostlist import expand
from assay.slurm.words import amount

_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_COMMENT = re.compile(r"(?<!\\)#.*")
_PAIR = re.compile(r"(?<!\S)([A-Za-z_][\w\[\]./:-]{0,63}?)[ \t]{0,64}[+-]?=[ \t]{0,64}(\"[^\"]*\"?|'[^']*'?|\S*)")
_INCLUDE = re.compile(r"include\s+(\S.*)", re.IGNORECASE)
_KINDS = frozenset({
    "nodename", "partitionname", "nodeset", "downnodes", "frontendname", "switchname", "blockname", "name", "mpi",
})  # fmt: skip


def logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, continued ones joined, blank ones left out."""
    for line in _CONTINUED.sub("", text.removeprefix("\ufeff")).splitlines():
        bare = _COMMENT.sub("", line).replace("\\#", "#").strip()
        if bare:
            yield bare


def pairs(line: str) -> dict[str, str]:
    """Key (lower case) -> value without quotes; the first wins."""
    found: dict[str, str] = {}
    for key, value in _PAIR.findall(line):
        found.setdefault(key.lower(), value.strip("\"'"))
    return found


def conf(text: str, what: str) -> SlurmConfig:
    """Any file of Key=value lines. Raises ValueError when no line of it is one."""
    values: dict[str, str] = {}
    lines: list[ConfLine] = []
    includes: list[str] = []
    unread: list[str] = []
    for line in logical_lines(text):
        found = pairs(line)
        first = next(iter(found), "")
        if include := _INCLUDE.fullmatch(line):
            includes.append(include[1].strip())
        elif not found or not re.match(r"[A-Za-z_]", line):
            unread.append(line)
        elif first in _KINDS:
            lines.append(ConfLine(first, found.pop(first), found))
        else:
            values.update(_numbered(found, values))
    if unread and not (values or lines or includes):
        raise ValueError(f"not a {what}: {unread[0][:60]!r}")
    return SlurmConfig(values=values, lines=tuple(lines), includes=tuple(includes), unread=tuple(unread))


def _numbered(found: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """SlurmctldHost may stand many times; number it as slurmctld does."""
    if "slurmctldhost" not in found:
        return found
    n = sum(key.startswith("slurmctldhost[") for key in before)
    return {f"slurmctldhost[{n}]" if key == "slurmctldhost" else key: value for key, value in found.items()}


def slurm_conf(text: str) -> SlurmConfig:
    """slurm.conf: parameters in `values`, node and partition lines in `lines`, files it pulls in in `includes`."""
    return conf(text, "slurm.conf")


def nodes_of(config: SlurmConfig) -> dict[str, dict[str, str]]:
    """Node -> its configuration by the NodeName lines, NodeName=DEFAULT applied to the lines after it."""
    defaults: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    for line in config.of_kind("nodename"):
        if line.name.upper() == "DEFAULT":
            defaults |= line.values
            continue
        for name in expand(line.name):
            found[name] = defaults | line.values
    return found


class CgroupConf(Fact, frozen=True):
    """cgroup.conf with Slurm's defaults for what it does not set. With plugin "disabled" nothing is constrained."""

    plugin: str = "autodetect"
    constrain_cores: bool = False
    constrain_devices: bool = False
    constrain_ram: bool = False
    constrain_swap: bool = False
    values: dict[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()

    @property
    def isolates_devices(self) -> bool:
        """A job sees only the GPUs it was given, as far as this file goes (slurm.conf must use task/cgroup, too)."""
        return self.constrain_devices and self.plugin.lower() != "disabled"


def cgroup_conf(text: str) -> CgroupConf:
    """cgroup.conf. Raises ValueError for a text of another kind."""
    read = conf(text, "cgroup.conf")
    return CgroupConf(
        plugin=read.value("CgroupPlugin") or "autodetect",
        constrain_cores=flag(read.values, "constraincores", default=False),
        constrain_devices=flag(read.values, "constraindevices", default=False),
        constrain_ram=flag(read.values, "constrainramspace", default=False),
        constrain_swap=flag(read.values, "constrainswapspace", default=False),
        values=read.values,
        includes=read.includes,
    )


class GresLine(Struct, frozen=True):
    """One resource of gres.conf. `nodes` is a hostlist, None for every node; `count` None = counted from `file`."""

    name: str
    type: str | None = None
    nodes: str | None = None
    count: int | None = None
    file: str | None = None
    multiple_files: str | None = None
    cores: str | None = None
    links: str | None = None
    flags: tuple[str, ...] = ()
    auto_detect: str | None = None

    @property
    def devices(self) -> int | None:
        """How many it makes: Count, else the number of device files."""
        listed = self.file or self.multiple_files
        return self.count if self.count is not None or not listed else len(expand(listed))


class GresConf(Fact, frozen=True):
    """gres.conf. `auto_detect` is the word that stands for all nodes: nvml, rsmi, nvidia, off, ..."""

    auto_detect: str | None = None
    lines: tuple[GresLine, ...] = ()
    includes: tuple[str, ...] = ()


def gres_conf(text: str) -> GresConf:
    """gres.conf. Raises ValueError for a text of another kind."""
    found: list[GresLine] = []
    auto: str | None = None
    read = conf(text, "gres.conf")
    for line in logical_lines(text):
        values = pairs(line)
        if "name" in values:
            found.append(_gres_line(values))
        elif "autodetect" in values and "nodename" not in values:
            auto = values["autodetect"]
        elif "autodetect" in values:
            found.append(GresLine("", nodes=values["nodename"], auto_detect=values["autodetect"]))
    return GresConf(auto_detect=auto, lines=tuple(found), includes=read.includes)


def _gres_line(values: dict[str, str]) -> GresLine:
    count = amount(values.get("count"))
    return GresLine(
        name=values["name"],
        type=values.get("type"),
        nodes=values.get("nodename"),
        count=None if count is None else int(count),
        file=values.get("file"),
        multiple_files=values.get("multiplefiles"),
        cores=values.get("cores") or values.get("cpus"),
        links=values.get("links"),
        flags=tuple(f for f in values.get("flags", "").split(",") if f),
        auto_detect=values.get("autodetect"),
    )


class Plugin(Struct, frozen=True):
    """One SPANK plugin. Without `required`, a failure of it lets the job run all the same."""

    path: str
    required: bool
    args: tuple[str, ...] = ()


class Plugstack(Fact, frozen=True):
    """plugstack.conf: plugins in order, and the files (globs) it includes."""

    plugins: tuple[Plugin, ...] = ()
    includes: tuple[str, ...] = ()


def plugstack_conf(text: str) -> Plugstack:
    """plugstack.conf. Raises ValueError for a text of another kind."""
    plugins: list[Plugin] = []
    includes: list[str] = []
    for line in logical_lines(text):
        word, rest = (*line.split(None, 1), "")[:2]
        if word.lower() == "include":
            includes.append(rest.strip())
        elif word.lower() in ("required", "optional"):
            path, *args = rest.split() or [""]
            plugins.append(Plugin(path, word.lower() == "required", tuple(args)))
        else:
            raise ValueError(f"not a plugstack.conf: {line[:60]!r}")
    return Plugstack(plugins=tuple(plugins), includes=tuple(includes))


FORMATS: dict[str, Callable[[str], Any]] = {
    "slurm.conf": slurm_conf,
    "cgroup.conf": cgroup_conf,
    "gres.conf": gres_conf,
    "plugstack.conf": plugstack_conf,
}
