"""Grades one version against the table of published fixed versions. Pure; None or an odd version is never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from assay.checks.registry import When
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.checks.versions import ORDERS, Key, Version, version as dotted_version
from assay.model import WORST_FIRST, Bar, Verdict
from assay.profiles.minimum_versions import Component, Floor, MinimumVersions, Policy, Published

DAY_S = 86400.0
EPOCH = date(1970, 1, 1).toordinal()
BACK_PORT = "a distribution's build may hold back-ported fixes: its upstream number does not tell"


def day(at: When) -> int:
    """The UTC day of a moment, as an ordinal of the calendar."""
    return EPOCH + int(at.at // DAY_S)


def in_grace(published: Published, policy: Policy, at: When) -> bool:
    """True while the fix is too fresh to be missed; a fix without a date has been out for long."""
    return published.since is not None and day(at) < published.since.toordinal() + policy.grace_days


def grade(component: Component, text: str, table: MinimumVersions, at: When, *, distro: bool = False) -> Verdict:
    """The verdict on one version: affected ranges first, then the branch's floor or the plain minimum.

    `distro` = a distribution built the package; then a low number proves nothing.
    """
    key = ORDERS[component.order](text)
    if key is None:
        return unknown(f"{component.title} {text}: not a version this rule can read", seen=text)
    build = dotted_version(text) if component.order == "dotted" else None
    low = _low(component, key, text)
    if isinstance(low, Verdict):
        return low
    if not low:
        return _passed(component, text, table)
    if distro or (build and build.distro):
        return skip(f"{component.title} {text}: {BACK_PORT}")
    if build and not build.packaging:
        return unknown(f"{component.title} {text}: {build.suffix!r} is a build this rule does not know", seen=text)
    return _missed(component, text, low, table, at)


def _low(component: Component, key: Key, text: str) -> list[tuple[str, Published]] | Verdict:
    """What this version lacks, as (fixed version, publication); a verdict where it cannot be told."""
    lacks = _ranges(component, key)
    if isinstance(lacks, Verdict):
        return lacks
    floor = component.minimum or (branch_floor(component, text) if component.branches else None)
    if floor is None:
        return lacks
    if isinstance(floor, Verdict):
        return lacks or floor
    bar = ORDERS[component.order](floor.minimum)
    if bar is None:
        return unknown(f"{component.title}: the table's floor {floor.minimum!r} cannot be read", "no-reference")
    return [*lacks, (floor.minimum, floor)] if key < bar else lacks


def _ranges(component: Component, key: Key) -> list[tuple[str, Published]] | Verdict:
    order = ORDERS[component.order]
    lacks: list[tuple[str, Published]] = []
    for one in component.affected:
        introduced, fixed = order(one.introduced), order(one.fixed)
        if introduced is None or fixed is None:
            return unknown(f"{component.title}: the table's range for {one.name} cannot be read", "no-reference")
        if introduced <= key < fixed:
            lacks.append((one.fixed, one))
    return lacks


def branch_floor(component: Component, text: str) -> Floor | Verdict:
    """The floor of this version's branch; unknown for a branch the table does not name, above all a newer one."""
    branch = _branch(component, text)
    if known := component.branches.get(branch):
        return known
    other = component.other_trains
    device, _, _ = text.partition(".")
    if other and device in other.devices and text.count(".") == 2 and int(branch) < int(other.minimum.split(".")[0]):
        return other
    newest = max(component.branches, key=lambda b: tuple(map(int, b.split("."))))
    newer = tuple(map(int, branch.split("."))) > tuple(map(int, newest.split(".")))
    why = f"newer than the newest branch of the table, {newest}" if newer else "in no advisory of the table"
    return unknown(f"{component.title} {text}: branch {branch} is {why}", "no-reference", seen=text)


def _branch(component: Component, text: str) -> str:
    parts = text.strip().removeprefix("v").split(".")
    if component.order == "firmware":
        return str(int(parts[-2]))
    return ".".join(str(n) for n in _numbers(text)[: component.branch_parts])


def _numbers(text: str) -> tuple[int, ...]:
    known: Version | None = dotted_version(text)
    return (*known.numbers, 0, 0) if known else (0, 0)


def _source(published: Published, table: MinimumVersions) -> str:
    return f"{published.name or table.source} (table of {table.generated})"


def _passed(component: Component, text: str, table: MinimumVersions) -> Verdict:
    floor = component.minimum
    if floor is None and component.branches:
        found = branch_floor(component, text)
        floor = found if isinstance(found, Floor) else None
    bar = Bar(f">= {floor.minimum}", _source(floor, table)) if floor else Bar("in no affected range", table.source)
    return ok(f"{component.title} {text}", seen=text, bar=bar)


def _missed(
    component: Component, text: str, lacks: list[tuple[str, Published]], table: MinimumVersions, at: When
) -> Verdict:
    order = ORDERS[component.order]
    fixed, newest = max(lacks, key=lambda lack: order(lack[0]) or ())
    late = [p for _, p in lacks if not in_grace(p, table.policy, at)]
    names = list(dict.fromkeys(p.name for p in (late or [p for _, p in lacks]) if p.name))
    said = f"{component.title} {text} lacks {some(names, 3)}" if names else f"{component.title} {text} is too old"
    bar = Bar(f">= {fixed}", _source(newest, table))
    if late:
        return fail(f"{said}; fixed in {fixed}", seen=text, expected=f">= {fixed}", bar=bar)
    days = f"published {newest.since}, {table.policy.grace_days} days of grace"
    return warn(f"{said}; fixed in {fixed}, {days}", seen=text, expected=f">= {fixed}", bar=bar)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of several verdicts on parts of one thing."""
    return min(verdicts, key=lambda v: WORST_FIRST.index(v.status))
