"""Programs that Slurm starts by itself on a node: health check, prolog, epilog. What their texts do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact

Kind = Literal["health", "prolog", "epilog"]
_KEYS: dict[str, Kind] = {
    "healthcheckprogram": "health", "prolog": "prolog", "epilog": "epilog", "taskprolog": "prolog",
    "taskepilog": "epilog",
}  # fmt: skip
_SETTING = re.compile(
    r"^[ \t]*(HealthCheckProgram|Prolog|Epilog|TaskProlog|TaskEpilog)[ \t]*=[ \t]*([^#\s]+)",
    re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_UPDATE = re.compile(r"\bscontrol\b[^\n;|&]{0,80}?\bupdate\b([^\n;|&]{0,400})", re.IGNORECASE)
_NODENAME = re.compile(
    r"\bnode(?:name)?=(\"[^\"\n]*\"|'[^'\n]*'|(?:\$\([^)\n]{0,200}\)|\$\{[^}\n]{0,200}\}|[^\s\"'])+)", re.IGNORECASE
)
_STATE = re.compile(r"\bstate=[\"']?(\w+)", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?<![\w$\"'{-])([A-Za-z_]\w{0,63})=((?:\"[^\"\n]*\"|'[^'\n]*'|\$\([^)\n]{0,200}\)|\$\{[^}\n]{0,200}\}|[^\s\"';)])*)"
)
_SOURCED = re.compile(r"(?:^|[;&|]|\bthen\b)[ \t]*(?:\.|source)[ \t]+[\"']?(/[\w./-]{1,200})", re.MULTILINE)
_IF_SET = re.compile(r"\$\{([A-Za-z_]\w{0,63}):\+([^}]*)\}")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w{0,63})\}?")
_SLEEP = re.compile(r"\bsleep[ \t]+(\d{1,6})\b")
_JOB = re.compile(r"(?:^|[\s;&|(`])(?:/\S{1,80}/)?(srun|sbatch|salloc)\s[^\n]{0,400}", re.MULTILINE)
_EXIT = re.compile(r"\b(?:exit|return|sys\.exit\()[ \t]*\(?([1-9]\d{0,2})\b")
_TELLS = re.compile(r"\b(?:curl|wget|mailx?|sendmail|kubectl|pdsh|nc|amqp-publish|mosquitto_pub)\s|https?://")
_NHC = re.compile(r"\bnhc\b|node-mark-offline|OFFLINE_NODE")
_BUSY = frozenset({"drain", "down", "fail", "drained"})


class Hook(Struct, frozen=True, kw_only=True):
    """One program. `read` = its text was readable and is a script; without, nothing else is known of it.

    `drains` = it sets nodes to drain, down or fail; `resumes` = it brings nodes back; `tells` = it sends its result
    elsewhere. `named` = how it names the node to scontrol, variables put in. `jobs` = it submits jobs.
    """

    kind: Kind
    path: str
    read: bool = False
    drains: bool = False
    resumes: bool = False
    tells: bool = False
    named: tuple[str, ...] = ()
    jobs: bool = False
    exits: bool = False
    longest_sleep_s: int | None = None
    nhc: bool = False


class SlurmHooks(Fact, frozen=True):
    """The programs that slurm.conf on this node names."""

    hooks: tuple[Hook, ...] = ()

    def of(self, kind: Kind) -> tuple[Hook, ...]:
        """Those of one kind."""
        return tuple(hook for hook in self.hooks if hook.kind == kind)


_CONF = (
    "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/opt/slurm/etc/slurm.conf",
    "/usr/local/etc/slurm.conf", "/cm/shared/apps/slurm/var/etc/slurm.conf",
    "/cm/shared/apps/slurm/var/etc/*/slurm.conf",
)  # fmt: skip
_DIRS = ("/etc/slurm", "/opt/slurm/etc", "/usr/local/etc/slurm", "/run/slurm/conf", "/etc/slurm-llnl")
_NAMED = (
    "*health*", "*check*", "*prolog*", "*epilog*", "*.sh", "*.py", "prolog.d/*", "epilog.d/*", "scripts/*", "bin/*",
    "libexec/*", "*health*.d/*",
)  # fmt: skip
_ELSEWHERE = (
    "/usr/sbin/nhc", "/usr/local/sbin/*health*", "/usr/local/bin/*health*", "/usr/local/sbin/*check*",
    "/usr/local/bin/*check*", "/opt/*health*/*", "/opt/*health*/bin/*", "/opt/*/health*", "/opt/*/bin/*health*",
    "/usr/libexec/*health*", "/usr/lib/slurm/*health*",
)  # fmt: skip
_SCRIPTS = (*(f"{place}/{name}" for place in _DIRS for name in _NAMED), *_ELSEWHERE)


class LoginHooks(SlurmHooks, frozen=True):
    """The same, as they lie on the login node: all there is when a prolog lets no job start."""


_STEPS = (Files("conf", _CONF, cap=1 << 18), Files("scripts", _SCRIPTS, cap=1 << 14, limit=64))
_ROOT = "some clusters keep their prologs readable by root only"


@source(Probe("slurm.hooks", _STEPS, root=_ROOT), sees_missing=True)
def slurm_hooks(raw: RawFact) -> SlurmHooks | Missing:
    """slurm.conf as the node has it, and the scripts in the usual places; of a script only what it does is kept."""
    found = _read(raw)
    return found if isinstance(found, Missing) else SlurmHooks(hooks=found)


@source(Probe("slurm.login-hooks", _STEPS, root=_ROOT, place="scheduler"), sees_missing=True)
def login_hooks(raw: RawFact) -> LoginHooks | Missing:
    """The same files on the login node, where /etc/slurm is often shared."""
    found = _read(raw)
    return found if isinstance(found, Missing) else LoginHooks(hooks=found)


def _read(raw: RawFact) -> tuple[Hook, ...] | Missing:
    texts = raw.files("conf")
    if not texts:
        denied = raw.read("conf").state == "denied" or raw.read("conf").errors
        return Missing("denied" if denied else "absent", "no slurm.conf on this node")
    conf, text = next(iter(texts.items()))
    scripts = raw.files("scripts")
    found = (
        hook
        for key, value in _SETTING.findall(text)
        for hook in _hooks(_KEYS[key.lower()], value.strip("\"'"), conf.rpartition("/")[0], scripts)
    )
    return tuple({(h.kind, h.path): h for h in found}.values())


def _hooks(kind: Kind, value: str, place: str, scripts: Mapping[str, str]) -> Iterator[Hook]:
    if value.lower() in ("(null)", "none"):
        return
    for part in value.split(","):
        pattern = part if part.startswith("/") else f"{place}/{part}"
        matching = [path for path in sorted(scripts) if fnmatchcase(path, pattern)]
        for path in matching:
            yield read_hook(kind, path, scripts)
        if not matching:
            yield Hook(kind=kind, path=pattern)


def read_hook(kind: Kind, path: str, texts: Mapping[str, str]) -> Hook:
    """What a script does, by its text without comments; a program that is no text is only named.

    `texts` = the files at hand by path: those it sources give its variables values.
    """
    text = texts[path]
    if "\0" in text or not text.startswith("#!"):
        return Hook(kind=kind, path=path)
    bare = _COMMENT.sub("", text).replace("\\\n", " ")
    updates = [u for u in _UPDATE.findall(bare) if _NODENAME.search(u)]
    states = {s.lower() for u in updates for s in _STATE.findall(u)}
    sourced = "\n".join(_COMMENT.sub("", texts.get(name, "")) for name in _SOURCED.findall(bare))
    values = dict(_ASSIGNED.findall(f"{bare}\n{sourced}"))
    named = (_NODENAME.search(u) for u in updates)
    sleeps = [int(n) for n in _SLEEP.findall(bare)]
    return Hook(
        kind=kind,
        path=path,
        read=True,
        drains=not _BUSY.isdisjoint(states),
        resumes=not {"resume", "idle", "undrain"}.isdisjoint(states),
        tells=bool(_TELLS.search(bare)),
        named=tuple(dict.fromkeys(_resolved(m[1], values) for m in named if m)),
        jobs=bool(_JOB.search(bare)),
        exits=bool(_EXIT.search(bare)),
        longest_sleep_s=max(sleeps, default=None),
        nhc=bool(_NHC.search(bare)) or path.endswith("/nhc"),
    )


def _resolved(word: str, values: Mapping[str, str]) -> str:
    """The word with the script's own variables put in, two deep; Slurm's and the shell's stay."""
    known = {name: value.strip("\"'") for name, value in values.items()}
    for _ in range(2):
        word = _IF_SET.sub(lambda m: m[0] if m[1] not in known else m[2] if known[m[1]] else "", word.strip("\"'"))
        word = _VARIABLE.sub(lambda m: known.get(m[1], m[0]), word)[:400]
    return word
