"""Listening TCP and UDP sockets of the node's network namespace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from assay.facts.source import source
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact

_USERS = re.compile(r'\("([^"]*)",(?:pid=)?(\d+),(?:fd=)?\d+\)')
_NETIDS = frozenset({
    "tcp", "udp", "raw", "mptcp", "sctp", "dccp", "icmp6", "p_raw", "p_dgr", "nl", "u_str", "u_dgr", "u_seq", "???",
    "ti_rd", "ti_sq", "ti_st", "ti_dg", "v_str", "v_dgr", "xdp", "unix",
})  # fmt: skip
_STATES = frozenset({
    "LISTEN", "UNCONN", "ESTAB", "TIME-WAIT", "CLOSE-WAIT", "SYN-SENT", "SYN-RECV", "FIN-WAIT-1", "FIN-WAIT-2",
    "LAST-ACK", "CLOSING", "CLOSED", "UNKNOWN",
})  # fmt: skip
_HEADER = re.compile(r"^(?:Netid\s+)?State\s+Recv-Q\s+Send-Q")


class Listener(Struct, frozen=True):
    """One listening socket. `process` is "" when the reader may not see it; `wildcard` = on every address."""

    proto: str
    address: str
    port: int
    process: str = ""

    @property
    def wildcard(self) -> bool:
        """True for 0.0.0.0 and [::]."""
        return self.address in ("0.0.0.0", "::", "*")  # noqa: S104 - compared, not bound

    @property
    def loopback(self) -> bool:
        """True when only processes of this host can connect."""
        return self.address.startswith(("127.", "::ffff:127.")) or self.address == "::1"


class ListeningSockets(Fact, frozen=True):
    """Every socket that accepts, once per protocol, address and port; `complete` is false when a table was cut."""

    sockets: tuple[Listener, ...] = ()
    complete: bool = True


@source(
    Probe(
        "access.sockets",
        (
            Files("tables", tuple(f"/proc/net/{name}" for name in ("tcp", "tcp6", "udp", "udp6")), cap=1 << 19),
            # PROC_ROOT makes ss read /proc; its netlink way would load kernel modules.
            Exec("ss", ("env", "PROC_ROOT=/proc", "ss", "-Htulpn"), timeout_s=5.0),
        ),
        root="only root sees which process listens",
    )
)
def listening_sockets(raw: RawFact) -> ListeningSockets | Missing:
    """The kernel's tables, with the names of processes where `ss` could tell them."""
    tables = raw.read("tables")
    if not tables.files:
        return Missing("absent", "/proc/net has no socket tables")
    names = {(r.proto, r.address, r.port): r.processes[0] for r in ss_rows(raw.out("ss")) if r.processes}
    seen = {
        (proto, address, port): Listener(proto, address, port, names.get((proto, address, port), ""))
        for path, text in tables.files.items()
        for proto, address, port in proc_net(path.rsplit("/", 1)[-1], text)
    }
    return ListeningSockets(sockets=tuple(seen[key] for key in sorted(seen)), complete=not tables.cut)


def proc_net(name: str, text: str) -> Iterator[tuple[str, str, int]]:
    """(protocol, address, port) of the accepting sockets in /proc/net/{tcp,tcp6,udp,udp6}."""
    proto = name.removesuffix("6")
    mark = " 0A " if proto == "tcp" else " 07 "
    for line in text.splitlines():
        if mark not in line:
            continue
        words = line.split(None, 4)
        if len(words) == 5 and words[3] == mark.strip() and words[2].endswith(":0000"):
            address, _, port = words[1].partition(":")
            yield proto, _address(address), int(port, 16)


def _address(digits: str) -> str:
    """Address of the kernel's hex words, which are little-endian on every machine with GPUs."""
    data = b"".join(bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8))
    return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}" if len(data) == 4 else _ipv6(data)


def _ipv6(data: bytes) -> str:
    import ipaddress  # noqa: PLC0415 - slow to import and hardly ever needed

    if data[:12] == b"\x00" * 10 + b"\xff\xff":
        return "::ffff:" + ".".join(map(str, data[12:]))
    return "::" if not any(data) else str(ipaddress.IPv6Address(data))


class SsRow(Struct, frozen=True):
    """One row of `ss`. `port` is None where a name or "*" stands; (name, pid) pairs become `processes` and `pids`."""

    proto: str
    state: str
    recv_q: int
    send_q: int
    address: str
    port: int | None
    peer: str
    processes: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()


class SsTable(Struct, frozen=True):
    """What `ss` printed: the words of its header ("" without one) and the rows."""

    header: tuple[str, ...]
    rows: tuple[SsRow, ...]


def ss_table(text: str) -> SsTable:
    """Any of ss -t/-u/-l/-n/-p/-e; ValueError when no line is one of its own."""
    head = next((line for line in text.splitlines() if _HEADER.match(line)), "")
    table = SsTable(tuple(head.split()), tuple(ss_rows(text)))
    if not head and not table.rows:
        raise ValueError("no row of ss in it")
    return table


def ss_rows(text: str) -> Iterator[SsRow]:
    """Rows with or without the Netid column; lines of another shape are passed over."""
    for line in text.splitlines():
        words = line.split(None, 6)
        if words and words[0] in _NETIDS:
            netid, words = words[0], words[1:]
        else:
            netid, words = "", line.split(None, 5)
        if len(words) >= 5 and words[0] in _STATES and words[1].isdecimal() and words[2].isdecimal():
            yield _ss_row(netid, words)


def _ss_row(netid: str, words: list[str]) -> SsRow:
    state, recv_q, send_q, local, peer = words[:5]
    address, _, port = local.rpartition(":")
    users = _USERS.findall(words[5]) if len(words) > 5 else []
    return SsRow(
        proto=netid or {"LISTEN": "tcp", "UNCONN": "udp"}.get(state, ""),
        state=state,
        recv_q=int(recv_q),
        send_q=int(send_q),
        address=_plain(address),
        port=int(port) if port.isdecimal() else None,
        peer=peer,
        processes=tuple(dict.fromkeys(name for name, _ in users)),
        pids=tuple(int(pid) for _, pid in users),
    )


def _plain(address: str) -> str:
    """Without brackets and interface; "*" is how ss writes a socket that takes IPv6 and IPv4."""
    bare = address.partition("%")[0].strip("[]")
    return "::" if bare == "*" else bare


FORMATS: dict[str, Callable[[str], Any]] = {"ss -tulpn": ss_table, "ss -tulpen": ss_table, "ss -tlnp": ss_table}
