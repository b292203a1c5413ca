"""Grading against the shipped table: a version just below a fix fails, at it passes, and nothing unknown passes."""

from __future__ import annotations

import stat
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from assay.checks.registry import When
from assay.checks.security.grading import DAY_S, EPOCH, grade, in_grace
from assay.checks.versions import ORDERS, debian
from assay.errors import ConfigError, NoVerdict
from assay.model import Status
from assay.profiles import Profiles
from assay.profiles.minimum_versions import Affected, Component, Floor, MinimumVersions
from assay.profiles.minimums_store import describe, import_table, read_table

TABLE = Profiles().get(MinimumVersions)
EMPTY = "source = 'x'\ngenerated = 2026-01-01\npolicy = {grace_days = 3, max_age_days = 10}\n[components]\n"
SHIPPED = Profiles().text(MinimumVersions.file)
LATE = When(1796083200.0)
CLEAN = {"1.3.6", "1.4.3", "1.5.0-rc.3"}
RANGES = [(name, one) for name, c in TABLE.components.items() for one in c.affected]
FLOORS = [
    (name, structs.replace(c, affected=(), minimum=floor, branches={}, products={}), floor)
    for name, c in TABLE.components.items()
    for floor in (c.minimum, *c.branches.values(), *c.products.values())
    if floor
]


def moment(day: date) -> When:
    return When((day.toordinal() - EPOCH) * DAY_S)


def below(text: str, order: str) -> str:
    """A version just below: the last number one less, or a release candidate of it."""
    head, _, last = text.rpartition(".")
    if order == "dotted" and "-" in text:
        return f"{text.split('-', maxsplit=1)[0]}-alpha"
    if not head.strip() or int(last) == 0:
        return f"{text}-rc.1"
    return f"{head}.{int(last) - 1:0{len(last)}d}"


@pytest.mark.parametrize(("name", "one"), RANGES, ids=lambda v: v if isinstance(v, str) else f"{v.name}-{v.fixed}")
def test_affected_range_ends_at_its_fix(name: str, one: Affected) -> None:
    component = structs.replace(TABLE.components[name], affected=(one,), branches={}, minimum=None)
    low = one.introduced if one.introduced != "0" else below(one.fixed, component.order)
    assert grade(component, low, TABLE, LATE).status is Status.FAIL
    assert grade(component, one.fixed, TABLE, LATE).status is Status.PASS


@pytest.mark.parametrize(("name", "component", "floor"), FLOORS, ids=lambda v: v if isinstance(v, str) else "")
def test_floor_is_met_at_it_and_missed_below(name: str, component: Component, floor: Floor) -> None:
    prefix = "28." if component.order == "firmware" else ""
    low = prefix + below(floor.minimum, component.order)
    assert grade(component, low, TABLE, LATE).status is Status.FAIL, (name, low)
    assert grade(component, prefix + floor.minimum, TABLE, LATE).status is Status.PASS, name


@pytest.mark.parametrize("version", [f.minimum for f in TABLE.components["runc"].branches.values()])
def test_runc_floor_passes_only_where_no_range_holds_it(version: str) -> None:
    status = grade(TABLE.components["runc"], version, TABLE, LATE).status
    assert status is (Status.PASS if version in CLEAN else Status.FAIL)


@pytest.mark.parametrize("name", sorted(TABLE.components))
@given(text=st.one_of(st.text(max_size=20), st.from_regex(r"\A[0-9]{1,4}(\.[0-9]{1,4}){0,3}\Z")))
def test_unreadable_version_never_passes(name: str, text: str) -> None:
    component = TABLE.components[name]
    if component.products:
        component = structs.replace(component, minimum=next(iter(component.products.values())))
    verdict = grade(component, text, TABLE, LATE)
    if ORDERS[component.order](text) is None:
        assert verdict.status is Status.UNKNOWN
    if verdict.status is Status.PASS:
        key = ORDERS[component.order](text)
        assert key is not None
        assert not any(
            ORDERS[component.order](a.introduced) <= key < ORDERS[component.order](a.fixed) for a in component.affected
        )


@pytest.mark.parametrize("name", [n for n, c in TABLE.components.items() if c.branches])
@given(number=st.integers(700, 999), rest=st.integers(10, 99))
def test_branch_nobody_published_never_passes(name: str, number: int, rest: int) -> None:
    component = TABLE.components[name]
    text = f"28.{number % 50 + 47:02d}.{rest:04d}" if component.order == "firmware" else f"{number}.{rest}.{rest}"
    assert grade(component, text, TABLE, LATE).status is Status.UNKNOWN


