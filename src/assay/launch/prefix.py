"""Access is a command prefix: how `python3 -` is started on a node of a target."""

from __future__ import annotations

import re
import sys

from assay.errors import ConfigError, LaunchError
from assay.model import SCHEDULER, Target

# -I: nothing of the user's environment or working directory is imported; -S: no site-packages; -B: no .pyc is written
FLAGS = ("-I", "-S", "-B", "-")
_PYTHON = re.compile(r"[A-Za-z0-9_./+-]+")
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10", "-T", "-x", "-a")


def prefix(target: Target, node: str) -> tuple[str, ...]:
    """The argv that runs a Python program from its stdin on `node`."""
    if target.kind == "local":
        return (*_sudo(target), _own_python(target), *FLAGS)
    if target.kind == "ssh":
        return (*_SSH, *target.ssh_options, "--", destination(target, node), remote_command(target))
    if target.kind == "slurm" and node == SCHEDULER:
        return login(target)
    raise LaunchError(f"{target.name or target.kind}: nothing can be collected on a {target.kind} target over a prefix")


def login(target: Target) -> tuple[str, ...]:
    """The argv that runs a Python program from its stdin on the login node. A shell in between sees plain words."""
    if not target.via:
        return (_own_python(target), *FLAGS)
    return (*target.via, _plain(target.python), *FLAGS)


def node_command(target: Target) -> tuple[str, ...]:
    """What a scheduler starts on each node, a Python program on its stdin."""
    return (*_sudo(target), _plain(target.python), *FLAGS)


def remote_command(target: Target) -> str:
    """What the remote login shell gets: words without any character that a shell knows."""
    return " ".join(node_command(target))


def destination(target: Target, node: str) -> str:
    """[user@]node, refused when ssh could take it for an option or a command."""
    if not _NODE.fullmatch(node):
        raise ConfigError(f"{node!r} is not a node name")
    if target.user and not _USER.fullmatch(target.user):
        raise ConfigError(f"{target.user!r} is not a user name")
    return f"{target.user}@{node}" if target.user else node


def _own_python(target: Target) -> str:
    return target.python if target.python != Target().python else sys.executable or target.python


def _plain(python: str) -> str:
    if not _PYTHON.fullmatch(python) or python.startswith("-"):
        raise ConfigError(f"python = {python!r} is not a program name", hint="use a plain name or path")
    return python


def _sudo(target: Target) -> tuple[str, ...]:
    return ("sudo", "-n") if target.sudo else ()
