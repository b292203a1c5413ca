"""A real lab, shared by the tests of one process; skipped where it cannot run unless ASSAY_REQUIRE_LAB=1."""

import os
from collections.abc import Iterator

import pytest

from assay.errors import AssayError
from assay.lab import doctor, lifecycle
from assay.lab.control import Lab
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


@pytest.fixture(scope="session")
def own_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test process uses."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    return f"test-{worker}-{os.getpid()}"


@pytest.fixture(scope="session")
def lab(own_name: str) -> Iterator[Lab]:
    """Four nodes and a spare. Tests leave it as they found it."""
    up = started(Spec(name=own_name))
    try:
        yield up
    finally:
        lifecycle.down(own_name)
