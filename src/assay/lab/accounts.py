"""Users and groups of the lab's hosts: the machine's system accounts, the daemons' and two tenants. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

_FIRST_PERSON, _NOBODY = 1000, 65534


class Account(Struct, frozen=True):
    """A user with a group of its own."""

    name: str
    uid: int
    home: str
    shell: str = "/usr/sbin/nologin"
    comment: str = ""


DAEMONS = (
    Account("slurm", 64030, "/nonexistent"),
    Account("munge", 64031, "/nonexistent"),
    Account("mysql", 64032, "/nonexistent"),
)
PEOPLE = (
    Account("alice", 1000, "/shared/home/alice", "/bin/bash", "a user"),
    Account("bob", 1001, "/shared/home/bob", "/bin/bash", "a user of another tenant"),
)
ALL = (*DAEMONS, *PEOPLE)


def passwd(host: str) -> str:
    """/etc/passwd, from the machine's."""
    added = (f"{a.name}:x:{a.uid}:{a.uid}:{a.comment}:{a.home}:{a.shell}" for a in ALL)
    return _table([*_system(host), *added])


def group(host: str) -> str:
    """/etc/group, from the machine's."""
    return _table([*_system(host), *(f"{a.name}:x:{a.uid}:" for a in ALL)])


def shadow(passwd_text: str) -> str:
    """/etc/shadow: nobody has a password."""
    return _table(f"{line.split(':')[0]}:*:19700:0:99999:7:::" for line in passwd_text.splitlines())


def _system(text: str) -> Iterator[str]:
    """Entries of system accounts that are not ours."""
    names = {a.name for a in ALL}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[2].isdigit() and fields[0] not in names:
            number = int(fields[2])
            if number < _FIRST_PERSON or number == _NOBODY:
                yield line


def _table(lines: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
