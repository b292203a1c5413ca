"""Published fixed versions: what a component has to be at or above, and which versions are known to be affected."""

from __future__ import annotations

import re
from datetime import date
from typing import ClassVar, Literal

from msgspec import Struct, field

from assay.profiles import Profile

_NUMBER = re.compile(r"(?:\d+:)?v?\d[\w.+~^:-]*")


class Published(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a number comes from. Grace runs from the later of `bulletin` and `fix_available`; no date = long out."""

    advisory: str = ""
    cves: tuple[str, ...] = ()
    bulletin: date | None = None
    fix_available: date | None = None

    @property
    def since(self) -> date | None:
        """The day from which the fix could be known and had."""
        return max((d for d in (self.bulletin, self.fix_available) if d), default=None)

    @property
    def name(self) -> str:
        """The advisory, else its CVEs."""
        return self.advisory or ", ".join(self.cves)


class Floor(Published, frozen=True, kw_only=True):
    """The lowest version that holds the fix."""

    minimum: str


class Affected(Published, frozen=True, kw_only=True):
    """introduced <= version < fixed is affected. Several of one advisory are alternatives, one per branch."""

    introduced: str = "0"
    fixed: str


class Devices(Floor, frozen=True, kw_only=True):
    """A floor for the trains that have none of their own, on devices of these leading firmware numbers."""

    devices: dict[str, str]


class Component(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for one component; those that are given all hold.

    `branches` is keyed by the first `branch_parts` numbers (for firmware: the train), `products` by GPU;
    `other_trains` is the floor of older firmware trains that have none of their own. `packages` are the vendor's
    packages, `distro_packages` those that a distribution builds and patches itself.
    """

    title: str
    order: Literal["dotted", "driver", "firmware"] = "dotted"
    minimum: Floor | None = None
    affected: tuple[Affected, ...] = ()
    branches: dict[str, Floor] = field(default_factory=dict)
    branch_parts: int = 1
    other_trains: Devices | None = None
    products: dict[str, Floor] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    distro_packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        floors = [self.minimum, self.other_trains, *self.branches.values(), *self.products.values()]
        numbers = [f.minimum for f in floors if f] + [n for a in self.affected for n in (a.introduced, a.fixed)]
        if not numbers:
            raise ValueError(f"{self.title}: no version to hold it against")
        if odd := [n for n in numbers if not _NUMBER.fullmatch(n)]:
            raise ValueError(f"{self.title}: not a version: {odd[0]!r}")


class DistroFix(Published, frozen=True, kw_only=True):
    """What a distribution says of one vulnerability in one source package; no `fixed` = no fix yet.

    `release` is the code name. `role` says why it is listed: an escalation of privilege, an escape from a guest, a
    leak between guests, or `aggregate` for the newest security update as a whole.
    """

    name: str
    release: str
    package: str
    fixed: str = ""
    role: Literal["privilege", "guest", "leak", "aggregate"]
    related: tuple[str, ...] = ()
    cve_count: int = 0
    priority: Literal["low", "medium", "high", ""] = ""

    def __post_init__(self) -> None:
        if self.fixed and not _NUMBER.fullmatch(self.fixed):
            raise ValueError(f"{self.name}: not a version: {self.fixed!r}")


class Window(Published, frozen=True, kw_only=True):
    """The vendor keeps its current release and the one before."""

    current: str
    minimum: str


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a fix may be out before it is missed, and how old the table may be."""

    grace_days: int
    max_age_days: int


class MinimumVersions(Profile, frozen=True):
    """The table. `generated` = the day it was drawn up from the vendors' feeds."""

    file: ClassVar[str] = "minimum_versions.toml"

    source: str
    generated: date
    policy: Policy
    components: dict[str, Component]
    windows: dict[str, Window] = field(default_factory=dict)
    ubuntu: tuple[DistroFix, ...] = ()

    def __post_init__(self) -> None:
        if not self.components:
            raise ValueError("the table of minimum versions names no component")
