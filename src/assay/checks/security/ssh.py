"""Logging in over SSH."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.sshd import Sshd
from assay.model import Verdict
from assay.profiles.access import Access

_KEY_ONLY = frozenset({"prohibit-password", "without-password", "forced-commands-only"})
_RELOAD = "then run: sshd -t && systemctl reload ssh (or sshd)"


def _value(sshd: Sshd, keyword: str, bars: Access) -> str:
    return sshd.one(keyword) or bars.ssh_defaults.settings.get(keyword, "")


def _uncertain(sshd: Sshd) -> Verdict | None:
    """Where a file that is read first was closed to us, what the others say may not hold."""
    if not sshd.complete:
        return skip("a file that sshd_config includes was not readable", "denied")
    return None


def _passwords(sshd: Sshd, bars: Access) -> bool:
    """Whether some way in asks for the account's password."""
    methods = _value(sshd, "authenticationmethods", bars)
    if methods != "any" and "password" not in methods and "keyboard-interactive" not in methods:
        return False
    keyboard = _value(sshd, "kbdinteractiveauthentication", bars) == "yes" and _value(sshd, "usepam", bars) == "yes"
    return keyboard or _value(sshd, "passwordauthentication", bars) == "yes"


def _blocks(sshd: Sshd, keyword: str, value: str) -> list[str]:
    """Criteria of the Match blocks that set a keyword to this value."""
    return [m.criteria for m in sshd.matches if m.settings.get(keyword, ("",))[0].lower() == value]


@check(
    "ssh.root-login",
    category="security",
    severity="high",
    criteria=("orch-sane-defaults",),
    why="Root with a password is what every scanner on the network tries first, and one guess gives the whole node.",
    fix=f"Set `PermitRootLogin prohibit-password` (or no) in sshd_config, {_RELOAD}.",
    refs=("sshd_config(5)",),
)
def root_login(sshd: Sshd, bars: Access) -> Verdict:
    """Fails when root may log in and some method accepts a password; a Match block that does so is a warning."""
    root = _value(sshd, "permitrootlogin", bars)
    if unsure := _uncertain(sshd):
        return unsure
    if root not in _KEY_ONLY | {"yes", "no"}:
        return unknown(f"PermitRootLogin is {root!r}", seen=root)
    passwords = _passwords(sshd, bars)
    if root == "yes" and passwords:
        return fail("root may log in with a password", seen={"PermitRootLogin": root, "passwords": True})
    if passwords and (blocks := _blocks(sshd, "permitrootlogin", "yes")):
        return warn(f"root may log in with a password in Match {some(blocks)}", seen=blocks)
    return ok("root may not log in" if root == "no" else "root logs in by key only", seen=root)


@check(
    "ssh.password-login",
    category="security",
    severity="medium",
    criteria=("orch-sane-defaults",),
    why="Passwords on a node that the internet reaches are guessed or reused; keys and certificates are not.",
    fix=f"Set `PasswordAuthentication no` and `KbdInteractiveAuthentication no` in sshd_config, {_RELOAD}.",
    refs=("sshd_config(5)",),
)
def password_login(sshd: Sshd, bars: Access) -> Verdict:
    """Warns when sshd accepts passwords, directly or through PAM, for everyone or in a Match block."""
    if unsure := _uncertain(sshd):
        return unsure
    if _passwords(sshd, bars):
        return warn("passwords are accepted", seen=_value(sshd, "passwordauthentication", bars))
    if blocks := _blocks(sshd, "passwordauthentication", "yes"):
        return warn(f"passwords are accepted in Match {some(blocks)}", seen=blocks)
    return ok("keys or certificates only")


@check(
    "ssh.empty-passwords",
    category="security",
    severity="critical",
    criteria=("orch-sane-defaults",),
    why="An account without a password is open to whoever reaches port 22.",
    fix=f"Remove `PermitEmptyPasswords yes` from sshd_config, {_RELOAD}.",
    refs=("sshd_config(5)",),
)
def empty_passwords(sshd: Sshd, bars: Access) -> Verdict:
    """Fails when PermitEmptyPasswords is yes, for everyone or in a Match block."""
    value = _value(sshd, "permitemptypasswords", bars)
    if unsure := _uncertain(sshd):
        return unsure
    if value == "yes":
        return fail("empty passwords are accepted", seen=value)
    if blocks := _blocks(sshd, "permitemptypasswords", "yes"):
        return fail(f"empty passwords are accepted in Match {some(blocks)}", seen=blocks)
    return ok("empty passwords are refused") if value == "no" else unknown(f"PermitEmptyPasswords is {value!r}")


@check(
    "ssh.algorithms",
    category="security",
    severity="medium",
    criteria=("orch-sane-defaults",),
    why="Broken ciphers and key exchanges let someone on the path read or change a session.",
    fix=f"Take the named algorithms out of Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms, {_RELOAD}.",
    refs=("https://www.openssh.com/releasenotes.html",),
)
def algorithms(sshd: Sshd, bars: Access) -> Verdict:
    """Warns when a configured list holds an algorithm that OpenSSH itself withdrew, or protocol 1 is on.

    Where nothing is configured OpenSSH's own lists hold, from which it removes what it withdraws.
    """
    known = {k: sshd.one(k) or "" for k in ("ciphers", "macs", "kexalgorithms", "hostkeyalgorithms")}
    words = {w for value in known.values() if value[:1] != "-" for w in value.lstrip("+^").split(",")}
    broken = sorted(words & bars.broken_algorithms.names)
    if "1" in (sshd.one("protocol") or "").split(","):
        broken.insert(0, "protocol 1")
    bar = bars.broken_algorithms.cited("none of the withdrawn algorithms")
    if broken:
        return warn(f"offers {some(broken)}", seen=broken, bar=bar)
    if unsure := _uncertain(sshd):
        return unsure
    return ok("no withdrawn algorithm" if words - {""} else "OpenSSH's own lists, unchanged", bar=bar)
