"""1000 hosts of the examples, parsed, through all checks; and raw answers to facts. --profile names the slowest."""

import argparse
import cProfile
import gc
import os
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from assay.audit.judge import facts_of
from assay.checks.engine import NodeFacts, judge
from assay.checks.registry import When, checks
from assay.facts.source import parse, sources
from assay.model import Missing, RawFact
from assay.profiles import Profiles
from assay.run.archive import unpack

HOSTS, TRIES = 1000, 5
JUDGE_BAR_S, FACTS_BAR = 2.0, 100.0
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
Answers = list[tuple[str, RawFact]]


def recorded() -> tuple[float, dict[str, Answers]]:
    """When the examples were taken, and the raw answers of all their nodes."""
    nodes: dict[str, Answers] = {}
    at = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for packed in sorted(EXAMPLES.glob("*.assay")):
            run = unpack(packed, Path(directory) / packed.stem)
            at = run.info.started
            nodes.update(run.nodes())
    return at, nodes


def renamed(name: str, node: NodeFacts) -> NodeFacts:
    """The same facts as another node, each one new so that nothing a fact remembers is shared."""
    copies = {kind: fact if isinstance(fact, Missing) else replace(fact) for kind, fact in node.facts.items()}
    return NodeFacts(name, copies, node.evidence)


def timed(work: Callable[[], object]) -> list[float]:
    """Seconds of each try."""
    took = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return took


def spread(took: list[float], unit: str = "s") -> str:
    return f"median {statistics.median(took):.2f} {unit} (min {min(took):.2f}, max {max(took):.2f}, n={len(took)})"


def slowest(nodes: dict[str, Answers], fleet: list[NodeFacts], at: float) -> None:
    """The five slowest parsers and rules by their own time and what they call."""
    known, rules = sources(), checks()
    costs: dict[str, list[float]] = {name: [] for name in known}
    for answers in nodes.values():
        for _, raw in answers:
            if raw.probe in known:
                begin = time.perf_counter()
                parse(known[raw.probe], raw)
                costs[raw.probe].append(1000 * (time.perf_counter() - begin))
    worst = sorted(costs.items(), key=lambda item: -max(item[1], default=0))[:5]
    for name, ms in worst:
        print(f"  parser {name}: worst host {max(ms):.2f} ms, median {statistics.median(ms):.2f} ms")
    of_rule = {rule.rule.__code__: name for name, rule in rules.items()}
    profile = cProfile.Profile()
    gc.disable()  # a collection would be booked on whichever rule it met
    profile.runcall(judge, fleet, rules.values(), Profiles(), When(at))
    gc.enable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    places = {(code.co_filename, code.co_firstlineno, code.co_name): name for code, name in of_rule.items()}
    found = sorted(((row[3], row[0], places[key]) for key, row in stats.items() if key in places), reverse=True)[:5]
    for seconds, calls, name in found:
        print(f"  check {name}: {1e6 * seconds / calls:.0f} us a call under the profiler, {calls} calls")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="name the slowest parsers and checks")
    asked = parser.parse_args()
    at, nodes = recorded()
    known, rules, profiles = sources(), list(checks().values()), Profiles()
    facts = [facts_of(name, answers, known) for name, answers in nodes.items()]
    fleet = [renamed(f"n{i:04}", facts[i % len(facts)]) for i in range(HOSTS)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {len(nodes)} recorded nodes, {len(rules)} checks")
    took = timed(lambda: judge(fleet, rules, profiles, When(at)))
    print(f"judge {HOSTS} hosts: {spread(took)}; bar {JUDGE_BAR_S:g} s: {_said(statistics.median(took) < JUDGE_BAR_S)}")
    took = timed(lambda: [facts_of(name, answers, known) for name, answers in nodes.items()])
    rates = [len(nodes) / seconds for seconds in took]
    held = statistics.median(rates) >= FACTS_BAR
    print(f"raw to facts: {spread(rates, 'hosts/s')}; bar {FACTS_BAR:g} hosts/s: {_said(held)}")
    if asked.profile:
        slowest(nodes, fleet, at)


def _said(held: bool) -> str:  # noqa: FBT001 - one word
    return "held" if held else "MISSED"


if __name__ == "__main__":
    main()
