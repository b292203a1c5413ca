"""The registry of sources: probe, parser and fact type, tied together by one decorator."""

from __future__ import annotations

import importlib
import pkgutil
import typing
from collections.abc import Callable, Iterable

from msgspec import Struct

from assay.model import Fact, Missing, MissingKind, Probe, RawFact, Read, ReadState

Parser = Callable[[RawFact], Fact | Missing]

_REGISTRY: dict[str, Source] = {}
_KIND_OF_STATE: dict[ReadState, MissingKind] = {
    "timed-out": "timed-out",
    "denied": "denied",
    "error": "failed",
    "absent": "absent",
}


class Source(Struct, frozen=True):
    """One source of facts. `sees_missing` = the parser wants to look even when no read succeeded."""

    probe: Probe
    fact: type[Fact]
    parser: Parser
    sees_missing: bool = False


def source(probe: Probe, *, sees_missing: bool = False) -> Callable[[Parser], Parser]:
    """Register a parser `RawFact -> Fact | Missing` under its probe; the fact type is read from the annotation."""

    def register(parser: Parser) -> Parser:
        hint = typing.get_type_hints(parser)["return"]
        types = [t for t in typing.get_args(hint) or (hint,) if t is not Missing]
        if len(types) != 1 or probe.name in _REGISTRY:
            raise TypeError(f"{probe.name}: a source has one probe and returns one kind of fact")
        _REGISTRY[probe.name] = Source(probe, types[0], parser, sees_missing)
        return parser

    return register


_ABOVE = ("assay.slurm.sources",)
"""Modules of higher layers that register sources, loaded by name: facts knows nothing of them."""


def sources() -> dict[str, Source]:
    """Every source by probe name, all fact modules loaded."""
    package = importlib.import_module("assay.facts")
    for module in (*(f"assay.facts.{m.name}" for m in pkgutil.iter_modules(package.__path__)), *_ABOVE):
        importlib.import_module(module)
    return dict(sorted(_REGISTRY.items()))


def why_missing(reads: Iterable[Read], absent: str = "") -> Missing | None:
    """The gravest reason why no read succeeded, or None when one did; `absent` = what "not found" means here."""
    states = {read.state: read for read in reads}
    if "ok" in states:
        return None
    for state, kind in _KIND_OF_STATE.items():
        if read := states.get(state):
            return Missing(kind, absent if absent and kind == "absent" else _reason(read))
    return Missing("not-asked", "the probe has no answer")


def _reason(read: Read) -> str:
    what = read.argv[0] if read.argv else next(iter(read.errors), read.key)
    detail = next(iter(read.errors.values()), read.err.strip().splitlines()[-1] if read.err.strip() else "")
    words = {"timed-out": "did not answer in time", "denied": "permission denied", "absent": "not found"}
    return f"{what}: {words.get(read.state, 'failed')}" + (f" ({detail})" if detail and read.state != "absent" else "")


def parse(known: Source, raw: RawFact) -> Fact | Missing:
    """The fact in `raw`; whatever a hostile answer does to a parser ends as Missing("unparsable")."""
    if not known.sees_missing and (missing := why_missing(raw.reads)):
        return missing
    try:
        return known.parser(raw)
    except Exception as e:  # noqa: BLE001 - field outputs are untrusted: any parser failure is a verdict on the output
        return Missing("unparsable", f"{raw.probe}: {type(e).__name__}: {e}"[:300])
