"""Orders of version numbers. Each gives a key that compares as the versions do, or None for what is no such version.

A key is only compared with keys of the same order. None is never a pass: the rule says unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Struct

Key = tuple[Any, ...]
LONGEST = 256

_RELEASE = re.compile(
    r"""v?(\d{1,18}(?:\.\d{1,18})*)
    (?:[-~.]?((?:alpha|beta|preview|pre|rc|dev)[.-]?\d{0,18}(?:\.\d{1,18})*(?:-[0-9a-f]{12}(?![0-9a-z]))?
       |(?<=[\d])[abc]\d{1,18})(?![a-z0-9]) | -(\d{14}-[0-9a-f]{12})(?![0-9a-z]))?
    ([-+~].*)?""",
    re.VERBOSE | re.ASCII,
)
_TOKEN = re.compile(r"\d+|[a-z]+")
_PACKAGING = re.compile(r"-\d{1,9}(?:\.\d{1,9})?|-[ce]e", re.ASCII)
_DISTRO = re.compile(
    r"ubuntu|debian|azure|suse|[-+~.](?:deb|el|fc|amzn|cm|azl|ds|dfsg|rhel|rhaos)\d*|\+b\d|~bpo|build\d"
)
_DEBIAN = re.compile(r"(?:(\d{1,9}):)?(\d[A-Za-z0-9.+~:-]*?)(?:-([A-Za-z0-9.+~]+))?", re.ASCII)
_DEBIAN_PART = re.compile(r"([^\d]*)(\d*)", re.ASCII)
_RPM = re.compile(r"(?:(\d{1,9}|\(none\)):)?([A-Za-z0-9._+~^]+)(?:-([A-Za-z0-9._+~^]+))?", re.ASCII)
_RPM_PART = re.compile(r"\d+|[a-zA-Z]+|~|\^", re.ASCII)
_DRIVER = re.compile(r"(\d{3})\.(\d{2,4})(?:\.(\d{2}))?", re.ASCII)
_FIRMWARE = re.compile(r"(?:(\d{2})\.)?(\d{2})\.(\d{4})", re.ASCII)


class Version(Struct, frozen=True):
    """A number of the project itself, and what a packager hung on it.

    `suffix` = whatever follows, as printed; `packaging` = it is only a revision of the package ("-1");
    `distro` = it is a distribution's build, which may hold fixes that its number does not show.
    """

    numbers: tuple[int, ...]
    key: Key
    suffix: str = ""
    packaging: bool = True
    distro: bool = False


@lru_cache(maxsize=4096)
def version(text: str) -> Version | None:
    """A dotted number with an optional pre-release: 1.5.0-rc.3, v29.9.2, 1.3.3-0ubuntu1~24.04.3."""
    match = _RELEASE.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if not match:
        return None
    numbers = tuple(map(int, match[1].split(".")))
    before = match[2] or match[3]
    suffix = match[4] or ""
    return Version(
        numbers,
        (_trimmed(numbers), _before(before) if before else (1,)),
        suffix,
        not suffix or bool(_PACKAGING.fullmatch(suffix)),
        bool(_DISTRO.search(suffix)),
    )


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """1.0 and 1.0.0 are one version."""
    end = len(numbers)
    while end > 1 and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def _before(text: str) -> Key:
    """Pre-release parts in order; letters and digits apart, so that rc95 comes after rc9."""
    return (0, *((0, int(t)) if t.isdigit() else (1, t) for t in _TOKEN.findall(text)))


def dotted(text: str) -> Key | None:
    """The order of `version`, suffixes left aside."""
    known = version(text)
    return known.key if known else None


@lru_cache(maxsize=4096)
def debian(text: str) -> Key | None:
    """[epoch:]upstream[-revision] in the order of Debian's policy: "~" before the end, letters before other signs."""
    match = _DEBIAN.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if not match or (":" in match[2] and match[1] is None):
        return None
    return int(match[1] or 0), _debian_parts(match[2]), _debian_parts(match[3] or "")


def _debian_parts(text: str) -> Key:
    parts = [
        ((*(-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 256 for c in signs), 0), int(digits or 0))
        for signs, digits in _DEBIAN_PART.findall(text)
        if signs or digits
    ]
    end = ((0,), 0)
    return (*(parts if parts != [end] else ()), end)


@lru_cache(maxsize=4096)
def rpm(text: str) -> Key | None:
    """[epoch:]version[-release] in rpm's order: "~" before the end, "^" after it, numbers after letters."""
    match = _RPM.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if not match:
        return None
    epoch = match[1] if match[1] and match[1] != "(none)" else "0"
    return int(epoch), _rpm_parts(match[2]), _rpm_parts(match[3] or "")


def _rpm_parts(text: str) -> Key:
    return (*map(_rpm_part, _RPM_PART.findall(text)), (1,))


def _rpm_part(part: str) -> Key:
    if part in "~^":
        return (0,) if part == "~" else (2,)
    return (4, int(part)) if part.isdigit() else (3, part)


@lru_cache(maxsize=512)
def driver(text: str) -> Key | None:
    """An NVIDIA driver on Linux: 580.178.04; its first number is the branch."""
    match = _DRIVER.fullmatch(text.strip())
    return tuple(int(n or 0) for n in match.groups()) if match else None


@lru_cache(maxsize=512)
def firmware(text: str) -> Key | None:
    """Adapter firmware, device.train.patch (28.39.8002), or a floor without the device (39.8002): train and patch."""
    match = _FIRMWARE.fullmatch(text.strip())
    return (int(match[2]), int(match[3])) if match else None


ORDERS: dict[str, Callable[[str], Key | None]] = {
    "dotted": dotted,
    "debian": debian,
    "rpm": rpm,
    "driver": driver,
    "firmware": firmware,
}


def upstream(text: str) -> str:
    """The project's number inside a package's version: 5:29.7.2-1~ubuntu.24.04~noble -> 29.7.2."""
    return re.split(r"-(?=[^-]*$)", text.split(":", 1)[-1])[0]
