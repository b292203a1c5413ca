"""The short name by which a replaced machine is told from the old one."""

from assay.facts.identity import identity, usable


def test_same_machine_same_identity() -> None:
    assert identity("m1", "S1", ["GPU-a", "GPU-b"]) == identity("M1\n", " s1 ", ["GPU-b", "GPU-a"])
    assert identity("m1", None, ["GPU-a", "GPU-b"]) == identity("m1", None, ["GPU-b", "GPU-a", "GPU-a"])


def test_lost_gpu_is_no_replacement_where_a_serial_number_is_known() -> None:
    assert identity("m1", "S1", ["GPU-a", "GPU-b"]) == identity("m1", "S1", ["GPU-a"])


def test_other_hardware_or_other_install_is_another_node() -> None:
    known = identity("m1", "S1", [])
    assert known not in (identity("m1", "S2", []), identity("m2", "S1", []), identity("m1", None, ["GPU-a"]))
    assert identity("m1", None, ["GPU-a"]) != identity("m1", None, ["GPU-c"])


def test_nothing_known_is_no_identity() -> None:
    assert identity(None, None, []) == ""
    assert identity("", "", ()) == ""


def test_short_and_the_same_in_every_version() -> None:
    assert identity("m1", "S1", []) == "6d3eea3a8cb4"


def test_placeholders_of_firmware_are_no_names() -> None:
    assert [usable(t) for t in ("Default string", "0000-0000", "None ", " X1 ")] == [None, None, None, "X1"]
