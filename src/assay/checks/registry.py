"""The `@check` decorator: a pure function whose parameter types say what it needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from assay.model import Category, Fact, Missing, Severity, Verdict
from assay.profiles import Profile

F = TypeVar("F", bound=Fact)
Rule = Callable[..., Verdict]
_REGISTRY: dict[str, Check] = {}


class Fleet(Mapping[str, F], Generic[F]):
    """One fact over all nodes: node -> fact. Nodes without it stay visible in `missing`."""

    def __init__(self, facts: Mapping[str, F], missing: Mapping[str, Missing]) -> None:
        self._facts = facts
        self.missing = missing

    def __getitem__(self, node: str) -> F:
        return self._facts[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


class When(Struct, frozen=True):
    """The moment the evidence was taken, UTC epoch seconds: the only clock a rule has."""

    at: float


class Parameter(Struct, frozen=True):
    """One parameter of a rule: what it is and which type fills it."""

    kind: Literal["fact", "optional", "fleet", "profile", "when"]
    type: type


class Check(Struct, frozen=True):
    """A rule and everything `assay explain` says about it.

    `required` = no verdict of the audit without it; `needs` = the facts it reads, in the order of its parameters.
    """

    id: str
    category: Category
    criteria: tuple[str, ...]
    severity: Severity
    why: str
    how: str
    fix: str
    refs: tuple[str, ...]
    lifecycle: Literal["experimental", "stable", "deprecated"]
    required: bool
    rule: Rule
    parameters: tuple[Parameter, ...]
    needs: tuple[type[Fact], ...]

    @property
    def scope(self) -> Literal["node", "fleet"]:
        """Fleet rules run once over all nodes."""
        return "fleet" if any(p.kind == "fleet" for p in self.parameters) else "node"


def check(  # noqa: PLR0913 - the metadata of a check is its documentation
    name: str,
    *,
    category: Category,
    severity: Severity,
    why: str,
    fix: str,
    criteria: tuple[str, ...] = (),
    refs: tuple[str, ...] = (),
    lifecycle: Literal["experimental", "stable", "deprecated"] = "stable",
    required: bool = False,
) -> Callable[[Rule], Rule]:
    """Register a rule. Its docstring says how it judges; it returns one verdict and raises only by mistake."""

    def register(rule: Rule) -> Rule:
        if name in _REGISTRY or not rule.__doc__:
            raise TypeError(f"{name}: a check has a unique name and a docstring that says how it judges")
        wiring = _wiring(rule)
        needs = dict.fromkeys(p.type for p in wiring if p.kind in ("fact", "optional", "fleet"))
        _REGISTRY[name] = Check(
            name, category, criteria, severity, why, inspect.cleandoc(rule.__doc__), fix, refs, lifecycle,
            required, rule, wiring, tuple(needs),
        )  # fmt: skip
        return rule

    return register


def _wiring(rule: Rule) -> tuple[Parameter, ...]:
    hints = typing.get_type_hints(rule)
    hints.pop("return", None)
    return tuple(_parameter(rule, hint) for hint in hints.values())


def _parameter(rule: Rule, hint: typing.Any) -> Parameter:
    if hint is When:
        return Parameter("when", When)
    if typing.get_origin(hint) is Fleet:
        return Parameter("fleet", typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [t for t in typing.get_args(hint) if t is not Missing]
        if len(inner) == 1 and issubclass(inner[0], Fact):
            return Parameter("optional", inner[0])
    elif isinstance(hint, type) and issubclass(hint, Fact):
        return Parameter("fact", hint)
    elif isinstance(hint, type) and issubclass(hint, Profile):
        return Parameter("profile", hint)
    raise TypeError(f"{rule.__module__}.{rule.__name__}: a parameter is a Fact, Fact | Missing, Fleet, Profile or When")


def checks() -> dict[str, Check]:
    """Every check by name, all modules of this package loaded."""
    package = importlib.import_module("assay.checks")
    for module in pkgutil.walk_packages(package.__path__, "assay.checks."):
        importlib.import_module(module.name)
    return dict(sorted(_REGISTRY.items()))
