"""What an audit would do, resolved before it does it. The plan's id names exactly this."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct

from assay.audit.select import Selection, probes, selected
from assay.checks.registry import checks
from assay.facts.source import sources
from assay.launch.nodes import expand
from assay.model import Probe, Target
from assay.profiles import Profiles
from assay.profiles.method import Method


class Plan(Struct, frozen=True):
    """Target, nodes and probes of one audit. `id` = hash over all of it and the method's version."""

    id: str
    target: Target
    nodes: tuple[str, ...]
    probes: tuple[Probe, ...]
    checks: tuple[str, ...]
    method: str


def make_plan(target: Target, wanted: Selection, profiles: Profiles) -> Plan:
    """The plan of an audit of `target`; touches nothing."""
    method = profiles.get(Method)
    rules = selected(checks(), wanted, method.without)
    reads = tuple(probes(rules, sources(), everything=wanted.everything))
    nodes = tuple(expand(target.nodes)) if target.nodes else (target.name or "local",)
    draft = Plan("", target, nodes, reads, tuple(r.id for r in rules), method.version)
    digest = hashlib.sha256(msgspec.json.encode(draft)).hexdigest()[:12]
    return msgspec.structs.replace(draft, id=digest)