def test_grace_runs_from_the_later_of_bulletin_and_fix() -> None:
    floor = Floor(minimum="1", bulletin=date(2026, 9, 30), fix_available=date(2026, 8, 3))
    assert in_grace(floor, TABLE.policy, moment(date(2026, 10, 2)))
    assert not in_grace(floor, TABLE.policy, moment(date(2026, 10, 3)))
    assert not in_grace(Floor(minimum="1"), TABLE.policy, moment(date(2026, 10, 2)))


def test_old_fix_is_missed_although_a_new_one_is_in_grace() -> None:
    old, new = Affected(fixed="1.2"), Affected(fixed="1.4", fix_available=date(2026, 11, 30))
    component = Component(title="thing", affected=(old, new))
    at = moment(date(2026, 12, 1))
    assert grade(component, "1.1", TABLE, at).status is Status.FAIL
    assert grade(component, "1.3", TABLE, at).status is Status.WARN
    assert grade(component, "1.4", TABLE, at).status is Status.PASS


def test_distribution_build_is_skipped_only_where_it_is_low() -> None:
    runc = TABLE.components["runc"]
    assert grade(runc, "1.3.3-0ubuntu1~24.04.3", TABLE, LATE).status is Status.SKIP
    assert grade(runc, "1.2.4", TABLE, LATE, distro=True).status is Status.SKIP
    assert grade(runc, "1.4.3-ubuntu26.04u2", TABLE, LATE).status is Status.PASS
    assert grade(runc, "1.2.5-dirty", TABLE, LATE).status is Status.UNKNOWN


def test_unreadable_floor_is_unknown() -> None:
    for component in (
        Component(title="x", minimum=Floor(minimum="1:2")),
        Component(title="x", affected=(Affected(fixed="1:2"),)),
    ):
        assert grade(component, "9.9", TABLE, LATE).status is Status.UNKNOWN


def test_shipped_table_is_readable_throughout_and_carries_no_placeholder() -> None:
    assert "CVE-2026-99999" not in SHIPPED.replace("# - CVE-2026-99999", "")
    assert all(debian(f.fixed) for f in TABLE.ubuntu if f.fixed)
    for component in TABLE.components.values():
        floors = [*component.branches.values(), *component.products.values(), component.minimum, component.other_trains]
        numbers = [f.minimum for f in floors if f] + [n for a in component.affected for n in (a.introduced, a.fixed)]
        assert all(ORDERS[component.order](n) for n in numbers), component.title


@pytest.mark.parametrize("text", [
    "", "source = 'x'\n", "not toml [",
    EMPTY,
    SHIPPED.replace("generated = 2026-10-26", 'generated = "last week"'), SHIPPED.replace('"29.9.2"', '"newest"'),
    SHIPPED.replace("[components.docker]", "[components.docker]\nfloor = 1"), SHIPPED[: len(SHIPPED) // 2] + "[[",
])  # fmt: skip
def test_empty_or_broken_table_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / MinimumVersions.file).write_text(text)
    with pytest.raises(NoVerdict):
        Profiles(tmp_path).get(MinimumVersions)
    with pytest.raises(ConfigError):
        import_table(tmp_path / MinimumVersions.file, tmp_path / "other.toml")
    assert [p.name for p in tmp_path.iterdir()] == [MinimumVersions.file]


def test_import_puts_a_private_copy_where_profiles_find_it(tmp_path: Path) -> None:
    newer = tmp_path / "newer.toml"
    newer.write_text(SHIPPED.replace("generated = 2026-10-26", "generated = 2026-11-20"))
    method = tmp_path / "method"
    method.mkdir()
    table = import_table(newer, method)
    assert table.generated == date(2026, 11, 20)
    assert Profiles(method).get(MinimumVersions) == table == read_table(newer.read_text(), "newer.toml")
    assert stat.S_IMODE((method / MinimumVersions.file).stat().st_mode) == 0o600
    assert [p.name for p in method.iterdir()] == [MinimumVersions.file]
    assert "2026-11-20" in describe(table)


def test_import_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        import_table(tmp_path / "absent.toml", tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):
        import_table(tmp_path / "binary", tmp_path)
