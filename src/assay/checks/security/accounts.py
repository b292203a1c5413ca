"""Accounts and rights that undo every other protection of a host."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.sudo import Sudo
from assay.facts.users import Users
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.access import Access


@check(
    "users.one-root",
    category="security",
    severity="high",
    criteria=("orch-sane-defaults",),
    why="A second account with uid 0 is root under a name that nobody watches.",
    fix="Give the account a uid of its own: usermod -u UID NAME; find what it owned with: find / -xdev -user 0.",
)
def one_root(users: Users, place: Virtualisation | Missing) -> Verdict:
    """Fails when /etc/passwd gives uid 0 to any account besides root."""
    if elsewhere := not_the_host(place, "accounts"):
        return elsewhere
    if others := [name for name in users.uid0 if name != "root"]:
        return fail(f"uid 0 besides root: {some(others)}", seen=others)
    if not users.complete:
        return unknown("/etc/passwd was cut or has broken lines", "too-little")
    return ok("root alone has uid 0") if users.uid0 else unknown("no account has uid 0", "unrecognised")


@check(
    "users.passwords",
    category="security",
    severity="critical",
    criteria=("orch-sane-defaults",),
    why="An empty password field lets anyone in; a hash in the world-readable file can be cracked by any user.",
    fix="Run: pwconv; then lock or set the named accounts: passwd -l NAME.",
)
def passwords(users: Users, place: Virtualisation | Missing) -> Verdict:
    """Fails when a password field of /etc/passwd is empty or holds a hash instead of pointing to shadow."""
    if elsewhere := not_the_host(place, "accounts"):
        return elsewhere
    if users.empty_password:
        return fail(f"no password asked: {some(users.empty_password)}", seen=users.empty_password)
    if users.unshadowed:
        return fail(f"password hash in /etc/passwd: {some(users.unshadowed)}", seen=users.unshadowed)
    if not users.complete:
        return unknown("/etc/passwd was cut or has broken lines", "too-little")
    return ok(f"all {users.total} local accounts point to shadow")


@check(
    "sudo.not-for-everyone",
    category="security",
    severity="critical",
    criteria=("orch-sane-defaults", "orch-user-group-permissions"),
    why="A rule for everyone without a password makes every account, and every stolen one, root.",
    fix="Take the rule out with `visudo -f FILE` and name the administrators' group instead.",
    refs=("sudoers(5)",),
)
def not_for_everyone(sudo: Sudo, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Fails when sudoers lets all users run everything as root without a password; needs root to read it."""
    if elsewhere := not_the_host(place, "sudoers"):
        return elsewhere
    if sudo.rules is None:
        return skip("sudoers was not readable" if sudo.binary else "sudo is not installed", "denied")
    everyone = bars.everyone.names
    for rule in sudo.rules:
        if rule.nopasswd and rule.everything and (who := everyone.intersection(rule.who)):
            return fail(f"{some(sorted(who))} may do everything without a password ({rule.file})", seen=rule)
    if not sudo.complete:
        return unknown("part of sudoers was not readable", "too-little")
    return ok(f"none of {len(sudo.rules)} rules is for everyone")


@check(
    "users.root-equivalent-groups",
    category="security",
    severity="medium",
    criteria=("sec-container-escape-protection", "orch-user-group-permissions"),
    why="Whoever may talk to the container daemon mounts the host's disk and is root, without sudo and without a log.",
    fix="Remove them (gpasswd -d NAME GROUP) and offer rootless containers, Apptainer or Enroot instead.",
    refs=("https://docs.docker.com/engine/security/#docker-daemon-attack-surface",),
)
def root_groups(users: Users, sudo: Sudo | Missing, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Warns when a local group that amounts to root has members who are no administrators by sudo."""
    if elsewhere := not_the_host(place, "groups"):
        return elsewhere
    names = bars.root_groups.names
    members = {f"{m} ({g.name})": m for g in users.groups if g.name in names for m in g.members}
    admins = _admins(sudo)
    found = sorted(text for text, name in members.items() if name not in admins and name != "root")
    if not found:
        return ok("groups that amount to root hold administrators only" if members else "no such group has members")
    if isinstance(sudo, Missing) or sudo.rules is None:
        return unknown(
            f"root through a group: {some(found)}; whether they are administrators is in sudoers", "too-little"
        )
    return warn(f"root through a group: {some(found)}", seen=found, bar=bars.root_groups.cited("administrators"))


def _admins(sudo: Sudo | Missing) -> frozenset[str]:
    if isinstance(sudo, Missing):
        return frozenset()
    return frozenset(sudo.admins).union(*(rule.who for rule in sudo.rules or () if rule.everything))
