"""Every file under tests/facts/<probe>/ is one recorded answer and the fact a right parser makes of it.

{"raw": {step: read or "text"}, "fact": {subset of the fact}} or {"raw": ..., "missing": kind}
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts.source import parse, sources
from assay.model import Exec, Missing, Probe, RawFact, Read

HERE = Path(__file__).parent / "facts"
CASES = sorted(HERE.glob("*/*.json"))


def raw_fact(probe: Probe, answers: dict[str, Any], node: str = "n1") -> RawFact:
    """Answers by step key: a text (stdout, or the content of the step's first path), or a read in full."""
    steps = {step.key: step for step in probe.steps}
    reads = []
    for key, answer in answers.items():
        step = steps[key]
        argv = step.argv if isinstance(step, Exec) else ()
        for one in answer if isinstance(answer, list) else [answer]:
            if isinstance(one, str):
                one = {"out": one, "rc": 0} if argv else {"files": {step.paths[0]: one}}  # noqa: PLW2901
            reads.append(msgspec.convert({"key": key, "argv": argv, **one}, Read))
    return RawFact(probe.name, node, tuple(reads))


def contains(got: Any, want: Any) -> bool:
    """True when every key of `want` is in `got` with an equal value; floats within 1e-9 relative."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and contains(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list | tuple) and len(got) == len(want) and all(map(contains, got, want))
    if isinstance(want, float):
        return got == pytest.approx(want)
    return bool(got == want)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recorded_answer(path: Path) -> None:
    case = json.loads(path.read_text())
    known = sources()[path.parent.name]
    fact = parse(known, raw_fact(known.probe, case["raw"]))
    if "missing" in case:
        assert isinstance(fact, Missing), fact
        assert fact.kind == case["missing"], fact
    else:
        got = msgspec.to_builtins(fact)
        assert contains(got, case["fact"]), json.dumps(got, indent=1)


def test_every_source_has_recorded_answers() -> None:
    assert {p.parent.name for p in CASES} == set(sources())
