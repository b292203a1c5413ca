"""What host access is held against: settings of the SSH server, accounts, sysctls and listening ports."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from assay.profiles import Profile


class Count(Struct, frozen=True, forbid_unknown_fields=True):
    """A number with its origin."""

    value: int
    source: str
    date: str


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """A list of names with its origin."""

    names: frozenset[str]
    source: str
    date: str


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """What OpenSSH does where its configuration says nothing."""

    settings: dict[str, str]
    source: str
    date: str


class Sysctl(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of one sysctl that keep users apart, and what else happens."""

    name: str
    good: frozenset[str]
    why: str
    source: str
    date: str


class Port(Struct, frozen=True, forbid_unknown_fields=True):
    """One service by its usual port. `processes` = beginnings of its process names, empty for any.

    `named_only` = the port is so common that it counts only with the name of the process.
    """

    service: str
    port: int
    topic: Literal["observability", "control"]
    level: Literal["warn", "fail"]
    source: str
    date: str
    processes: tuple[str, ...] = ()
    named_only: bool = False


class Access(Profile, frozen=True):
    """Bars of the access and host security checks."""

    file: ClassVar[str] = "access.toml"

    max_auth_tries: Count
    ssh_defaults: Defaults
    broken_algorithms: Words
    everyone: Words
    root_groups: Words
    without_useradd: Words
    forwarders: Words
    sysctls: tuple[Sysctl, ...]
    ports: tuple[Port, ...]
