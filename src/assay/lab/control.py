"""A running lab as its user sees it: asked over its socket, entered by the pidfds that it hands out."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from assay.errors import AssayError, UsageError
from assay.lab.site import Site
from assay.lab.spec import Spec, hosts

_ANSWER_S = 30.0
CREDENTIALS = struct.Struct("3i")


class Lab:
    """A lab by its name; whether it is up turns out when it is asked."""

    def __init__(self, name: str = "lab") -> None:
        self.name, self.site = name, Site.of(name)

    def ask(self, operation: str, host: str = "", **words: Any) -> dict[str, Any]:
        """The supervisor's answer; AssayError when it refuses."""
        return self._exchange({"op": operation, "host": host, **words})[0]

    def enter(self, host: str) -> int:
        """A pidfd of the host's first process."""
        fds = self._exchange({"op": "enter", "host": host})[1]
        if not fds:
            raise AssayError(f"{host}: the lab handed out no process")
        return fds[0]

    def spec(self) -> Spec:
        """The settings it was started with."""
        return msgspec.convert(self.ask("status")["spec"], Spec)

    def run(
        self, host: str, argv: Sequence[str], *, user: str = "root", stdin: str = "", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host and wait for it."""
        own = [sys.executable, "-m", "assay.lab.enter", self.name, host, user, *argv]
        return subprocess.run(own, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s)

    def supervisor(self) -> int | None:
        """Process id of the supervisor on this machine; None where none answers."""
        try:
            with self._connected() as sock:
                raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        except UsageError:
            return None
        pid: int = CREDENTIALS.unpack(raw)[0]
        return pid

    def _connected(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(_ANSWER_S)
        try:
            sock.connect(str(self.site.control))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            sock.close()
            hint = "assay lab up" + ("" if self.name == "lab" else f" --name {self.name}")
            raise UsageError(f"no lab {self.name!r} is up", hint=hint) from None
        except PermissionError:
            sock.close()
            raise UsageError("the lab belongs to root", hint="sudo assay lab ...") from None
        return sock

    def _exchange(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        with self._connected() as sock:
            sock.sendall(json.dumps(request).encode() + b"\n")
            data, fds = _received(sock)
        try:
            reply: dict[str, Any] = json.loads(data)
        except ValueError:
            raise AssayError(f"the lab {self.name!r} ended while it was asked") from None
        if not reply.get("ok"):
            raise UsageError(str(reply.get("error")), hint=self._hosts_hint(str(request.get("host", ""))))
        return reply, fds

    def _hosts_hint(self, host: str) -> str:
        if not host or request_is_about_state(host, self.site):
            return ""
        return "assay lab status lists its hosts"


def request_is_about_state(host: str, site: Site) -> bool:
    """True when the lab was asked about a host that it has."""
    try:
        spec = msgspec.json.decode((site.directory / "spec.json").read_bytes(), type=Spec)
    except (OSError, msgspec.DecodeError):
        return False
    return host in {known.name for known in hosts(spec)}


def _received(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Everything until the supervisor hangs up; file descriptors come with the first bytes."""
    data, fds = b"", array.array("i")
    while True:
        try:
            chunk, extra, _, _ = sock.recvmsg(1 << 20, socket.CMSG_LEN(4 * fds.itemsize))
        except TimeoutError:
            raise AssayError(f"the lab did not answer in {_ANSWER_S:.0f} s") from None
        for level, kind, body in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
        if not chunk:
            break
        data += chunk
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)
