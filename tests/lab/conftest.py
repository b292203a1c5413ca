"""A real lab, shared by the tests of one process."""

import os
from collections.abc import Iterator

import pytest

from assay.lab import lifecycle
from assay.lab.control import Lab
from assay.lab.spec import Spec
from on_lab import started


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
