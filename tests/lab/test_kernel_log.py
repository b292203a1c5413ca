"""The kernel log of a node, without its mount."""

import pytest

from assay.lab.kmsg import KEPT, Records, escaped, split_priority


def test_records_are_numbered_and_carry_priority_and_time() -> None:
    records = Records()
    records.add(b"<3>NVRM: Xid", kernel=True)
    records.add(b"plain\n")
    first, second = records.lines
    assert first.startswith(b"3,0,")
    assert first.endswith(b",-;NVRM: Xid\n")
    assert second.startswith(b"12,1,")
    assert records.size == len(first) + len(second)


@pytest.mark.parametrize(("data", "priority"), [(b"<3>x", 11), (b"<30>x", 30), (b"x", 12), (b"<a>x", 12), (b"<3", 12)])
def test_user_space_never_speaks_as_the_kernel(data: bytes, priority: int) -> None:
    records = Records()
    records.add(data)
    assert records.lines[0].startswith(b"%d," % priority)


def test_old_records_go_and_numbers_stay() -> None:
    records = Records()
    records.add(b"\n".join(b"line %d" % n for n in range(KEPT + 10)))
    assert (records.first, records.end) == (10, KEPT + 10)
    assert b";line 10\n" in (records.at(10) or b"")
    assert records.at(KEPT + 10) is None


def test_a_boot_empties_the_log() -> None:
    records = Records()
    records.add(b"before")
    records.clear(0.0)
    assert (records.lines, records.end, records.size) == ([], 0, 0)


def test_what_is_not_printable_is_escaped() -> None:
    assert escaped(b"a\tb\\\xff") == b"a\\x09b\\x5c\\xff"
    assert split_priority(b"<6>a<b>") == (6, b"a<b>")
