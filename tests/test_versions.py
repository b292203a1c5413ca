"""Orders of versions, held against dpkg where it is installed."""

import itertools
import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from assay.checks.versions import ORDERS, debian, dotted, driver, firmware, rpm, upstream, version

RUNC = (
    "0.1.0", "1.0.0-rc3", "1.0.0-rc8", "1.0.0-rc8.0.20190930145003-cad42f6e0932", "1.0.0-rc9",
    "1.0.0-rc9.0.20200122160610-2fc03cc11c77", "1.0.0-rc91", "1.0.0-rc93", "1.0.0-rc95", "1.0.0", "1.0.3", "1.1.14",
    "1.2.0-rc.1", "1.2.0-rc.3", "1.2.0", "1.2.8", "1.4.0-rc.3", "1.4.0", "1.5.0-rc.1", "1.5.0-rc.3", "1.5.0", "1.10.0",
)  # fmt: skip
DEBIAN = (
    "1.0~~", "1.0~~a", "1.0~", "1.0~beta1~svn1245", "1.0~beta1", "1.0", "1.0-1~bpo12+1", "1.0-1", "1.0-1+b1", "1.0a",
    "1.0+ds1-1", "1.0.1-0", "1.2.2+ds-0ubuntu1.9", "1.2.2+ds-0ubuntu1.16", "6.8.0-9.9",
    "6.8.0-87.88", "6.8.0-138.138~22.04.1", "6.8.0-138.138", "1:0.1", "1:8.2.2+ds-0ubuntu1.16", "10:0",
)  # fmt: skip
RPM = ("1.0~rc1", "1.0~rc1^git1", "1.0", "1.0^git1", "1.0a", "1.0.1", "1.1-1.el9", "1.1-1.el9_6", "1.1-2.el9", "2:0.9")
DRIVERS = ("535.54.03", "535.309.01", "570.211.01", "580.126.09", "580.178.04", "610.43.02")
FIRMWARE = ("28.28.4702", "28.32.1908", "28.39.3560", "28.39.8002", "20.43.2566")


@pytest.mark.parametrize(
    ("order", "ascending"), [(dotted, RUNC), (debian, DEBIAN), (rpm, RPM), (driver, DRIVERS), (firmware, FIRMWARE)]
)
def test_published_versions_ascend(order: Callable[[str], object], ascending: tuple[str, ...]) -> None:
    keys = [order(v) for v in ascending]
    assert None not in keys
    for (a, ka), (b, kb) in itertools.combinations(zip(ascending, keys, strict=True), 2):
        assert ka < kb, f"{a} is not before {b}"  # type: ignore[operator]


@pytest.mark.parametrize(("order", "a", "b"), [
    (dotted, "1.0", "1.0.0"), (dotted, "v1.2.3", "1.2.3"), (dotted, "1.5.0-rc.3", "1.5.0-rc3"),
    (debian, "0:1.0", "1.0"),
    (debian, "1.0-0", "1.0"), (debian, "1.00", "1.0"), (rpm, "1.0", "1_0"), (rpm, "0:1.0", "(none):1.0"),
    (firmware, "28.39.8002", "39.8002"),
])  # fmt: skip
def test_spellings_of_one_version(order: Callable[[str], object], a: str, b: str) -> None:
    assert order(a) == order(b) is not None


@pytest.mark.parametrize("text", [
    "", "abc", "1..2", "1.", "1.2.3.", "N/A", "[Not Supported]", "1.2.3 4", "-1", "1" * 300, "28.4702 1000",
    "\u0661.2", "latest",
])  # fmt: skip
def test_no_version_has_no_key(text: str) -> None:
    assert dotted(text) is None
    assert driver(text) is None
    assert firmware(text) is None


def test_malformed_firmware_is_no_version() -> None:
    assert firmware("28.4702.1000") is None
    assert firmware("28.39") is None


@pytest.mark.parametrize(("text", "packaging", "distro"), [
    ("1.2.5", True, False), ("1.20.0-1", True, False), ("17.06.1-ce", True, False), ("1.5.0-rc.3", True, False),
    ("1.3.3-0ubuntu1~24.04.3", False, True), ("24.0.7+azure-1", False, True), ("1.1.5+ds1", False, True),
    ("1.4.3-ubuntu26.04u2", False, True), ("1.2.4-2.el9", False, True), ("1.7.24~ds1", False, True),
    ("1.2.5-dirty", False, False), ("1.2.5+k3s1", False, False), ("1.2.0-0.el9", False, True),
])  # fmt: skip
def test_what_a_packager_hung_on_it(text: str, packaging: bool, distro: bool) -> None:  # noqa: FBT001
    known = version(text)
    assert known is not None
    assert (known.packaging, known.distro) == (packaging, distro)


@pytest.mark.parametrize(("package", "number"), [
    ("5:29.7.2-1~ubuntu.24.04~noble", "29.7.2"), ("1.20.0-1", "1.20.0"), ("1.3.3", "1.3.3"), ("4:1.2.4-2.el9", "1.2.4"),
])  # fmt: skip
def test_upstream_number_of_a_package(package: str, number: str) -> None:
    assert upstream(package) == number


NUMBERS = st.from_regex(r"\A[0-9]{1,4}(\.[0-9]{1,4}){0,3}((-|\.|)(rc|beta)[.]?[0-9]{0,2})?(-[0-9]{1,2}|\+azure-1)?\Z")
POLICY = st.from_regex(r"\A([0-9]:)?[0-9][a-zA-Z0-9.+~]{0,8}(-[a-zA-Z0-9.+~]{1,6})?\Z")
EVR = st.from_regex(r"\A([0-9]:)?[a-zA-Z0-9._+~^]{1,8}(-[a-zA-Z0-9._+~^]{1,6})?\Z")
BRANCHED = st.from_regex(r"\A[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?\Z")
TRAINS = st.from_regex(r"\A([0-9]{2}\.)?[0-9]{2}\.[0-9]{4}\Z")
TEXTS = {"dotted": NUMBERS, "debian": POLICY, "rpm": EVR, "driver": BRANCHED, "firmware": TRAINS}


@pytest.mark.parametrize("name", sorted(ORDERS))
@given(data=st.data())
def test_order_is_total_and_consistent(name: str, data: st.DataObject) -> None:
    order = ORDERS[name]
    a, b, c = (order(data.draw(TEXTS[name])) for _ in range(3))
    assert a is not None
    assert b is not None
    assert c is not None
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a < b) == (b > a)
    if a <= b <= c:
        assert a <= c


@given(st.text(max_size=40))
def test_no_text_breaks_an_order(text: str) -> None:
    for order in ORDERS.values():
        order(text)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not installed")
@settings(max_examples=150, deadline=None)
@given(POLICY, POLICY)
def test_debian_order_is_that_of_dpkg(a: str, b: str) -> None:
    ka, kb = debian(a), debian(b)
    assert ka is not None
    assert kb is not None
    operator = "lt" if ka < kb else "eq" if ka == kb else "gt"
    assert subprocess.run(["dpkg", "--compare-versions", a, operator, b], check=False).returncode == 0, (a, operator, b)
