"""Why a node did not answer, told from the exit status and the words of the programs in between."""

from __future__ import annotations

import re

from msgspec import Struct

from assay.model import Missing, MissingKind


class End(Struct, frozen=True):
    """How a conversation ended."""

    rc: int | None
    stderr: str
    timed_out: bool
    timeout_s: float
    took_s: float = 0.0
    log: str = ""
    greeted: bool = False
    left: int = 0


_WORDS: tuple[tuple[str, MissingKind, str], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "unreachable", "its host key has changed"),
    (r"Host key verification failed|No .* host key is known", "unreachable", "its host key is not trusted"),
    (r"sudo: (?:a password is required|.*no tty present|a terminal is required)", "denied", "sudo needs a password"),
    (r"is not in the sudoers file|is not allowed to (?:execute|run sudo)", "denied", "sudo is not allowed"),
    (r"sudo: .*(?:command )?not found|sudo: not found", "failed", "there is no sudo"),
    (r"Access denied by pam_slurm", "denied", "only users with a job there are let in"),
    (r"account is currently not available|account .*(?:expired|locked)", "denied", "the account cannot log in"),
    (r"Permission denied \(|Too many authentication failures|Permission denied, please", "denied", "login refused"),
    (r"Could not resolve hostname", "unreachable", "the name does not resolve"),
    (r"Connection (?:refused|timed out|closed|reset)|Operation timed out|No route to host|Network is unreachable",
     "unreachable", "ssh cannot connect"),
    (r"kex_exchange|banner exchange|Broken pipe|not responding|no matching .* found|Bad configuration option",
     "unreachable", "ssh cannot connect"),
)  # fmt: skip
_KNOWN = tuple((re.compile(pattern, re.IGNORECASE), kind, words) for pattern, kind, words in _WORDS)
_PYTHON_GONE = re.compile(r"(?:command not found|No such file or directory|: not found)", re.IGNORECASE)


def why_ended(node: str, end: End) -> Missing | None:
    """None when the node answered every probe; else what stood in the way, in words that many nodes share."""
    if not end.left:
        return None
    if end.greeted:
        return _cut_short(node, end)
    if end.timed_out:
        return Missing("timed-out", f"no answer within {end.timeout_s:g} s" + _quote(node, last_line(end.stderr)))
    said = f"{end.stderr}\n{end.log}"
    for pattern, kind, words in _KNOWN:
        if match := pattern.search(said):
            return Missing(kind, words + _quote(node, _line_at(said, match.start())))
    return _unrecognised(node, end)


def _unrecognised(node: str, end: End) -> Missing:
    said = last_line(end.stderr) or last_line(end.log)
    if end.rc in (126, 127) or _PYTHON_GONE.search(said):
        return Missing("failed", "cannot run Python there" + _quote(node, said))
    if end.rc == 255:
        return Missing("unreachable", "ssh failed" + _quote(node, said))
    return Missing("failed", f"the collector did not start, {_exit(end.rc)}" + _quote(node, said))


def _cut_short(node: str, end: End) -> Missing:
    if end.timed_out:
        return Missing("timed-out", f"no answer to this within {end.timeout_s:g} s")
    return Missing("failed", f"ended before it answered this, {_exit(end.rc)}" + _quote(node, last_line(end.stderr)))


def _exit(rc: int | None) -> str:
    if rc is None:
        return "still running"
    return f"exit status {rc}" if rc >= 0 else f"killed by signal {-rc}"


def _quote(node: str, said: str) -> str:
    unnamed = re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", "<node>", said)
    return f" ({unnamed[:200]})" if said else ""


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _line_at(text: str, position: int) -> str:
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    return text[start:].splitlines()[0].strip()
