"""What host access is held against: settings of the SSH server, accounts, sysctls and listening ports."""

from __future__ import annotations

from typing import ClassVar, Literal

from assay.profiles import Profile
from assay.profiles.number import Sourced, Words


class Defaults(Sourced, frozen=True, kw_only=True):
    """What OpenSSH does where its configuration says nothing."""

    settings: dict[str, str]


class Sysctl(Sourced, frozen=True, kw_only=True):
    """Values of one sysctl that keep users apart, and what else happens."""

    name: str
    good: frozenset[str]
    why: str


class Port(Sourced, frozen=True, kw_only=True):
    """One service by its usual port. `processes` = beginnings of its process names, empty for any.

    `named_only` = the port is so common that it counts only with the name of the process.
    """

    service: str
    port: int
    topic: Literal["observability", "control"]
    level: Literal["warn", "fail"]
    processes: tuple[str, ...] = ()
    named_only: bool = False


class Access(Profile, frozen=True):
    """Bars of the access and host security checks."""

    file: ClassVar[str] = "access.toml"

    ssh_defaults: Defaults
    broken_algorithms: Words
    everyone: Words
    root_groups: Words
    without_useradd: Words
    forwarders: Words
    sysctls: tuple[Sysctl, ...]
    ports: tuple[Port, ...]
