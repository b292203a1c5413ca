"""assay.toml: the targets a person audits and where runs go.

The nearest file up the tree comes first, then the user's own in $XDG_CONFIG_HOME/assay. A target's ssh options can
run programs here, so a file that somebody else could have written is refused.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from assay.errors import ConfigError, UsageError
from assay.launch import slurm_script
from assay.launch.nodes import expand
from assay.model import SlurmOptions, Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "assay.toml"
_TARGET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOCAL = Target(name="local")
_SLURM = Target(name="slurm", kind="slurm")
_LAB_USER = "alice"
_LONGEST_S = 86_400
_VIA_WORD = re.compile(r"[^\x00-\x1f\x7f]+")


class Config(Struct, frozen=True):
    """Settings of all files together. `origin` = file of each key, e.g. "targets.lab" or "runs.directory"."""

    targets: dict[str, Target] = field(default_factory=dict)
    runs_directory: Path | None = None
    origin: dict[str, str] = field(default_factory=dict)


def user_directory() -> Path:
    """$XDG_CONFIG_HOME/assay, or ~/.config/assay."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path(os.environ.get("HOME", "/")) / ".config") / "assay"


def user_profiles() -> Path:
    """The user's own profiles, which take the place of the shipped ones."""
    return user_directory() / "profiles"


def load(start: Path | None = None) -> Config:
    """All settings; of two files the nearer one wins, key by key."""
    own = {"local": _LOCAL, "slurm": _SLURM, "lab": lab()}
    config = Config(own, None, {f"targets.{name}": "built in" for name in own})
    for path in reversed(_files(start)):
        config = _merged(config, path)
    return config


def find(name: str, start: Path | None = None) -> Target:
    """A configured target, or an ad-hoc one; UsageError for another name.

    Ad hoc are `user@host[1-8]` and `ssh:host`, `slurm:PARTITION` on a login node, `lab:NAME` for a lab of that name.
    """
    config = load(start)
    if target := config.targets.get(name):
        return target
    kind, _, rest = name.partition(":")
    if kind == "lab" and _TARGET_NAME.fullmatch(rest):
        return lab(rest)
    if kind == "slurm" and _TARGET_NAME.fullmatch(rest):
        return structs.replace(_SLURM, name=rest, slurm=SlurmOptions(partition=rest))
    if name.startswith("ssh:") or "@" in name:
        return _ad_hoc(name)
    known = ", ".join(sorted(config.targets))
    raise UsageError(f"no target {name!r}", hint=f"known: {known}; or name nodes as ssh:{name} or user@{name}")


def lab(name: str = "lab") -> Target:
    """The lab of this name, entered as an ordinary user of its login node."""
    own = (sys.executable, "-m", "assay", "lab", "exec", "--name", name, "--user", _LAB_USER, "login", "--")
    return Target(name=name, kind="slurm", emulated=True, via=own, slurm=SlurmOptions(account="research"))


def check_name(name: str) -> None:
    """Raise UsageError unless `name` can name a target."""
    if not _TARGET_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a target", hint="letters, digits, '_', '.', '-'")


def _ad_hoc(text: str) -> Target:
    nodeset = text.removeprefix("ssh:")
    user, _, nodes = nodeset.rpartition("@")
    if not expand(nodes):
        raise UsageError(f"{text!r} names no node", hint="write it as user@host[1-8]")
    return Target(name=nodeset, kind="ssh", nodes=nodes, user=user)


def _files(start: Path | None) -> list[Path]:
    """Nearest first. A directory that is gone, or closed to this user, holds none."""
    with suppress(FileNotFoundError):
        start = (start or Path.cwd()).absolute()
    places = [start, *start.parents] if start else []
    near = next((path for d in places if os.path.isfile(path := d / NAME)), None)  # noqa: PTH113
    own = user_directory() / NAME
    found = [near] if near else []
    return found + ([own] if own != near and os.path.isfile(own) else [])  # noqa: PTH113


def _read(path: Path) -> dict[str, Any]:
    info = path.stat()
    if info.st_uid not in (0, os.getuid()) or info.st_mode & stat.S_IWOTH:
        raise ConfigError(f"{path} may have been written by somebody else", hint="own it and chmod o-w, or move away")
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as e:
        raise ConfigError(f"{path}: {e}") from e
    return tables


def _merged(config: Config, path: Path) -> Config:
    tables = _read(path)
    if unknown := set(tables) - {"targets", "runs"}:
        raise ConfigError(f"{path}: {min(unknown)}: no such table", hint="there are [targets.NAME] and [runs]")
    targets = {name: _target(path, name, table) for name, table in _table(path, "targets", tables).items()}
    runs = _table(path, "runs", tables)
    origin = dict.fromkeys([f"targets.{name}" for name in targets], str(path))
    directory = config.runs_directory
    if runs:
        directory = _directory(path, runs)
        origin["runs.directory"] = str(path)
    return Config(config.targets | targets, directory, config.origin | origin)


def _table(path: Path, name: str, tables: dict[str, Any]) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name}: must be a table")
    return table


def _directory(path: Path, runs: dict[str, Any]) -> Path:
    directory = runs.get("directory")
    if set(runs) != {"directory"} or not isinstance(directory, str) or not directory:
        raise ConfigError(f"{path}: runs: has one key, directory, a path")
    try:
        return path.parent / Path(directory).expanduser()
    except RuntimeError as e:
        raise ConfigError(f"{path}: runs.directory: {e}") from e


def _target(path: Path, name: str, table: Any) -> Target:
    where = f"{path}: targets.{name}"
    if not _TARGET_NAME.fullmatch(name):
        raise ConfigError(f"{where}: no name for a target", hint="letters, digits, '_', '.', '-'")
    try:
        target = msgspec.convert(table, Target)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {e}") from e
    if target.name not in ("", name):
        raise ConfigError(f"{where}.name: the table's own name says it")
    if target.kind == "slurm":
        _check_slurm(target, where)
    if target.fanout < 1 or not 0 < target.timeout_s <= _LONGEST_S:
        raise ConfigError(f"{where}: fanout must be positive, timeout_s too, and at most {_LONGEST_S}")
    try:
        nodes = expand(target.nodes)
    except UsageError as e:
        raise ConfigError(f"{where}.nodes: {e.message}", hint=e.hint) from e
    if target.kind == "ssh" and not nodes:
        raise ConfigError(f"{where}.nodes: a target reached by ssh names its nodes")
    if target.kind == "local" and nodes:
        raise ConfigError(f"{where}.nodes: a local target is this machine", hint='kind = "ssh" reaches others')
    return msgspec.structs.replace(target, name=name)


def _check_slurm(target: Target, where: str) -> None:
    if target.user or target.ssh_options:
        raise ConfigError(f"{where}: user and ssh_options are of ssh targets", hint='via = ["ssh", "user@login"]')
    if target.via and (target.via[0].startswith("-") or not all(map(_VIA_WORD.fullmatch, target.via))):
        raise ConfigError(f"{where}.via: not a command", hint='as in via = ["ssh", "login"]')
    slurm_script.check(target.slurm, f"{where}.slurm")
