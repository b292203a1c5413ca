"""Which verb can find what each scenario shows, and what an audit finds there beyond a healthy lab."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

BASELINE = "healthy"


class Expected(NamedTuple):
    """`verbs` can find it; `findings` = check ids, on which nodes, of an audit by root over the whole lab."""

    verbs: tuple[str, ...]
    findings: Mapping[str, tuple[str, ...]] = MappingProxyType({})


EXPECTED: dict[str, Expected] = {
    "healthy": Expected(()),
    "healthy-provider": Expected(()),
    "no-health-checks": Expected(("inject", "audit")),
    "circular-gate": Expected(("inject",)),
    "diag-timeout-drains-healthy": Expected(("inject",)),
    "output-nobody-reads": Expected(("inject",)),
    "wrong-node-name-loop": Expected(("inject",)),
    "bad-spare": Expected(("inject", "audit")),
    "stale-active-check": Expected(("audit",)),
    "softlockup-storage-drain": Expected(("inject", "audit")),
    "gpu-count-7": Expected(("audit",)),
    "fabric-cut": Expected(("audit",)),
    "straggler": Expected(("bench",)),
    "local-scratch-posing-as-shared": Expected(("audit",)),
    "nvl72-3-of-18": Expected(("audit", "inject")),
    "cpu-default-1": Expected(("audit",)),
    "realmemory-2048": Expected(("audit",)),
    "prolog-hangs": Expected(("audit",)),
    "flat-topology": Expected(("audit",)),
    "no-srun-for-users": Expected(("audit",)),
}
