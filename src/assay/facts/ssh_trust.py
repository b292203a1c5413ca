"""What lets a user go from node to node by ssh without a password; nothing is connected to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import field

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact, Stat

_LINE = re.compile(r"^[ \t]*([A-Za-z]+)[ \t=]+([^\s#][^\n#]*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_ADOPT = re.compile(r"^[^#\n]*\bpam_slurm(?:_adopt)?\.so", re.MULTILINE)
_HOMES = ("/home/*/.ssh", "/shared/home/*/.ssh", "/mnt/*/home/*/.ssh", "/data/home/*/.ssh", "/lustre/home/*/.ssh")


class SshTrust(Fact, frozen=True):
    """The client's settings by lower-case keyword, host trust and users' keys as far as they can be seen.

    `keys` = private keys, `authorized` = authorized_keys files (paths). `adopt` = only users with a job get in.
    """

    client: dict[str, str] = field(default_factory=dict)
    shosts: bool = False
    keysign: bool = False
    known_hosts: bool = False
    keys: tuple[str, ...] = ()
    authorized: tuple[str, ...] = ()
    adopt: bool = False


@source(
    Probe(
        "access.ssh-trust",
        (
            Files("client", ("/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d/*.conf")),
            Stat("shosts", ("/etc/ssh/shosts.equiv", "/etc/hosts.equiv")),
            Stat("keysign", ("/usr/lib/openssh/ssh-keysign", "/usr/libexec/openssh/ssh-keysign")),
            Stat("known", ("/etc/ssh/ssh_known_hosts",)),
            Stat("keys", tuple(f"{home}/id_[a-z0-9]*" for home in _HOMES), limit=128),
            Stat("authorized", tuple(f"{home}/authorized_keys" for home in _HOMES), limit=128),
            Files("pam", ("/etc/pam.d/sshd",)),
        ),
        root="users' .ssh directories are readable by themselves and by root only",
    ),
    sees_missing=True,
)
def ssh_trust(raw: RawFact) -> SshTrust | Missing:
    """Host-based trust and users' keys; the contents of keys are never read."""
    if not raw.files("client") and raw.read("client").state == "absent":
        return Missing("absent", "no ssh client is set up on this node")
    return SshTrust(
        client=client_settings(raw.files("client").values()),
        shosts=bool(raw.files("shosts")),
        keysign=any(stat.split()[1:2][0][:1] in "4567" for stat in raw.files("keysign").values()),
        known_hosts=bool(raw.files("known")),
        keys=tuple(p for p in sorted(raw.files("keys")) if not p.endswith(".pub")),
        authorized=tuple(sorted(raw.files("authorized"))),
        adopt=bool(_ADOPT.search(raw.out("pam"))),
    )


def client_settings(texts: Iterable[str]) -> dict[str, str]:
    """Keywords of ssh_config; the first value counts, as for ssh itself."""
    found: dict[str, str] = {}
    for text in texts:
        for keyword, value in _LINE.findall(text):
            found.setdefault(keyword.lower(), value)
    return found
