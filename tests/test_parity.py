"""Every criterion that a probe can settle in an environment is served by a check, or listed with the reason why not."""

import pytest

from assay.checks.registry import checks
from assay.profiles import Profiles
from assay.profiles.criteria import Criteria, Unserved

CATALOGUE = {c.id: c for c in Profiles().get(Criteria).criteria}
SERVED = {criterion for check in checks().values() for criterion in check.criteria}
COUNTS = {"standalone": 67, "slurm": 131}


def listed(environment: str) -> list[str]:
    entries = Profiles().get(Unserved).unserved
    return [c for entry in entries if entry.environment == environment for c in entry.criteria]


def test_checks_name_criteria_that_exist() -> None:
    assert {(c.id, x) for c in checks().values() for x in c.criteria if x not in CATALOGUE} == set()


@pytest.mark.parametrize("environment", COUNTS)
def test_every_probe_criterion_is_served_or_listed(environment: str) -> None:
    ours = {c.id for c in CATALOGUE.values() if c.evidence == "probe" and environment in c.environments}
    assert len(ours) == COUNTS[environment]
    assert sorted(ours - SERVED - set(listed(environment))) == []


@pytest.mark.parametrize("environment", COUNTS)
def test_no_criterion_is_both_served_and_listed(environment: str) -> None:
    assert sorted(SERVED & set(listed(environment))) == []
    assert len(listed(environment)) == len(set(listed(environment)))


@pytest.mark.parametrize("environment", COUNTS)
def test_what_is_listed_is_asked_for_there(environment: str) -> None:
    assert [c for c in listed(environment) if environment not in CATALOGUE[c].environments] == []
