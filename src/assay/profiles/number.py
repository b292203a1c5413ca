"""What stands in a profile: a number, a version or words, each with where it comes from and when that was looked up."""

from __future__ import annotations

from msgspec import Struct

from assay.model import Bar


class Sourced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of a profile with its origin."""

    source: str
    date: str

    def cited(self, text: str) -> Bar:
        """A bar in the rule's own words, with this entry's origin."""
        return Bar(text, f"{self.source} ({self.date})")


class Number(Sourced, frozen=True, kw_only=True):
    """One number; its unit is in its name."""

    value: float

    def bar(self, unit: str = "", sign: str = "") -> Bar:
        """The number as a finding shows it: "<= 10 ms"."""
        return self.cited(f"{sign}{self.value:g}{unit}")


class Release(Sourced, frozen=True, kw_only=True):
    """The version from which on something counts as current, or works."""

    value: str

    @property
    def parts(self) -> tuple[int, ...]:
        """Its numbers, for comparing."""
        return tuple(map(int, self.value.split(".")))

    def bar(self) -> Bar:
        """The version as a finding shows it: ">= 3.10"."""
        return self.cited(f">= {self.value}")


class Words(Sourced, frozen=True, kw_only=True):
    """Names that a rule knows."""

    names: frozenset[str]
