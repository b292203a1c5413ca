"""Slurm's configuration: `scontrol show config`. The files of /etc/slurm (conf.py) fill the same values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from assay.model import Fact
from assay.slurm.times import Limit, limit_or_none, stamp
from assay.slurm.words import names, said

_NULL = frozenset({"", "(null)", "(null type)", "n/a", "none"})
_AS_OF = re.compile(r"Configuration data as of (\S+)")
_PAIR = re.compile(r"([A-Za-z_][\w.\[\]]*)\s*= ?(.*)")
_STATUS = re.compile(r"Slurmctld\((\w+)\) at (\S+) (?:is|are) (\w+)")
_MAIN = ""


class Controller(Struct, frozen=True):
    """One slurmctld as scontrol sees it. `role` is primary, backup or backup1..."""

    role: str
    host: str
    up: bool


class ConfLine(Struct, frozen=True):
    """One line of a file that describes things, e.g. NodeName=gpu[01-04] Gres=gpu:8. Keys are lower case."""

    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)


class SlurmConfig(Fact, frozen=True):
    """Parameters of slurm.conf or of the running slurmctld, keys lower case; `sections` hold Cgroup, MPI and others."""

    as_of: str | None = None
    values: dict[str, str] = field(default_factory=dict)
    sections: dict[str, dict[str, str]] = field(default_factory=dict)
    controllers: tuple[Controller, ...] = ()
    lines: tuple[ConfLine, ...] = ()
    includes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def value(self, key: str) -> str | None:
        """The text of a parameter, first of the main part; None for (null), N/A and what is not there."""
        wanted = key.lower()
        for part in (self.values, *self.sections.values()):
            if wanted in part:
                return value_or_none(part[wanted])
        return None

    def seconds(self, key: str) -> Limit | None:
        """A parameter that is a time: "300 sec", a bare number of seconds, INFINITE."""
        text = self.value(key)
        return int(text) if text and text.isdecimal() else limit_or_none(text)

    def listed(self, key: str) -> tuple[str, ...]:
        """A parameter that is a comma list."""
        return names(self.value(key))

    def of_kind(self, kind: str) -> tuple[ConfLine, ...]:
        """The lines that describe one kind of thing: nodename, partitionname, ..."""
        return tuple(line for line in self.lines if line.kind == kind.lower())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The controllers' host names in order, without the address in parentheses."""
        found = [v for k, v in self.values.items() if re.fullmatch(r"slurmctldhost(\[\d+\])?", k)]
        old = [self.values[k] for k in ("controlmachine", "backupcontroller") if k in self.values]
        return tuple(v.partition("(")[0] for v in (found or old) if said(v))


def value_or_none(text: str) -> str | None:
    """None for Slurm's spellings of "not configured"."""
    return None if text.strip().lower() in _NULL else text.strip()


def show_config(text: str) -> SlurmConfig:
    """`scontrol show config`: main part, sections after blank lines, state of the controllers. Raises ValueError."""
    head = _AS_OF.search(text)
    parts: dict[str, dict[str, str]] = {_MAIN: {}}
    section = _MAIN
    controllers: list[Controller] = []
    unread: list[str] = []
    for line in text.splitlines():
        if status := _STATUS.match(line):
            controllers.append(Controller(status[1], status[2], status[3] == "UP"))
        elif pair := _PAIR.match(line):
            parts[section].setdefault(pair[1].lower(), pair[2].strip())
        elif line.rstrip().endswith(":") and "onfiguration" in line:
            section = line.strip().rstrip(":")
            parts.setdefault(section, {})
        elif line.strip() and not _AS_OF.match(line):
            unread.append(line)
    main = parts.pop(_MAIN)
    if not head and "slurm_version" not in main:
        raise ValueError("not the output of scontrol show config")
    return SlurmConfig(
        as_of=stamp(head[1]) if head else None,
        values=main,
        sections=parts,
        controllers=tuple(controllers),
        unread=tuple(unread),
    )


def ping(text: str) -> tuple[Controller, ...]:
    """`scontrol ping`. Raises ValueError when no controller is named."""
    found = tuple(Controller(m[1], m[2], m[3] == "UP") for m in _STATUS.finditer(text))
    if not found:
        raise ValueError("not the output of scontrol ping")
    return found


def flag(values: Mapping[str, str], key: str, *, default: bool) -> bool:
    """A yes/no parameter; `default` where it is not set."""
    text = values.get(key, "").lower()
    return default if text in _NULL else text in ("yes", "true", "1", "y")


FORMATS: dict[str, Callable[[str], Any]] = {"scontrol show config": show_config, "scontrol ping": ping}
