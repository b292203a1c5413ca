"""Access is a command prefix: how `python3 -` is started on a node of a target."""

from __future__ import annotations

import re
import sys

from assay.errors import ConfigError, LaunchError
from assay.model import Target

# -I: nothing of the user's environment or working directory is imported; -S: no site-packages; -B: no .pyc is written
FLAGS = ("-I", "-S", "-B", "-")
_PYTHON = re.compile(r"[A-Za-z0-9_./+-]+")
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10", "-T", "-x", "-a")


def prefix(target: Target, node: str) -> tuple[str, ...]:
    """The argv that runs a Python program from its stdin on `node`."""
    if target.kind == "local":
        own = target.python if target.python != Target().python else sys.executable
        return (*_sudo(target), own or target.python, *FLAGS)
    if target.kind == "ssh":
        return (*_SSH, *target.ssh_options, "--", destination(target, node), remote_command(target))
    raise LaunchError(f"{target.name or target.kind}: nothing can be collected on a {target.kind} target over a prefix")


def remote_command(target: Target) -> str:
    """What the remote login shell gets: words without any character that a shell knows."""
    if not _PYTHON.fullmatch(target.python) or target.python.startswith("-"):
        raise ConfigError(f"python = {target.python!r} is not a program name", hint="use a plain name or path")
    return " ".join((*_sudo(target), target.python, *FLAGS))


def destination(target: Target, node: str) -> str:
    """[user@]node, refused when ssh could take it for an option or a command."""
    if not _NODE.fullmatch(node):
        raise ConfigError(f"{node!r} is not a node name")
    if target.user and not _USER.fullmatch(target.user):
        raise ConfigError(f"{target.user!r} is not a user name")
    return f"{target.user}@{node}" if target.user else node


def _sudo(target: Target) -> tuple[str, ...]:
    return ("sudo", "-n") if target.sudo else ()
