"""Pieces of an invented host, put together one after the other; a later piece takes the place of an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.lab.virtual import Output, Tool, VirtualHost


@dataclass
class Parts:
    """Files, links, modes, programs and variables of a host under construction."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    commands: dict[str, Tool] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    clock: dict[str, str] = field(default_factory=dict)

    def add(self, other: Parts) -> None:
        """Take in another piece; its entries win."""
        for name in ("files", "links", "modes", "commands", "environment", "clock"):
            getattr(self, name).update(getattr(other, name))

    def put(self, directory: str, values: Mapping[str, object]) -> None:
        """Small files of one directory, a line each."""
        self.files.update({f"{directory}/{name}": f"{value}\n" for name, value in values.items()})

    def directory(self, *paths: str) -> None:
        """Directories that may be empty."""
        self.modes.update(dict.fromkeys(paths, "d 0755 0 0 0:0"))

    def node(self, path: str, mode: str, device: str, gid: int = 0) -> None:
        """A character device of root."""
        self.modes[path] = f"c {mode} 0 {gid} {device}"

    def program(self, path: str, answers: Mapping[str, Output | str]) -> None:
        """A program that knows these arguments (joined by blanks) and nothing else."""
        self.commands[path] = says(answers)

    def without(self, *prefixes: str) -> None:
        """Take away everything at or below the paths."""
        for table in (self.files, self.links, self.modes, self.commands):
            for path in [p for p in table if any(p == x or p.startswith(f"{x}/") for x in prefixes)]:
                del table[path]

    def host(  # noqa: PLR0913 - who reads it, and what does not answer
        self,
        name: str,
        at: float,
        *,
        uid: int = 0,
        groups: Iterable[int] = (),
        hung: Iterable[str] = (),
        denied: Iterable[str] = (),
    ) -> VirtualHost:
        """The host that these parts make, as one user sees it."""
        return VirtualHost(
            name, self.files, self.links, self.modes, self.commands, self.environment, frozenset(hung),
            frozenset(denied), self.clock, uid, frozenset(groups), at,
        )  # fmt: skip


def says(answers: Mapping[str, Output | str]) -> Tool:
    """A program with fixed answers."""
    table = {arguments: Output(said) if isinstance(said, str) else said for arguments, said in answers.items()}

    def tool(argv: tuple[str, ...], host: VirtualHost) -> Output:
        arguments = " ".join(argv[1:])
        if arguments not in table:
            raise LookupError(f"{host.name}: no answer to {argv[0]} {arguments}"[:300])
        return table[arguments]

    return tool


def says_json(value: object) -> Tool:
    """A program that prints one JSON object whatever it is asked."""
    text = json.dumps(value) + "\n"
    return lambda _argv, _host: Output(text)
