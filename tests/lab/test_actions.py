"""Programs of the emulated hardware that test, reset and speak."""

from typing import Literal

import pytest

from assay.facts.dcgm_diag import diag_json, diag_text
from assay.lab.actions import REBOOT, RESET, act, healed
from assay.lab.hardware.state import Fault, State
from assay.lab.spec import Spec

SPEC = Spec()


def ill(fault: Fault) -> State:
    return State(gpus={3: frozenset({fault})})


@pytest.mark.parametrize(
    ("level", "fault", "overall"),
    [
        ("1", None, "pass"), ("3", None, "pass"), ("1", "ecc", "pass"), ("2", "ecc", "fail"),
        ("2", "remap-pending", "fail"), ("2", "hot", "pass"), ("3", "throttle", "fail"), ("3", "off-bus", "pass"),
    ],
)  # fmt: skip
def test_a_diag_finds_what_its_level_can(level: str, fault: Fault | None, overall: Literal["pass", "fail"]) -> None:
    state = ill(fault) if fault else State()
    text, as_json = (
        act(["/usr/bin/dcgmi", "diag", "-r", level, *more], SPEC, state, root=False) for more in ((), ("-j",))
    )
    assert text
    assert as_json
    assert (text.output.rc == 0) == (as_json.output.rc == 0) == (overall == "pass")
    assert diag_text(text.output.out).overall == diag_json(as_json.output.out).overall == overall
    assert diag_json(as_json.output.out).gpus == (7 if fault == "off-bus" else 8)


def test_a_diag_of_a_lost_gpu_does_not_run() -> None:
    done = act(["dcgmi", "diag", "-r", "1"], SPEC, ill("lost"), root=True)
    assert done
    assert (done.output.rc, "GPU 3 is lost" in done.output.out) == (226, True)


@pytest.mark.parametrize(
    ("fault", "by_reset", "by_reboot"),
    [("ecc", True, True), ("remap-pending", True, True), ("lost", False, True), ("off-bus", False, False)],
)
def test_what_a_reset_and_a_reboot_cure(fault: Fault, by_reset: bool, by_reboot: bool) -> None:  # noqa: FBT001
    assert (healed(ill(fault), RESET) == State()) == by_reset
    assert (healed(ill(fault), REBOOT) == State()) == by_reboot
    done = act(["nvidia-smi", "--gpu-reset", "-i", "3"], SPEC, ill(fault), root=True)
    assert done
    assert (done.output.rc == 0 and done.state == State()) == by_reset


def test_only_root_resets_and_speaks_as_the_kernel() -> None:
    for argv in (["nvidia-smi", "--gpu-reset"], ["/usr/lib/assay-lab/kernel-log", "<3>x"]):
        refused = act(argv, SPEC, State(), root=False)
        assert refused
        assert refused.output.rc
        assert not refused.record
        assert refused.state is None
    said = act(["kernel-log", "<3>x"], SPEC, State(), root=True)
    assert said
    assert said.record == "<3>x"
    assert act(["nvidia-smi", "-L"], SPEC, State(), root=True) is None
