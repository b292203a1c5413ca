"""The answers of emulated programs: one process for all hosts, asked over a socket that each host sees in /run/lab."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
import traceback

import msgspec

from assay.errors import AssayError
from assay.lab import emulation
from assay.lab.actions import act
from assay.lab.control import CREDENTIALS, Lab
from assay.lab.emulation import Picture
from assay.lab.node import Plan
from assay.lab.site import say
from assay.lab.spec import Host, hosts
from assay.lab.virtual import Output

_CLIENT_S, _LONGEST = 2.0, 1 << 18
NOT_EMULATED = 64


class Drivers:
    """Pictures of all hosts as their states are now, and callers whom nobody answers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pictures: dict[str, tuple[int, Picture]] = {}
        self.hung: list[socket.socket] = []

    def picture(self, host: Host) -> Picture:
        """What the host's hardware shows now."""
        state = self.plan.site.host(host.name).state
        written = state.stat().st_mtime_ns
        known = self.pictures.get(host.name)
        if known is None or known[0] != written:
            text = state.read_text(encoding="utf-8")
            known = written, emulation.picture(host, self.plan.spec, emulation.state_of(text))
            self.pictures[host.name] = known
        return known[1]

    def serve(self, host: Host, listening: socket.socket) -> None:
        """One call of a program; of one that hangs, the caller waits until it is killed."""
        client, _ = listening.accept()
        client.settimeout(_CLIENT_S)
        with contextlib.suppress(OSError, ValueError, AssayError):
            argv = [str(word) for word in json.loads(_all(client))]
            output = self.acted(host, argv, root=_by_root(client)) or self.output(self.picture(host), argv)
            if output is None:
                self.hung = [*self.hung[-255:], client]
                return
            client.sendall(json.dumps({"out": output.out, "err": output.err, "rc": output.rc}).encode())
        client.close()

    def acted(self, host: Host, argv: list[str], *, root: bool) -> Output | None:
        """What a program says that changes something; None where this one only shows."""
        state = emulation.state_of(self.plan.site.host(host.name).state.read_text(encoding="utf-8"))
        done = act(argv, self.plan.spec, state, root=root)
        if done is None:
            return None
        lab = Lab(self.plan.spec.name)
        if done.state is not None and done.state != state:
            lab.ask("state", host.name, fields=msgspec.to_builtins(done.state))
        if done.record:
            lab.ask("kmsg", host.name, text=done.record)
        return done.output

    def output(self, shown: Picture, argv: list[str]) -> Output | None:
        """What the program says; None when it hangs."""
        name = argv[0].rpartition("/")[2]
        path = next((path for path in shown.programs if path.rpartition("/")[2] == name), "")
        if path in shown.host.hung:
            return None
        try:
            return shown.host.commands[path]((path, *argv[1:]), shown.host)
        except LookupError:
            return Output(err=f"{name}: not emulated: {' '.join(argv[1:])}\n", rc=NOT_EMULATED)


def _by_root(client: socket.socket) -> bool:
    raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(raw)[1] == 0)


def _all(client: socket.socket) -> bytes:
    data = b""
    while len(data) < _LONGEST and (chunk := client.recv(1 << 16)):
        data += chunk
    return data


def start(plan: Plan) -> int:
    """Fork the process that answers; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            _serve(plan)
        except BaseException:  # noqa: BLE001 - the fork may not run on as if it were the supervisor
            traceback.print_exc(file=sys.stderr)
            say("the emulated drivers ended")
        finally:
            os._exit(1)
    return pid


def _serve(plan: Plan) -> None:
    drivers = Drivers(plan)
    with selectors.DefaultSelector() as selector:
        for host in hosts(plan.spec):
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            path = plan.site.host(host.name).driver
            listening.bind(str(path))
            path.chmod(0o666)
            listening.listen(64)
            selector.register(listening, selectors.EVENT_READ, (host, listening))
        while True:
            for key, _ in selector.select():
                drivers.serve(*key.data)
