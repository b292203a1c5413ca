"""Programs of the emulated hardware that do something: tests under load, resets, and the kernel's own voice. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.lab.hardware.layout import devices, of
from assay.lab.hardware.state import Fault, State
from assay.lab.software.image import Image
from assay.lab.spec import Spec
from assay.lab.virtual import Output

RESET: frozenset[Fault] = frozenset({"ecc", "remap-pending"})
REBOOT: frozenset[Fault] = RESET | {"lost"}
_FAILED, _NOT_EMULATED = 226, 64
# level -> tests that come with it, and the faults that fail them
_TESTS: tuple[tuple[int, str, str, frozenset[Fault]], ...] = (
    (1, "Deployment", "software", frozenset()),
    (2, "Hardware", "memory", frozenset({"ecc", "remap-pending"})),
    (2, "Integration", "pcie", frozenset()),
    (3, "Hardware", "diagnostic", frozenset({"ecc"})),
    (3, "Stress", "targeted_power", frozenset({"hot", "throttle"})),
    (3, "Stress", "targeted_stress", frozenset({"hot", "throttle"})),
)


class Acted(Struct, frozen=True):
    """What a program prints, and what it changed: the state, or the kernel log."""

    output: Output
    state: State | None = None
    record: str = ""


def healed(state: State, cures: frozenset[Fault]) -> State:
    """The state after a reset or reboot; what has left the bus stays away."""
    gpus = {index: left for index, faults in state.gpus.items() if (left := faults - cures)}
    return msgspec.structs.replace(state, gpus=gpus)


def act(argv: Sequence[str], spec: Spec, state: State, *, root: bool) -> Acted | None:
    """What a call of an emulated program does; None for one that only shows."""
    name = argv[0].rpartition("/")[2]
    if name == "kernel-log" and len(argv) == 2:
        return Acted(Output(), record=argv[1]) if root else Acted(Output(err="kernel-log: not root\n", rc=1))
    if name == "dcgmi" and argv[1:2] == ["diag"]:
        return _diag(argv[2:], spec, state)
    if name == "nvidia-smi" and any(word in {"--gpu-reset", "-r"} for word in argv[1:]):
        return _reset(argv[1:], spec, state, root=root)
    return None


def _value(words: Sequence[str], *names: str) -> str:
    """What follows an option: "-i 3" or "--id=3"."""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in names:
            return value if equals else after
    return ""


def _reset(words: Sequence[str], spec: Spec, state: State, *, root: bool) -> Acted:
    gpus = of("gpu", devices(spec.gpu_shape.machine, state))
    wanted = _value(words, "-i", "--id")
    chosen = [gpu for gpu in gpus if not wanted or str(gpu.index) in wanted.split(",")]
    if not root:
        return Acted(Output("Insufficient permissions. Are you root?\n", rc=4))
    if not chosen:
        return Acted(Output("No devices were found\n", rc=6))
    text, gone = "", False
    faults = dict(state.gpus)
    for gpu in chosen:
        if state.has(gpu.index, "lost"):
            text += f"GPU {gpu.address}: Unknown Error\n"
            gone = True
            continue
        text += f"GPU {gpu.address} was successfully reset.\n"
        faults[gpu.index] = faults.get(gpu.index, frozenset()) - RESET
    after = msgspec.structs.replace(state, gpus={index: left for index, left in faults.items() if left})
    return Acted(Output(text if gone else f"{text}All done.\n", rc=15 if gone else 0), after)


def _diag(words: Sequence[str], spec: Spec, state: State) -> Acted:
    level = _value(words, "-r", "--run")
    if level not in {"1", "2", "3"}:
        return Acted(Output(err=f"dcgmi: not emulated: diag {' '.join(words)}\n", rc=_NOT_EMULATED))
    if lost := [index for index, faults in sorted(state.gpus.items()) if "lost" in faults]:
        return Acted(Output(f"Error: unable to run diagnostic: GPU {lost[0]} is lost.\n", rc=_FAILED))
    indices = [gpu.index for gpu in of("gpu", devices(spec.gpu_shape.machine, state))]
    tests = [
        (category, name, {index: "Fail" if state.gpus.get(index, frozenset()) & bad else "Pass" for index in indices})
        for from_level, category, name, bad in _TESTS
        if from_level <= int(level)
    ]
    failed = any("Fail" in results.values() for _, _, results in tests)
    as_json = "-j" in words or "--json" in words
    text = _json(tests, spec, state) if as_json else _table(tests, spec, state, len(indices))
    return Acted(Output(text, rc=_FAILED if failed else 0))


_Tests = list[tuple[str, str, dict[int, str]]]


def _summary(results: dict[int, str]) -> str:
    return "Fail" if "Fail" in results.values() else "Pass"


def _json(tests: _Tests, spec: Spec, state: State) -> str:
    gpu = spec.gpu_shape.machine.gpu
    device = gpu.device if gpu else ""
    categories: dict[str, list[dict[str, Any]]] = {}
    for category, name, results in tests:
        rows = [
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": index, "status": status}
            for index, status in results.items()
        ]
        found = {"name": name, "results": rows, "test_summary": {"status": _summary(results)}}
        categories.setdefault(category, []).append(found)
    indices = tests[0][2]
    entities = [{"device_id": device, "entity_id": index} for index in indices]
    document = {
        "DCGM Diagnostic": {
            "test_categories": [{"category": name, "tests": found} for name, found in categories.items()]
        },
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"DCGM Version": Image().dcgm, "Driver Version Detected": state.driver},
    }
    return json.dumps(document, indent=2) + "\n"


def _table(tests: _Tests, spec: Spec, state: State, gpus: int) -> str:
    gpu = spec.gpu_shape.machine.gpu
    ids = ", ".join([gpu.device if gpu else ""] * gpus)
    lines = ["Successfully ran diagnostic for group.", _RULE, _row("Diagnostic", "Result"), _RULE.replace("-", "=")]
    lines.append(_head("Metadata"))
    lines += [_row("DCGM Version", Image().dcgm), _row("Driver Version Detected", state.driver)]
    lines.append(_row("GPU Device IDs Detected", ids[:46]))
    shown = ""
    for category, name, results in tests:
        if category != shown:
            lines.append(_head(category))
            shown = category
        lines.append(_row(name, _summary(results)))
        lines += [_row("", f"GPU{index}: {status}") for index, status in results.items()]
    return "\n".join([*lines, _RULE]) + "\n"


_RULE = f"+{'-' * 27}+{'-' * 48}+"


def _row(left: str, right: str) -> str:
    return f"| {left:<25} | {right:<46} |"


def _head(name: str) -> str:
    return f"|{f'-----  {name}  ':-<27}+{'-' * 48}|"
