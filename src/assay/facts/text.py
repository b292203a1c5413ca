"""What many tools print alike: colours, "key: value" lines, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def plain(text: str) -> str:
    """Without the escape sequences that colour a terminal."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def pairs(text: str) -> dict[str, str]:
    """Key -> value of "key: value" lines; the first of a key counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip():
            found.setdefault(key.strip(), value.strip())
    return found


def settings(text: str) -> dict[str, str]:
    """Key -> value of KEY=value lines, as systemd prints properties; the last of a key counts."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def whole(text: str | None) -> int | None:
    """A whole number without a sign, None for anything else."""
    bare = text.strip() if text else ""
    return int(bare) if bare.isascii() and bare.isdecimal() else None


def integer(text: str) -> int | None:
    """A whole number in decimal or with its prefix ("0x1f"), None for anything else."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def json_object(text: str, what: str) -> dict[str, Any]:
    """The object in a JSON text; ValueError names what it should have been."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as e:
        raise ValueError(f"not the JSON of {what}: {e}") from e


def tried(parser: Callable[[str], T], text: str) -> T | None:
    """What the parser makes of the text, None when it refuses it."""
    try:
        return parser(text)
    except ValueError:
        return None
