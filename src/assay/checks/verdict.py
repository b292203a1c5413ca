"""The words a rule speaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from assay.model import Bar, Missing, Status, Verdict


def ok(message: str, *, seen: Any = None, expected: Any = None, bar: Bar | None = None) -> Verdict:
    """The evidence proves the property."""
    return Verdict(Status.PASS, message, "", seen, expected, bar)


def warn(message: str, *, seen: Any = None, expected: Any = None, bar: Bar | None = None) -> Verdict:
    """A person should look: degraded, risky or below good practice."""
    return Verdict(Status.WARN, message, "", seen, expected, bar)


def fail(message: str, *, seen: Any = None, expected: Any = None, bar: Bar | None = None) -> Verdict:
    """The evidence disproves the property."""
    return Verdict(Status.FAIL, message, "", seen, expected, bar)


def skip(
    message: str, reason: Literal["not-applicable", "absent", "denied", "not-asked"] = "not-applicable"
) -> Verdict:
    """Nothing to judge here, or we were not let in."""
    return Verdict(Status.SKIP, message, reason)


def unknown(
    message: str,
    reason: Literal["unrecognised", "no-reference", "timed-out", "unparsable", "failed", "too-little"] = "unrecognised",
    *,
    seen: Any = None,
) -> Verdict:
    """It could not be told; never a pass. `no-reference` = there is no trustworthy bar."""
    return Verdict(Status.UNKNOWN, message, reason, seen)


def missing(gap: Missing) -> Verdict:
    """What follows from a fact that is not there."""
    return Verdict(gap.status, gap.reason, gap.kind)


def some(names: Iterable[object], limit: int = 4) -> str:
    """The first few of many names, and how many more there are."""
    words = list(map(str, names))
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more
