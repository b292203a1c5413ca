"""Units, processes and sockets of an invented host, and the tools that list them."""

from __future__ import annotations

import itertools
import json

from msgspec import Struct

from assay.lab.parts import Parts
from assay.lab.tree import TreeError
from assay.lab.virtual import Output, Tool, VirtualHost

_TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
_ANY = {"0.0.0.0": "00000000", "127.0.0.1": "0100007F"}  # noqa: S104 - written, not bound


class Socket(Struct, frozen=True):
    """One listening IPv4 socket and the process behind it."""

    process: str
    port: int
    address: str = "127.0.0.1"
    proto: str = "tcp"


class Service(Struct, frozen=True, kw_only=True):
    """One unit: its description, its process (as ps cuts the name) with arguments, and whether it failed."""

    unit: str
    about: str
    process: str = ""
    arguments: str = ""
    state: str = "active running"
    enabled: bool = True


class Timer(Struct, frozen=True, kw_only=True):
    """One timer: microseconds since the epoch of its last and next start."""

    unit: str
    last: int
    next: int


def services(units: list[Service], sockets: list[Socket], timers: list[Timer]) -> Parts:
    """systemctl, ps, ss and what the kernel shows of the same things."""
    parts = Parts()
    for unit in units:
        if unit.state == "active running":
            parts.directory(f"/sys/fs/cgroup/system.slice/{unit.unit}.service")
        parts.files[f"/usr/lib/systemd/system/{unit.unit}.service"] = f"[Unit]\nDescription={unit.about}\n"
        if unit.enabled:
            wants = f"/etc/systemd/system/multi-user.target.wants/{unit.unit}.service"
            parts.links[wants] = f"/usr/lib/systemd/system/{unit.unit}.service"
    parts.links["/lib/systemd"] = "/usr/lib/systemd"
    parts.commands["/usr/bin/systemctl"] = _systemctl(units, timers)
    parts.commands["/usr/bin/ps"] = _ps(units)
    parts.commands["/usr/bin/ss"] = _ss(sockets)
    parts.commands["/usr/bin/env"] = _env
    parts.commands["/usr/bin/tail"] = _tail
    for proto, state in (("tcp", "0A"), ("udp", "07")):
        rows = [s for s in sockets if s.proto == proto]
        parts.files[f"/proc/net/{proto}"] = _TCP + "".join(_row(n, s, state) for n, s in enumerate(rows))
        parts.files[f"/proc/net/{proto}6"] = _TCP.replace("address rem", "address                         remote")
    return parts


def _row(n: int, socket: Socket, state: str) -> str:
    return (
        f"{n:>4}: {_ANY[socket.address]}:{socket.port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000"
        f"     0        0 {30000 + n} 1 0000000000000000 100 0 0 10 0\n"
    )


def _systemctl(units: list[Service], timers: list[Timer]) -> Tool:
    known = {f"{u.unit}.service": u for u in units}

    def line(u: Service) -> str:
        return f"{u.unit}.service loaded {u.state} {u.about}\n"

    def tool(argv: tuple[str, ...], host: VirtualHost) -> Output:
        if argv[1] == "show":
            state = known[argv[2]].state.split() if argv[2] in known else ["inactive", "dead"]
            load = "loaded" if argv[2] in known else "not-found"
            return Output(f"LoadState={load}\nActiveState={state[0]}\nSubState={state[1]}\n")
        if argv[1] == "list-timers":
            rows = [
                {
                    "next": t.next,
                    "left": t.next,
                    "last": t.last,
                    "passed": t.last,
                    "unit": f"{t.unit}.timer",
                    "activates": f"{t.unit}.service",
                }
                for t in timers
            ]
            return Output(json.dumps(rows) + "\n")
        if argv[1] != "list-units":
            raise LookupError(f"{host.name}: no answer to {' '.join(argv)}")
        failed = "--state=failed" in argv
        return Output("".join(line(u) for u in units if not failed or "failed" in u.state))

    return tool


def _ps(units: list[Service]) -> Tool:
    def tool(argv: tuple[str, ...], _host: VirtualHost) -> Output:
        wanted = argv[argv.index("-C") + 1].split(",")
        full = argv[-1] == "comm=,args="
        rows = [u for u in units if u.process in wanted and u.state == "active running"]
        text = "".join(f"{u.process:<15} {u.arguments}\n" if full else f"{u.process}\n" for u in rows)
        return Output(text, rc=0 if rows else 1)

    return tool


def _ss(sockets: list[Socket]) -> Tool:
    def tool(_argv: tuple[str, ...], host: VirtualHost) -> Output:
        text = ""
        for n, s in enumerate(sockets):
            users = f'users:(("{s.process}",pid={900 + n},fd=7))' if host.uid == 0 else ""
            state = "LISTEN" if s.proto == "tcp" else "UNCONN"
            text += f"{s.proto}   {state} 0      4096 {f'{s.address}:{s.port}':>22}        0.0.0.0:*    {users}\n"
        return Output(text)

    return tool


def _env(argv: tuple[str, ...], host: VirtualHost) -> Output:
    """`env NAME=value ... program arguments`."""
    rest = tuple(itertools.dropwhile(lambda word: "=" in word, argv[1:]))
    program, _ = host.find(rest[0])
    return host.commands[program](rest, host)


def _tail(argv: tuple[str, ...], host: VirtualHost) -> Output:
    """`tail -n N FILE` and `tail -c N FILE`."""
    path = argv[-1]
    try:
        text = host.tree.content(path)
    except TreeError as e:
        words = "Permission denied" if e.code == "EACCES" else "No such file or directory"
        return Output(err=f"tail: cannot open '{path}' for reading: {words}\n", rc=1)
    count = int(argv[2])
    return Output("".join(text.splitlines(keepends=True)[-count:]) if argv[1] == "-n" else text[-count:])
