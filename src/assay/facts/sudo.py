"""Who may become root through sudo, as sudoers and the groups say. sudo itself is not run: it would write a log."""

from __future__ import annotations

import re

from msgspec import Struct

from assay.facts.source import source
from assay.facts.stat import PathState, path_states
from assay.facts.users import MARK, group_names, groups
from assay.model import Env, Fact, Files, Missing, Probe, RawFact, Stat

# Groups that the sudoers file of a distribution or the agent of a cloud grants everything.
ADMIN_GROUPS = frozenset({"sudo", "wheel", "admin", "google-sudoers", "aad_admins"})
_RULE = re.compile(r"^(?P<who>.+?)\s+(?P<hosts>\S+)\s*=\s*(?P<spec>.+)$")
_ALIAS = re.compile(r"^User_Alias\s+(.+)$")
_COMMAND = re.compile(r"\s*(?:\(([^)]*)\)\s*)?((?:[A-Z_]+\s*:\s*)*)([^,]+)")
_SKIP = ("Defaults", "Host_Alias", "Runas_Alias", "Cmnd_Alias", "Cmd_Alias", "@include", "#include")


class SudoRule(Struct, frozen=True):
    """One user specification; `who` with user aliases resolved; `everything` = any command as root."""

    who: tuple[str, ...]
    nopasswd: bool = False
    everything: bool = False
    file: str = ""


class Sudo(Fact, frozen=True):
    """`rules` is None when sudoers was not readable. `user` = who logged in (SUDO_USER under sudo), "" unknown.

    `groups` are the groups of the reading process by name; `no_new_privs` = the kernel forbids it to gain rights.
    """

    binary: PathState | None = None
    rules: tuple[SudoRule, ...] | None = None
    complete: bool = True
    user: str = ""
    through_sudo: bool = False
    reader_uid: int = -1
    groups: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    no_new_privs: bool | None = None

    @property
    def in_admin_group(self) -> tuple[str, ...]:
        """Which of the reader's groups usually may do everything."""
        return tuple(g for g in self.groups if g in ADMIN_GROUPS)


@source(
    Probe(
        "access.sudo",
        (
            Stat("binary", ("/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/run/wrappers/bin/sudo")),
            Files("sudoers", ("/etc/sudoers", "/etc/sudoers.d/*", "/usr/etc/sudoers")),
            Files("group", ("/etc/group",), cap=1 << 20),
            Files("self", ("/proc/self/status",)),
            Env("names", ("SUDO_USER", "USER", "LOGNAME")),
        ),
        root="sudoers is readable by root only",
    )
)
def sudo(raw: RawFact) -> Sudo | Missing:
    """The sudo binary's mode, sudoers where readable, and the groups of the process that read them."""
    names, sudoers = raw.files("names"), raw.read("sudoers")
    status = dict(line.split(":", 1) for line in raw.out("self").splitlines() if ":" in line)
    through_sudo = raw.uid == 0 and bool(names.get("SUDO_USER"))
    user = names.get("SUDO_USER", "") if through_sudo else names.get("USER") or names.get("LOGNAME", "")
    own = set(status.get("Groups", "").split()) | set(status.get("Gid", "").split())
    nnp = status.get("NoNewPrivs", "").strip()
    return Sudo(
        binary=next(iter(path_states(raw.files("binary"))), None),
        rules=sudo_rules(sudoers.files) if sudoers.files else None,
        complete=not sudoers.errors and not sudoers.cut and not any(MARK in text for text in sudoers.files.values()),
        user=user,
        through_sudo=through_sudo,
        reader_uid=raw.uid,
        groups=tuple(name for gid, name in group_names(raw.out("group")).items() if str(gid) in own),
        admins=tuple(sorted({m for g in groups(raw.out("group")) if g.name in ADMIN_GROUPS for m in g.members})),
        no_new_privs=bool(int(nnp)) if nnp.isdecimal() else None,
    )


def sudo_rules(files: dict[str, str]) -> tuple[SudoRule, ...]:
    """The user specifications of sudoers files (sudoers(5)); files that sudo itself ignores are left out."""
    read = {path: _lines(text) for path, text in files.items() if not _ignored(path)}
    aliases: dict[str, tuple[str, ...]] = {}
    for line in (line for lines in read.values() for line in lines):
        if found := _ALIAS.match(line):
            for one in found[1].split(":"):
                name, _, members = one.partition("=")
                aliases[name.strip()] = _names(members)
    every = (_rule(line, path, aliases) for path, lines in read.items() for line in lines)
    return tuple(rule for rule in every if rule)


def _ignored(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return "/sudoers.d/" in path and ("." in name or name.endswith("~"))


def _lines(text: str) -> list[str]:
    """Logical lines: continuations joined, comments dropped (#1000 is a user, #include a directive)."""
    joined = text.replace("\\\n", " ")
    bare = (re.sub(r"(?:^|\s)#(?!\d|include).*", "", line).strip() for line in joined.splitlines())
    return [line for line in bare if line]


def _names(text: str) -> tuple[str, ...]:
    words = (w.strip().strip('"').replace("\0", " ") for w in text.replace("\\ ", "\0").split(","))
    return tuple(w for w in words if w)


def _rule(line: str, path: str, aliases: dict[str, tuple[str, ...]]) -> SudoRule | None:
    found = None if line.startswith(_SKIP) or _ALIAS.match(line) else _RULE.match(line)
    if not found:
        return None
    who = tuple(m for name in _names(found["who"]) for m in aliases.get(name, (name,)))
    nopasswd, everything = _granted(found["spec"])
    return SudoRule(who, nopasswd=nopasswd, everything=everything, file=path)


def _granted(spec: str) -> tuple[bool, bool]:
    """Whether a list of commands holds one without password, and every command as root; (True, True) = both in one.

    A run-as list and a tag count for the commands after them too.
    """
    root, nopasswd, seen = True, False, []
    for runas, tags, command in _COMMAND.findall(spec):
        if runas:
            root = bool({"ALL", "root", "#0"} & {name.strip() for name in runas.split(":")[0].split(",")})
        if "PASSWD" in tags:
            nopasswd = "NOPASSWD" in tags
        seen.append((nopasswd, root and command.strip() == "ALL"))
    return max(seen, key=lambda grant: (grant[1], grant[0]), default=(False, False))
