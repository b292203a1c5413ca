"""The catalogue of criteria a provider is rated by, and those that an audit cannot serve."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from assay.profiles import Profile


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion; `evidence` says what kind of proof can settle it, `environments` where it applies."""

    id: str
    category: str
    statement: str
    evidence: Literal["probe", "measure", "document", "interview"]
    environments: tuple[str, ...] = ()
    tier_hint: str = ""


class Criteria(Profile, frozen=True):
    """The catalogue, with where it comes from."""

    file: ClassVar[str] = "criteria.toml"

    source: str
    date: str
    criteria: tuple[Criterion, ...]


class UnservedCriteria(Struct, frozen=True, forbid_unknown_fields=True):
    """Criteria that no check serves: what they ask for in a few words, and why not."""

    what: str
    criteria: tuple[str, ...]
    environment: Literal["standalone", "slurm", "k8s"]
    why: str


class Unserved(Profile, frozen=True):
    """Probe criteria without a check; a test holds that no criterion is on both sides or on neither."""

    file: ClassVar[str] = "unserved.toml"

    unserved: tuple[UnservedCriteria, ...] = ()
