"""A JSON text of another shape than expected is the caller's mistake, whatever it does to the parser inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def shaped(what: str) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Turn the errors of a parser that met an unexpected shape into ValueError("not the JSON of ...")."""

    def wrap(parser: Callable[[str], T]) -> Callable[[str], T]:
        @functools.wraps(parser)
        def run(text: str) -> T:
            try:
                return parser(text)
            except (AttributeError, KeyError, TypeError, IndexError, RecursionError) as e:
                raise ValueError(f"not the JSON of {what}: {e}") from e

        return run

    return wrap
