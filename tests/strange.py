"""Facts as a tool nobody knows would fill them: a made-up word in every text, nothing where a number would stand."""

import types
import typing
from typing import Any

import msgspec

from assay.model import Fact


def strange(kind: type[Fact], word: str) -> Fact:
    """A fact of this kind whose every text is `word`."""
    return _struct(kind, word)  # type: ignore[no-any-return]


def _struct(kind: Any, word: str) -> Any:
    hints = typing.get_type_hints(kind)
    values = {f.name: _value(hints[f.name], word) for f in msgspec.structs.fields(kind)}
    needed = {f.name: 0 for f in msgspec.structs.fields(kind) if f.required and values[f.name] is None}
    return kind(**{name: value for name, value in values.items() if value is not None} | needed)


def _value(hint: Any, word: str) -> Any:
    origin, inner = typing.get_origin(hint), [t for t in typing.get_args(hint) if t is not type(None)]
    if hint is str or origin is typing.Literal:
        return word
    if origin in (typing.Union, types.UnionType):
        return _value(str if str in inner else inner[-1], word)
    if origin in (tuple, list, frozenset):
        return origin([_value(inner[0], word)])
    if origin is dict:
        return {_value(inner[0], word): _value(inner[1], word)}
    return _struct(hint, word) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None
