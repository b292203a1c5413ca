"""Every criterion that a probe can settle on a host is served by a check, or listed with the reason why not."""

from assay.checks.registry import checks
from assay.profiles import Profiles
from assay.profiles.criteria import Criteria, Unserved

CATALOGUE = {c.id: c for c in Profiles().get(Criteria).criteria}
UNSERVED = [
    c for entry in Profiles().get(Unserved).unserved if entry.environment == "standalone" for c in entry.criteria
]
SERVED = {criterion for check in checks().values() for criterion in check.criteria}


def test_checks_name_criteria_that_exist() -> None:
    assert {(c.id, x) for c in checks().values() for x in c.criteria if x not in CATALOGUE} == set()


def test_every_standalone_probe_criterion_is_served_or_listed() -> None:
    ours = {c.id for c in CATALOGUE.values() if c.evidence == "probe" and "standalone" in c.environments}
    assert len(ours) == 67
    assert sorted(ours - SERVED - set(UNSERVED)) == []


def test_no_criterion_is_both_served_and_listed() -> None:
    assert sorted(SERVED & set(UNSERVED)) == []
    assert len(UNSERVED) == len(set(UNSERVED))
