"""The SSH server's settings: its configuration files, and `sshd -T` as people mail it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from assay.facts.source import source, why_missing
from assay.model import Fact, Files, Missing, Probe, RawFact

MAIN = "/etc/ssh/sshd_config"
# Keywords that may stand several times; of every other the first value counts (sshd_config(5)).
REPEATED = frozenset({
    "acceptenv", "allowgroups", "allowusers", "denygroups", "denyusers", "hostcertificate", "hostkey", "include",
    "listenaddress", "permitlisten", "permitopen", "port", "setenv", "subsystem",
})  # fmt: skip
_LINE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+)(.+?)\s*$")
_COMMENT = re.compile(r"\s+#.*$")
_RENAMED = {"challengeresponseauthentication": "kbdinteractiveauthentication"}

Settings = dict[str, tuple[str, ...]]


class MatchBlock(Struct, frozen=True):
    """Settings that hold only for connections that meet the criteria."""

    criteria: str
    settings: Settings = field(default_factory=dict)


class Sshd(Fact, frozen=True):
    """Settings by lower-case keyword; a keyword that is not there was not set (the default then holds).

    `complete` is false when an included file was not readable.
    """

    settings: Settings = field(default_factory=dict)
    matches: tuple[MatchBlock, ...] = ()
    complete: bool = True

    def one(self, keyword: str) -> str | None:
        """The value of a keyword in lower case, None when it was not set."""
        values = self.settings.get(keyword)
        return values[0].lower() if values else None


@source(
    Probe(
        "access.sshd",
        (Files("config", (MAIN, "/etc/ssh/sshd_config.d/*", "/usr/etc/ssh/sshd_config")),),
        root="on some distributions sshd_config is readable by root only",
    ),
    sees_missing=True,
)
def sshd(raw: RawFact) -> Sshd | Missing:
    """The configuration files. `sshd -T` is not run: it opens sockets to resolve the addresses it listens on."""
    config = raw.read("config")
    main = next((path for path in (MAIN, "/usr" + MAIN) if path in config.files), None)
    if main:
        written = sshd_config(config.files[main], _reader(config.files))
        return replace(written, complete=written.complete and not config.errors)
    if config.state in ("ok", "absent") and not config.errors:
        return Missing("absent", "there is no sshd_config")
    return why_missing((config,)) or Missing("denied", "sshd_config was not readable")


def sshd_t(text: str) -> Settings:
    """What `sshd -T` prints: one lower-case keyword and its value per line, list keywords repeated."""
    found: Settings = {}
    for line in text.splitlines():
        keyword, _, value = line.strip().partition(" ")
        if keyword.isalnum() and keyword == keyword.lower():
            found[keyword] = (*found.get(keyword, ()), value.strip())
    if not {"port", "permitrootlogin", "passwordauthentication", "usepam"} & set(found):
        raise ValueError("no settings of an SSH server in it")
    return found


Reader = Callable[[str], list[str] | None]


def sshd_config(text: str, include: Reader = lambda _: None) -> Sshd:
    """Settings of an sshd_config: the first value wins, includes are read in place, Match blocks stand apart.

    `include` gives the texts a pattern names, or None when they could not be read.
    """
    found: Settings = {}
    blocks: dict[str, Settings] = {}
    complete = True
    for criteria, keyword, value in _directives(text):
        target = blocks.setdefault(criteria, {}) if criteria else found
        if keyword != "include":
            _add(target, keyword, value)
            continue
        for inner in _included(value, include):
            complete &= inner is not None and inner.complete
            _merge(target, blocks, inner)
    matches = tuple(MatchBlock(c, s) for c, s in blocks.items())
    return Sshd(settings=found, matches=matches, complete=complete)


def _directives(text: str) -> Iterator[tuple[str, str, str]]:
    """(criteria of the Match block or "", lower-case keyword, value) per line."""
    criteria = ""
    for raw in text.splitlines():
        line = _LINE.match("" if raw.lstrip().startswith("#") else _COMMENT.sub("", raw))
        if not line:
            continue
        keyword, value = line[1].lower(), line[2].strip('"')
        if keyword == "match":
            criteria = "" if value.lower() == "all" else value
        else:
            yield criteria, _RENAMED.get(keyword, keyword), value


def _add(settings: Settings, keyword: str, value: str) -> None:
    if keyword in REPEATED:
        settings[keyword] = (*settings.get(keyword, ()), value)
    else:
        settings.setdefault(keyword, (value,))


def _merge(target: Settings, blocks: dict[str, Settings], inner: Sshd | None) -> None:
    if inner is None:
        return
    for keyword, values in inner.settings.items():
        for value in values:
            _add(target, keyword, value)
    for block in inner.matches:
        blocks.setdefault(block.criteria, {}).update(block.settings)


def _included(patterns: str, include: Reader) -> Iterator[Sshd | None]:
    for pattern in patterns.split():
        texts = include(pattern if pattern.startswith("/") else f"/etc/ssh/{pattern}")
        if texts is None:
            yield None
        else:
            yield from (sshd_config(text) for text in texts)


def _reader(files: dict[str, str]) -> Reader:
    """Reads includes from the files at hand; other directories than sshd_config.d were not collected."""

    def read(pattern: str) -> list[str] | None:
        if not pattern.startswith("/etc/ssh/sshd_config.d/"):
            return None
        return [files[path] for path in sorted(files) if fnmatch.fnmatchcase(path, pattern)]

    return read


def sshd_config_text(text: str) -> Sshd:
    """A file someone mailed; ValueError when it holds no directive."""
    found = sshd_config(text)
    if not found.settings and not found.matches:
        raise ValueError("no sshd_config directive in it")
    return found


FORMATS: dict[str, Callable[[str], Any]] = {"sshd -T": sshd_t, "sshd_config": sshd_config_text}
