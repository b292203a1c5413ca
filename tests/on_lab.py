"""A real lab for tests: started, skipped where it cannot run unless ASSAY_REQUIRE_LAB=1, and looked at."""

import os
import time
from collections.abc import Callable

import pytest

from assay.errors import AssayError
from assay.lab import doctor, lifecycle
from assay.lab.control import Lab
from assay.lab.report import slurm_states
from assay.lab.spec import Spec

REQUIRED = os.environ.get("ASSAY_REQUIRE_LAB") == "1"


def refuse(reason: str) -> None:
    """Skip, or fail where the lab must run."""
    if REQUIRED:
        pytest.fail(f"ASSAY_REQUIRE_LAB=1, but the lab cannot run: {reason}")
    pytest.skip(f"the lab cannot run here: {reason}")


def started(spec: Spec) -> Lab:
    """A lab that is up."""
    bad = [line.what for line in doctor.lines() if line.state == "bad"]
    if bad:
        refuse("; ".join(bad))
    try:
        return lifecycle.up(spec, lambda _: None)
    except AssayError as e:
        if "cannot be had" in e.message:
            refuse(e.message)
        raise


def sh(lab: Lab, host: str, script: str, user: str = "root") -> str:
    """What a script says that must end well."""
    done = lab.run(host, ["bash", "-c", script], user=user)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout.strip()


def until(met: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.1)


def state(lab: Lab, node: str) -> str:
    """What Slurm says of a node."""
    return slurm_states(lab)[node][0]


def reason(lab: Lab, node: str) -> str:
    """Why Slurm has it drained or down."""
    return slurm_states(lab)[node][1]
