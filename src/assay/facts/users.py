"""Local accounts and groups, and which directory or identity provider the host asks besides them."""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from assay.facts.source import source
from assay.facts.stat import path_states
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, Stat, Which

ORDINARY = range(1000, 60000)  # UID_MIN..UID_MAX of login.defs as distributions ship it
TOOLS = ("useradd", "usermod", "userdel", "groupadd", "groupdel", "gpasswd")
_SHADOWED = frozenset({"x", "*", "!", "!!", "*NP*", "*LK*", "!*", "##"})
_LOCAL = frozenset({"files", "compat", "systemd", "altfiles", "db"})
MARK = "<redacted>"  # what the collector writes over a secret
_NO_LOGIN = ("nologin", "/false", "/sync", "/shutdown", "/halt")
_PAM_MODULE = re.compile(
    r"^[^#\n]*\b(pam_(?:sss|ldap|krb5|winbind|oidc|oauth2\w*|openid\w*|oslogin\w*|aad|himmelblau|okta\w*|ussh|radius)"
    r"(?:_login|_admin)?)\.so",
    re.MULTILINE,
)
_PROVIDER = re.compile(
    r"^[ \t]*(?:\S*?:)?[ \t]*(id_provider|auth_provider|access_provider)\s*=\s*([\w-]+)", re.MULTILINE
)
_REALM = re.compile(r"^[ \t]*default_realm\s*=\s*(\S+)", re.MULTILINE)


class Account(Struct, frozen=True):
    """One line of /etc/passwd, without its comment field."""

    name: str
    uid: int
    gid: int
    shell: str = ""


class Group(Struct, frozen=True):
    """One line of /etc/group."""

    name: str
    gid: int
    members: tuple[str, ...] = ()


class Users(Fact, frozen=True):
    """Local accounts: `ordinary` are people's, `members` the groups that name members.

    `unshadowed` = a password hash in the world-readable file; `complete` is false when a file was cut or has bad lines.
    `directories` = what nsswitch asks for accounts besides files; `sssd` = its providers, None when not readable.
    """

    ordinary: tuple[Account, ...] = ()
    uid0: tuple[str, ...] = ()
    empty_password: tuple[str, ...] = ()
    unshadowed: tuple[str, ...] = ()
    repeated_uids: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    total: int = 0
    complete: bool = True
    directories: tuple[str, ...] | None = None
    sssd: tuple[str, ...] | None = None
    sssd_runs: bool = False
    pam: tuple[str, ...] = ()
    realm: str = ""
    tools: tuple[str, ...] = ()


@source(
    Probe(
        "access.users",
        (
            Files("passwd", ("/etc/passwd",), cap=1 << 20),
            Files("group", ("/etc/group",), cap=1 << 20),
            Files("nsswitch", ("/etc/nsswitch.conf",)),
            # Only these lines: the rest of sssd.conf may hold a bind password.
            Exec(
                "sssd",
                (
                    "grep", "-rhsE", "^[[:space:]]*(id|auth|access)_provider[[:space:]]*=",
                    "/etc/sssd/sssd.conf", "/etc/sssd/conf.d",
                ),
                timeout_s=5.0,
            ),
            Stat("sssd-marks", ("/etc/sssd/sssd.conf", "/run/sssd.pid", "/run/sssd/sssd.pid", "/var/run/sssd.pid")),
            Files(
                "pam",
                tuple(f"/etc/pam.d/{n}" for n in ("common-auth", "system-auth", "password-auth", "sshd", "login")),
            ),
            Files("krb5", ("/etc/krb5.conf",)),
            Which("tools", TOOLS),
        ),
        root="the providers in sssd.conf are readable by root only",
    )
)  # fmt: skip
def users(raw: RawFact) -> Users | Missing:
    """/etc/passwd and /etc/group (never shadow), nsswitch, and what sssd, PAM and Kerberos are told to ask."""
    passwd = raw.read("passwd")
    if not passwd.files:
        return Missing("denied" if passwd.state == "denied" else "absent", "/etc/passwd was not read")
    rows, bad = _rows(raw.out("passwd"), 7)
    if not rows:
        return Missing("unparsable", "/etc/passwd holds no account")
    accounts = [Account(r[0], int(r[2]), int(r[3]), r[6]) for r in rows]
    return Users(
        ordinary=tuple(a for a in accounts if a.uid in ORDINARY and not a.shell.endswith(_NO_LOGIN)),
        uid0=tuple(a.name for a in accounts if a.uid == 0),
        empty_password=tuple(r[0] for r in rows if not r[1]),
        unshadowed=tuple(r[0] for r in rows if r[1] and r[1] not in _SHADOWED),
        repeated_uids=tuple(sorted(u for u, n in Counter(a.uid for a in accounts).items() if n > 1 and u in ORDINARY)),
        groups=groups(raw.out("group")),
        total=len(accounts),
        complete=not bad and not passwd.cut,
        directories=directories(raw.out("nsswitch")),
        sssd=_sssd(raw),
        sssd_runs=any(path.endswith(".pid") for path in raw.files("sssd-marks")),
        pam=tuple(sorted({m for text in raw.files("pam").values() for m in _PAM_MODULE.findall(text)})),
        realm=_realm(raw.out("krb5")),
        tools=tuple(sorted(set(raw.files("tools").values()))),
    )


def groups(text: str) -> tuple[Group, ...]:
    """Groups that name members or belong to people; the system's empty ones are left out."""
    rows, _ = _rows(text, 4)
    every = (Group(r[0], int(r[2]), tuple(m for m in r[3].split(",") if m)) for r in rows)
    return tuple(g for g in every if g.members or g.gid in ORDINARY)


def group_names(text: str) -> dict[int, str]:
    """Group id -> name, from /etc/group."""
    rows = (line.split(":") for line in text.splitlines())
    return {int(row[2]): row[0] for row in rows if len(row) >= 3 and row[2].isdigit()}


def directories(nsswitch: str) -> tuple[str, ...] | None:
    """What `passwd:` asks besides local files; None when nsswitch.conf has no such line."""
    for line in nsswitch.splitlines():
        name, colon, rest = line.partition("#")[0].partition(":")
        if colon and name.strip() == "passwd":
            words = re.sub(r"\[[^\]]*\]", " ", rest).split()
            return None if MARK in rest else tuple(w for w in words if w not in _LOCAL)
    return None


def _rows(text: str, width: int) -> tuple[list[list[str]], int]:
    """Well-formed lines of a colon table whose third field is a number, and how many were not."""
    lines = [line for line in text.splitlines() if line.strip() and line[0] not in "#+-"]
    rows = [r for line in lines if len(r := line.split(":")) == width and r[0] and r[2].isdecimal()]
    rows = [r for r in rows if width < 7 or r[3].isdecimal()]
    return rows, len(lines) - len(rows)


def _sssd(raw: RawFact) -> tuple[str, ...] | None:
    """Providers named in sssd.conf, () when there is none; None when the file exists and was not readable."""
    seen = sorted({value.lower() for _, value in _PROVIDER.findall(raw.out("sssd"))})
    exists = any(s.path.endswith(".conf") for s in path_states(raw.files("sssd-marks")))
    denied = "EACCES" in raw.read("sssd-marks").errors.get("/etc/sssd/sssd.conf", "")
    return None if not seen and (exists or denied) else tuple(seen)


def _realm(krb5: str) -> str:
    found = _REALM.search(krb5)
    return found[1] if found and found[1] != "EXAMPLE.COM" else ""
