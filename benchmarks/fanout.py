"""The collector on all nodes of a lab, against a bare shell script of the same commands and files by the same srun.

Starts a lab of its own. Bar: at most 1.3 times the script. Both print to the login node what they read.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from assay.facts.source import sources
from assay.lab import lifecycle
from assay.lab.spec import Spec
from assay.launch.answer import NodeDone
from assay.launch.config import lab
from assay.launch.errand import Errand
from assay.launch.slurm import run
from assay.launch.slurm_nodes import aliases, choose
from assay.launch.slurm_script import Group, srun
from assay.launch.survey import survey
from assay.model import Env, Exec, Files, Links, Probe, RawFact, Stat, Step, Target, Which

BAR = 1.3
NAME = "fanout"


def script(probes: tuple[Probe, ...]) -> str:
    """What a person would write to read the same things: commands and cats, one after the other."""
    return "\n".join(line for probe in probes for step in probe.steps for line in lines(step)) + "\n"


def lines(step: Step) -> Iterator[str]:
    if isinstance(step, Exec):
        argv = " ".join('"$f"' if word == "{}" else shlex.quote(word) for word in step.argv)
        command = f"command -v {shlex.quote(step.argv[0])} >/dev/null && timeout {step.timeout_s:g} {argv} </dev/null"
        yield f"for f in {' '.join(step.each)}; do [ -e $f ] && {command}; done" if step.each else command
    elif isinstance(step, Files):
        yield f"head -qc {step.cap} {' '.join(step.paths)}"
    elif isinstance(step, Links):
        yield f"readlink {' '.join(step.paths)}"
    elif isinstance(step, Stat):
        yield f"stat -c '%n %F %a %u %g' {' '.join(step.paths)}"
    elif isinstance(step, Env):
        yield "env"
    elif isinstance(step, Which):
        yield f"command -v {' '.join(step.names)}"


def bare(target: Target, group: Group, text: str) -> int:
    """Bytes that the script printed on all nodes together."""
    argv = [word for word in srun(target, group, "bare", 30) if not word.startswith("-") or word.startswith("--")]
    argv = [*argv[: argv.index("python3")], "sh", "-s"]
    done = subprocess.run(
        [*target.via, *argv], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return len(done.stdout)


def collected(errand: Errand, group: Group) -> int:
    """Answers of all nodes together; an end of this program where one did not answer."""
    answers = list(run(errand, [group]))
    if gap := next((a.missing for a in answers if isinstance(a, NodeDone) and a.missing), None):
        sys.exit(gap.reason)
    return sum(isinstance(answer, RawFact) for answer in answers)


def timed(what: Callable[[], int]) -> tuple[float, int]:
    begin = time.perf_counter()
    amount = what()
    return time.perf_counter() - begin, amount


def said(name: str, times: list[float], amount: str) -> None:
    spread = f"min {min(times):.2f}, max {max(times):.2f}, n={len(times)}"
    print(f"{name:<10} {statistics.median(times):6.2f} s ({spread})  {amount}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=64)
    arguments.add_argument("--tries", type=int, default=5)
    chosen = arguments.parse_args()
    lifecycle.up(Spec(name=NAME, nodes=chosen.nodes), lambda _: None)
    try:
        ratio = compare(lab(NAME), chosen.tries)
    finally:
        lifecycle.down(NAME)
    print(f"ratio {ratio:.2f}, bar {BAR}")
    sys.exit(ratio > BAR)


def compare(target: Target, tries: int) -> float:
    seen = survey(target, ())
    (group,) = choose(target, seen.cluster, wait=False).groups
    probes = tuple(s.probe for s in sources().values() if s.probe.place == "node")
    errand = Errand(target, probes, aliases(seen.cluster.nodes))
    text = script(probes)
    print(f"{len(group.nodes)} nodes, {len(probes)} probes, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    script_s, collector_s = [], []
    for _ in range(tries):  # by turns, so that a change of load meets both
        took_s, size = timed(lambda: bare(target, group, text))
        script_s.append(took_s)
        took_s, answers = timed(lambda: collected(errand, group))
        collector_s.append(took_s)
        if answers != len(group.nodes) * len(probes):
            sys.exit(f"only {answers} answers")
    said("script", script_s, f"{size / 1e6:.1f} MB")
    said("collector", collector_s, f"{answers} answers")
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    return statistics.median(collector_s) / statistics.median(script_s)


if __name__ == "__main__":
    main()
