"""Accounts, groups and sign-on as a tenant finds them on a node."""

from __future__ import annotations

from collections import Counter

from assay.checks.alike import by_value, told
from assay.checks.place import not_the_host
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.os import OsRelease
from assay.facts.sshd import Sshd
from assay.facts.sudo import Sudo
from assay.facts.users import Account, Users
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.access import Access

_WANTED = frozenset({"useradd", "usermod", "userdel", "groupadd"})
_LOCAL_SSSD = frozenset({"files", "local", "proxy", "permit", "deny", "simple", "none"})


@check(
    "users.managed",
    category="orchestration",
    severity="medium",
    criteria=("orch-add-users", "orch-user-group-permissions", "exp-slurm-users"),
    why="Where accounts cannot be added, a team shares one and nobody can say who did what.",
    fix="Install the account tools (apt install passwd; dnf install shadow-utils) or join the nodes to a directory.",
)
def managed(users: Users, os: OsRelease | Missing, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Passes when accounts come from a directory or the tools to add users and groups are there."""
    if elsewhere := not_the_host(place, "accounts"):
        return elsewhere
    if isinstance(os, OsRelease) and os.id in bars.without_useradd.names:
        return skip(f"{os.id} takes its accounts from the image")
    people = f"{len(users.ordinary)} local accounts of people"
    if outside := _directories(users):
        return ok(f"accounts come from {some(outside)}; {people}", seen=outside)
    if lacking := sorted(_WANTED.difference(users.tools)):
        return warn(f"no {some(lacking)}, and no directory is asked", seen=users.tools)
    return ok(f"useradd, usermod and groupadd are there; {people}", seen=len(users.ordinary))


@check(
    "users.same-ids",
    category="orchestration",
    severity="high",
    criteria=("orch-rbac-compute-storage", "orch-user-group-permissions"),
    why="Shared storage knows people by number: one number for two people gives one the files of the other.",
    fix="Take accounts from one directory (LDAP, sssd) or one image; change a stray one with usermod -u and chown -R.",
)
def same_ids(users: Fleet[Users]) -> Verdict:
    """Fails when one local account has different numbers on different nodes; warns when one number has two names."""
    if len(users) < 2:
        return skip("one node: nothing to compare")
    accounts: set[Account] = set().union(*(u.ordinary for u in users.values()))
    if not accounts:
        return skip("no local accounts of people on these nodes")
    names, uids = Counter(a.name for a in accounts), Counter(a.uid for a in accounts)
    if apart := sorted(name for name, n in names.items() if n > 1):
        words = [f"{name}: {_where({a.uid for a in accounts if a.name == name}, name, users)}" for name in apart]
        return fail(f"one account, different uids: {some(words)}", seen=apart)
    if shared := sorted(uid for uid, n in uids.items() if n > 1):
        words = [f"{uid} = {' or '.join(sorted(a.name for a in accounts if a.uid == uid))}" for uid in shared]
        return warn(f"one uid, different accounts: {some(words)}", seen=shared)
    return ok(f"{len(names)} local accounts have the same uid on {len(users)} nodes", seen=len(names))


def _where(uids: set[int], name: str, users: Fleet[Users]) -> str:
    """Which nodes give the account which number."""
    found = {node: str(a.uid) for node, u in users.items() for a in u.ordinary if a.name == name and a.uid in uids}
    return told(by_value(found))


@check(
    "sudo.usable",
    category="orchestration",
    severity="low",
    criteria=("orch-sane-defaults",),
    why="A tenant who rents whole nodes and cannot become root cannot install, tune or repair anything.",
    fix="Install sudo, give it back its mode (chmod 4755 /usr/bin/sudo) and put administrators into its group.",
)
def usable(sudo: Sudo, place: Virtualisation | Missing) -> Verdict:
    """Passes when this session came through sudo or sudoers names an administrator; root without sudo is fine."""
    if elsewhere := not_the_host(place, "sudo settings"):
        return elsewhere
    if sudo.through_sudo:
        return ok(f"sudo made {sudo.user} root for this audit")
    if sudo.binary is None and sudo.reader_uid == 0:
        return skip("the audit ran as root; sudo is not installed")
    if reason := _powerless(sudo):
        return warn(reason, seen=sudo.binary)
    return _administrators(sudo)


def _powerless(sudo: Sudo) -> str:
    """Why sudo cannot give anybody rights, "" when it can."""
    if sudo.binary is None:
        return "sudo is not installed"
    if not sudo.binary.mode & 0o4000 or sudo.binary.uid:
        return f"{sudo.binary.path} is {sudo.binary.mode:04o} of uid {sudo.binary.uid} and cannot give rights"
    return "the kernel forbids this session to gain rights (no_new_privs)" if sudo.no_new_privs else ""


def _administrators(sudo: Sudo) -> Verdict:
    if sudo.rules is None:
        group = f"; this user is in group {sudo.in_admin_group[0]}" if sudo.in_admin_group else ""
        return skip(f"sudoers was not readable{group}", "denied")
    admins = dict.fromkeys(w for r in sudo.rules if r.everything for w in r.who if w not in ("root", "%root"))
    if admins:
        return ok(f"sudoers names {some(admins)}", seen=list(admins))
    if not sudo.complete:
        return unknown("part of sudoers was not readable", "too-little")
    return warn("sudoers names no administrator besides root")


@check(
    "users.identity-provider",
    category="orchestration",
    severity="low",
    criteria=("orch-external-iam", "orch-rbac-sso", "exp-slurm-idp"),
    why="Local accounts outlive the people they were made for; with one sign-on, leaving the company ends all access.",
    fix="Join the nodes to the identity provider: sssd (LDAP, AD, Entra ID), OS Login, or SSH certificates "
    "(TrustedUserCAKeys).",
)
def identity_provider(users: Users, sshd: Sshd | Missing, place: Virtualisation | Missing) -> Verdict:
    """Passes when accounts, PAM or SSH keys come from outside the node; the sign-on of a portal is not visible here."""
    if elsewhere := not_the_host(place, "sign-on"):
        return elsewhere
    wired = [*_directories(users), *_pam(users), *_ssh(sshd)]
    if wired:
        return ok(f"sign-on from outside: {some(dict.fromkeys(wired))}", seen=wired)
    if users.sssd is None:
        return skip("sssd.conf is there and was not readable", "denied")
    if users.directories is None:
        return unknown("nsswitch.conf does not say where accounts come from", "too-little")
    return warn("local accounts only: no directory, identity provider or SSH certificate is wired")


def _directories(users: Users) -> list[str]:
    """What gives accounts besides files. `sss` stands in nsswitch.conf by default: it counts with a provider only."""
    named = [name for name in users.directories or () if name not in ("sss", "mymachines", "hesiod")]
    remote = sorted(set(users.sssd or ()) - _LOCAL_SSSD)
    if remote:
        return [*named, *(f"sssd ({name})" for name in remote)]
    return [*named, "sssd"] if users.sssd is None and users.sssd_runs else named


def _pam(users: Users) -> list[str]:
    """PAM modules of an identity provider; pam_sss and pam_krb5 come with packages and need more than their line."""
    return [m for m in users.pam if m != "pam_sss" and (m != "pam_krb5" or users.realm)]


def _ssh(sshd: Sshd | Missing) -> list[str]:
    if isinstance(sshd, Missing):
        return []
    ways = {"trustedusercakeys": "SSH certificates", "authorizedkeyscommand": "SSH keys from a command"}
    return [text for keyword, text in ways.items() if sshd.one(keyword) not in (None, "none")]
