"""What the supervisor answers on its control socket: a JSON line in, a JSON line out, and a pidfd where asked for."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.errors import AssayError
from assay.lab import network
from assay.lab.site import say

if TYPE_CHECKING:
    from assay.lab.supervisor import Machine, Supervisor

_CLIENT_S = 5.0
_LONGEST = 1 << 20
_LOG_BYTES = 1 << 20


class Requests:
    """Answers for one lab."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.lab = supervisor

    def serve(self, listening: socket.socket) -> None:
        """One client: its request and the answer. A client that says nothing is let go."""
        client, _ = listening.accept()
        with client:
            client.settimeout(_CLIENT_S)
            try:
                line = _line(client)
                if not line:  # somebody who only looked whether we are here
                    return
                reply, fds = self.answer(json.loads(line))
                socket.send_fds(client, [json.dumps(reply).encode() + b"\n"], fds)
            except (OSError, ValueError) as e:
                say(f"control: {e}")

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """(what to say, file descriptors to hand over)."""
        operation, host = str(request.get("op")), str(request.get("host", ""))
        try:
            if operation == "enter":
                return {"ok": True}, [self.pidfd(host)]
            return {"ok": True, **self.action(operation, host)(host, request)}, []
        except (AssayError, OSError, LookupError, ValueError, TypeError) as e:
            return {"ok": False, "error": str(e)}, []

    def action(self, operation: str, host: str) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
        """What to do for a request about a host."""
        if operation not in {"status", "scenario"}:
            self.machine(host)
        found = {
            "status": self.do_status, "power": self.do_power, "link": self.do_link, "kmsg": self.do_kmsg,
            "log": self.do_log, "state": self.do_state, "rate": self.do_rate, "scenario": self.do_scenario,
        }.get(operation)  # fmt: skip
        if found is None:
            raise AssayError(f"unknown request {operation!r}")
        return found

    def machine(self, host: str) -> Machine:
        """The host of this name."""
        if host not in self.lab.machines:
            raise AssayError(f"no host {host!r} in this lab")
        return self.lab.machines[host]

    def pidfd(self, host: str) -> int:
        """Of a host's first process."""
        machine = self.machine(host)
        if not machine.pid:
            raise AssayError(f"{host} is {machine.power}")
        return machine.pidfd

    def do_status(self, _host: str, _request: dict[str, Any]) -> dict[str, Any]:
        """The lab and its hosts."""
        return {
            "spec": msgspec.to_builtins(self.lab.plan.spec),
            "trouble": self.lab.trouble,
            "started": not (self.lab.waiting or self.lab.next_scenario),
            "hosts": {
                name: {
                    "role": machine.host.role,
                    "address": machine.host.management,
                    "power": machine.power,
                    "boots": machine.boots,
                    "boot": self.lab.told(name).split("\n")[:-1],
                    "trouble": machine.trouble,
                }
                for name, machine in self.lab.machines.items()
            },
        }

    def do_power(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"to": "on"|"off"}."""
        if request["to"] == "off":
            self.lab.power_off(host)
        elif self.lab.machines[host].power == "off":
            self.lab.boot(host)
        return {}

    def do_link(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"interface": "eth0"|"ib0", "up": bool}."""
        machine, interface, up = self.lab.machines[host], str(request["interface"]), bool(request["up"])
        network.set_link(machine.host, interface, up=up)
        machine.cut = machine.cut - {interface} if up else machine.cut | {interface}
        return {}

    def do_rate(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"interface", "rate": in tc's words, "" for no limit}."""
        machine, interface, rate = self.lab.machines[host], str(request["interface"]), str(request["rate"])
        network.set_rate(machine.host, interface, rate)
        machine.rates[interface] = rate
        return {}

    def do_scenario(self, _host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"name"}: every host is switched off, forgets everything and starts with this scenario."""
        self.lab.start_over(str(request["name"]))
        return {}

    def do_kmsg(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"text"}: a record as the node's kernel would write it."""
        self.lab.tell_kernel_log(host, text=str(request["text"]))
        return {}

    def do_state(self, host: str, request: dict[str, Any]) -> dict[str, Any]:
        """{"fields": of the state of its emulated hardware}."""
        self.lab.set_state(host, dict(request["fields"]))
        return {}

    def do_log(self, host: str, _request: dict[str, Any]) -> dict[str, Any]:
        """The ends of a host's logs, also of one that is off."""
        directory = self.lab.plan.site.host(host).upper / "var/log"
        return {"logs": {path.name: _tail(path) for path in sorted(directory.rglob("*.log"))}}


def _line(client: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LONGEST:
        chunk = client.recv(1 << 16)
        if not chunk:
            break
        data += chunk
    return data


def _tail(path: Path) -> str:
    """The end of a regular file: a host's root could have put anything there."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return ""
        os.lseek(fd, max(about.st_size - _LOG_BYTES, 0), os.SEEK_SET)
        return os.read(fd, _LOG_BYTES).decode("utf-8", "replace")
    finally:
        os.close(fd)
