"""Two networks of cables: bridges in the lab's namespace, one end of a cable in each host's."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import subprocess
from ipaddress import IPv4Address, IPv4Network

from assay.errors import AssayError
from assay.lab.spec import PREFIX, Host

BRIDGES = {"eth0": "management", "ib0": "fabric"}
_SET_FLAGS, _SET_ADDRESS, _SET_NETMASK, _GET_FLAGS = 0x8914, 0x8916, 0x891C, 0x8913
_UP = 1
_IP_S = 20


def cable(interface: str, host: str) -> str:
    """Name of the bridge's end: eth-gpu01, ib-gpu01."""
    return f"{interface.rstrip('0')}-{host}"


def make_bridges() -> None:
    """One bridge per network, without spanning-tree delays."""
    lines = ["link set lo up"]
    for bridge in BRIDGES.values():
        lines += [f"link add {bridge} type bridge forward_delay 0", f"link set {bridge} up"]
    ip(lines)


def plug_in(host: Host, pid: int) -> None:
    """A cable from each bridge into the network namespace of `pid`; one of an earlier boot is taken away."""
    for interface in host.interfaces:
        with contextlib.suppress(OSError, AssayError):  # it goes by itself, too, soon after the host's end
            socket.if_nametoindex(cable(interface, host.name))
            ip([f"link del {cable(interface, host.name)}"])
    lines: list[str] = []
    for interface in host.interfaces:
        port = cable(interface, host.name)
        lines.append(f"link add {port} type veth peer name {interface} netns {pid}")
        lines.append(f"link set {port} master {BRIDGES[interface]} up")
    ip(lines)


def set_link(host: Host, interface: str, *, up: bool) -> None:
    """Pull a cable or put it back."""
    if interface not in host.interfaces:
        raise AssayError(f"{host.name} has no {interface}")
    ip([f"link set {cable(interface, host.name)} {'up' if up else 'down'}"])


def set_rate(host: Host, interface: str, rate: str) -> None:
    """Let no more than `rate`, in tc's words, pass to a host; "" lets everything pass."""
    if interface not in host.interfaces:
        raise AssayError(f"{host.name} has no {interface}")
    port = ["dev", cable(interface, host.name), "root"]
    argv = ["tc", "qdisc", "replace", *port, "tbf", "rate", rate, "burst", "32k", "latency", "50ms"]
    done = subprocess.run(
        argv if rate else ["tc", "qdisc", "del", *port], capture_output=True, text=True, check=False, timeout=_IP_S
    )
    if done.returncode and rate:
        raise AssayError(f"tc: {done.stderr.strip()}")


def ip(lines: list[str]) -> None:
    """Run lines of `ip -batch`, all in one process."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False, timeout=_IP_S
    )
    if done.returncode:
        raise AssayError(f"ip: {done.stderr.strip()}")


def set_up_interfaces(host: Host) -> None:
    """Addresses of this namespace's interfaces, called inside the host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        _raise("lo", sock)
        for interface, address in host.interfaces.items():
            network = IPv4Network(f"{address}/{PREFIX}", strict=False)
            _address(interface, _SET_ADDRESS, IPv4Address(address), sock)
            _address(interface, _SET_NETMASK, network.netmask, sock)
            _raise(interface, sock)


def _address(interface: str, request: int, address: IPv4Address, sock: socket.socket) -> None:
    fcntl.ioctl(sock, request, struct.pack("16sHH4s8x", interface.encode(), socket.AF_INET, 0, address.packed))


def _raise(interface: str, sock: socket.socket) -> None:
    packed = fcntl.ioctl(sock, _GET_FLAGS, struct.pack("16sH14x", interface.encode(), 0))
    (flags,) = struct.unpack_from("16xH", packed)
    fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sH14x", interface.encode(), flags | _UP))
