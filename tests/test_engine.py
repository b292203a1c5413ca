"""What holds for every rule, whatever the facts: a gap is never a pass, and judging again says the same."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from assay.audit.judgement import coverage, exit_code
from assay.checks.alike import NODES_NAMED, by_value, told
from assay.checks.engine import NodeFacts, judge
from assay.checks.registry import Check, When, checks
from assay.facts.source import sources
from assay.model import Fact, Finding, Missing, MissingKind, Status
from assay.profiles import Profiles
from judgements import judgement
from strange import strange

KNOWN = checks()
FACTS = sorted({s.fact for s in sources().values()}, key=lambda f: f.__name__)
KINDS: list[MissingKind] = [
    "absent", "denied", "not-applicable", "not-asked", "unreachable", "timed-out", "unparsable", "failed",
]  # fmt: skip
WHEN = When(1796083200.0)
PROFILES = Profiles()


def run(nodes: list[NodeFacts], rules: list[Check] | None = None) -> list[Finding]:
    return judge(nodes, rules or list(KNOWN.values()), PROFILES, WHEN)


@pytest.mark.parametrize("kind", KINDS)
def test_no_check_passes_when_everything_is_missing(kind: MissingKind) -> None:
    nothing: dict[type[Fact], Fact | Missing] = {fact: Missing(kind, "not there") for fact in FACTS}
    findings = run([NodeFacts("n1", nothing), NodeFacts("n2", nothing)])
    assert {f.check for f in findings} == set(KNOWN)
    assert [f.check for f in findings if f.status in (Status.PASS, Status.ERROR)] == []


@pytest.mark.parametrize("kind", ["unreachable", "timed-out", "unparsable", "failed"])
def test_what_went_wrong_is_unknown_never_skipped(kind: MissingKind) -> None:
    nothing: dict[type[Fact], Fact | Missing] = {fact: Missing(kind, "not there") for fact in FACTS}
    per_node = [c for c in KNOWN.values() if all(p.kind != "optional" for p in c.parameters) and c.needs]
    assert {f.status for f in run([NodeFacts("n1", nothing)], per_node)} == {Status.UNKNOWN}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_missing_fact_never_makes_a_pass(data: st.DataObject) -> None:
    """Take any mixture of empty and missing facts; a rule that must read a missing fact does not pass."""
    facts: dict[type[Fact], Fact | Missing] = {}
    for fact in FACTS:
        kind = data.draw(st.sampled_from([None, *KINDS]))
        facts[fact] = Missing(kind, "drawn") if kind else fact()
    for finding in run([NodeFacts("n1", facts)]):
        needed = [p.type for p in KNOWN[finding.check].parameters if p.kind in ("fact", "fleet")]
        if any(isinstance(facts[t], Missing) for t in needed):
            assert finding.status not in (Status.PASS, Status.ERROR), finding


# Rules that pass because they find nothing forbidden, because something is there whatever it is called, or because
# nodes are alike: for them a word nobody knows is as good as any.
ANY_WORD_WILL_DO = frozenset({
    "amd.partitions.alike", "amd.rocm.uniform", "containers.docker.api", "containers.gpu.registered",
    "cuda.nvcc.path", "health.automated", "image.container-stack", "imex.version.uniform", "kernel.log.kept",
    "net.nccl.debug", "net.nccl.disabled", "net.nccl.forced", "net.rdma.firmware", "net.rdma.firmware.uniform",
    "nvidia.driver.uniform", "nvidia.gpu.count", "nvidia.gpu.count-uniform", "nvidia.inforom", "nvidia.vbios.uniform",
    "nvlink.errors", "os.release.uniform", "slurm.accounting", "slurm.accounts", "slurm.apptainer", "slurm.enroot",
    "slurm.node.name", "slurm.pyxis.nodes", "slurm.ssh-between", "slurm.topology.nvlink", "slurm.topology.whole",
    "slurm.version.uniform", "sockets.control", "sockets.observability", "ssh.algorithms",
    "ssh.empty-passwords", "ssh.root-login", "storage.object", "sudo.not-for-everyone", "users.identity-provider",
    "users.managed", "users.root-equivalent-groups", "users.same-ids", "virt.nested",
})  # fmt: skip


@settings(max_examples=5, deadline=None)
@given(st.from_regex(r"zz[a-z]{3,12}", fullmatch=True))
def test_a_word_nobody_knows_is_not_a_pass(word: str) -> None:
    """Every text of every fact is a made-up word, on two nodes alike: only the rules named above may pass."""
    facts: dict[type[Fact], Fact | Missing] = {fact: strange(fact, word) for fact in FACTS}
    findings = run([NodeFacts("a", facts), NodeFacts("b", facts)])
    assert {f.check for f in findings if f.status is Status.PASS} - ANY_WORD_WILL_DO == set()
    assert set(KNOWN) >= ANY_WORD_WILL_DO


@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_of_nothing_beside_a_gap_is_no_verdict_on_the_fleet(kind: MissingKind) -> None:
    """One node answered with an empty fact, the other not at all: there is nothing that could be alike."""
    fleet = [c for c in KNOWN.values() if c.scope == "fleet"]
    gone: dict[type[Fact], Fact | Missing] = {fact: Missing(kind, "not there") for fact in FACTS}
    findings = run([NodeFacts("a", {fact: fact() for fact in FACTS}), NodeFacts("b", gone)], fleet)
    assert [f.check for f in findings if f.status is Status.PASS] == []


@given(
    st.dictionaries(
        st.text(st.characters(categories=["L"]), min_size=1), st.sampled_from("xyz"), min_size=2, max_size=30
    )
)
def test_odd_nodes_are_named(values: dict[str, str]) -> None:
    """All of a group of at most eight nodes are named, unless it is the usual one."""
    groups = by_value(values)
    assert {node: value for value, nodes in groups.items() for node in nodes} == values
    usual, *odd = groups
    assert all(len(groups[usual]) >= len(groups[value]) for value in odd)
    words = told(groups)
    assert all(f"{value} on {', '.join(groups[value])}" in words for value in odd if len(groups[value]) <= NODES_NAMED)


def test_an_empty_fact_breaks_no_rule() -> None:
    """Every field unsaid: rules may doubt, and must not break."""
    findings = run([NodeFacts("n1", {fact: fact() for fact in FACTS})])
    assert [(f.check, f.message) for f in findings if f.status is Status.ERROR] == []


def test_judging_again_says_the_same_in_any_order() -> None:
    facts = {fact: fact() for fact in FACTS}
    gone: dict[type[Fact], Fact | Missing] = {fact: Missing("timed-out", "t") for fact in FACTS}
    nodes = [NodeFacts("a", facts), NodeFacts("b", gone), NodeFacts("c", facts)]
    once, again = run(nodes), run(nodes)
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    turned = run(nodes, list(reversed(KNOWN.values())))
    assert [(f.check, f.status, f.message) for f in turned] == [(f.check, f.status, f.message) for f in once]


def test_a_node_without_an_answer_stays_visible_in_fleet_checks() -> None:
    rule = KNOWN["os.release.uniform"]
    there, fact = sources()["os.release"].fact(), sources()["os.release"].fact
    (finding,) = run(
        [NodeFacts("a", {fact: there}), NodeFacts("b", {fact: Missing("unreachable", "b: no route")})], [rule]
    )
    assert (finding.seen_nodes, finding.expected_nodes, finding.subject) == (1, 2, "a,b")


def test_coverage_counts_every_question_once() -> None:
    findings = run([NodeFacts("n1", {fact: Missing("denied", "no") for fact in FACTS})])
    cover = coverage(findings)
    assert sum(c.total + c.not_applicable for c in cover.values()) == len(findings)
    assert all(c.judged + c.unknown + c.denied == c.total for c in cover.values())


@pytest.mark.parametrize(
    ("counts", "unproven", "fail_on", "code"),
    [
        ({"pass": 3}, (), "fail", 0),
        ({"warn": 1}, (), "fail", 0),
        ({"warn": 1}, (), "warn", 1),
        ({"fail": 1}, ("n1: silent",), "fail", 1),
        ({"fail": 1}, (), "never", 0),
        ({"pass": 1}, ("n1: silent",), "fail", 3),
        ({"error": 1}, (), "fail", 2),
    ],
)
def test_exit_codes(counts: dict[str, int], unproven: tuple[str, ...], fail_on: str, code: int) -> None:
    full = {s.value: 0 for s in Status} | counts
    assert exit_code(judgement(counts=full, unproven=unproven), fail_on) == code
