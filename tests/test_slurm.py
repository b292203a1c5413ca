"""Recorded outputs of Slurm 20.11 to 25.11 (tests/slurm/<thing>/<case>.json) and the values the readers make of them.

`expect`: path -> value; a number for a list is its length, a dictionary is a subset; {"error": words} = ValueError.
"""

import json
import pathlib
from typing import Any

import msgspec
import pytest

from assay.facts.formats import formats

CASES = sorted((pathlib.Path(__file__).parent / "slurm").glob("*/*.json"))
FORMATS = formats("assay.slurm")


def at(found: Any, path: str) -> Any:
    """Follow `nodes.0.state`; a step may itself contain dots or blanks when a dictionary holds it whole."""
    while path:
        if isinstance(found, dict) and path in found:
            return found[path]
        step, _, path = path.partition(".")
        found = found[int(step)] if isinstance(found, list) else found.get(step)
    return found


def same(got: Any, want: Any) -> bool:
    if isinstance(want, dict) and isinstance(got, dict):
        return all(same(got.get(key), value) for key, value in want.items())
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(got, list) and isinstance(want, int):
        return len(got) == want
    return bool(got == want)


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recorded(path: pathlib.Path) -> None:
    case = json.loads(path.read_text())
    reader, text = FORMATS[case["format"]], "\n".join(case["text"])
    if "error" in case["expect"]:
        with pytest.raises(ValueError, match=case["expect"]["error"]):
            reader(text)
        return
    found = json.loads(msgspec.json.encode(reader(text)))
    for key, want in case["expect"].items():
        assert same(at(found, key), want), (key, at(found, key), want)


def test_every_reader_has_a_case() -> None:
    things = {FORMATS[json.loads(p.read_text())["format"]] for p in CASES}
    assert {key for key, reader in FORMATS.items() if reader not in things} <= {
        "scontrol ping",
        "scontrol show licenses --json",
        "sdiag --json",
    }
