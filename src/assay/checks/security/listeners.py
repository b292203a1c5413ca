"""Services that listen where other tenants may reach them. Nothing is connected to: a login may still be asked."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, some, unknown, warn
from assay.facts.sockets import Listener, ListeningSockets
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.access import Access, Port


def _found(sockets: ListeningSockets, bars: Access, topic: str) -> list[tuple[Port, Listener]]:
    """Known services that accept from beyond this host."""
    ports = {p.port: p for p in bars.ports if p.topic == topic}
    every = ((ports.get(s.port), s) for s in sockets.sockets if s.proto == "tcp" and not s.loopback)
    return [(port, s) for port, s in every if port and _is(port, s, bars.forwarders.names)]


def _is(port: Port, socket: Listener, forwarders: frozenset[str]) -> bool:
    """A visible process name decides; without one the port speaks, unless many others use it too."""
    if not socket.process or socket.process in forwarders:
        return not port.named_only
    return not port.processes or socket.process.startswith(port.processes)


def _names(found: list[tuple[Port, Listener]]) -> str:
    """Service, port and process in words, each once though IPv4 and IPv6 both listen."""
    texts = (f"{p.service} on {s.port}" + (f" ({s.process})" if s.process else "") for p, s in found)
    return some(dict.fromkeys(texts), 6)


@check(
    "sockets.observability",
    category="security",
    severity="medium",
    criteria=("sec-observability-isolation",),
    why="Exporters and dashboards that answer everyone show each tenant the jobs, users and machines of the others.",
    fix="Bind them to 127.0.0.1 or the management address (--web.listen-address, http_addr), or put authentication "
    "(kube-rbac-proxy, web.config.file) and a firewall rule before them.",
)
def observability(sockets: ListeningSockets, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Warns when a metrics or log service listens on every address; loopback is fine, one address is not judged."""
    if elsewhere := not_the_host(place, "sockets"):
        return elsewhere
    found = _found(sockets, bars, "observability")
    if exposed := [pair for pair in found if pair[1].wildcard]:
        return warn(f"on every address: {_names(exposed)}", seen=[s for _, s in exposed])
    if found:
        return unknown(f"on one address, reach not known: {_names(found)}", "too-little", seen=[s for _, s in found])
    if not sockets.complete:
        return unknown("the list of sockets was cut", "too-little")
    return ok("no metrics or log service listens beyond this host")


@check(
    "sockets.control",
    category="security",
    severity="high",
    why="Services that obey whoever connects give the node, its data or its jobs away to the network.",
    fix="Stop the service, bind it to 127.0.0.1, or require TLS and a login; for Docker use ssh:// or 2376 with TLS.",
)
def control(sockets: ListeningSockets, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Fails for services without any login that listen beyond this host; warns for those that are safe behind one."""
    if elsewhere := not_the_host(place, "sockets"):
        return elsewhere
    found = _found(sockets, bars, "control")
    if open_to_all := [pair for pair in found if pair[0].level == "fail"]:
        return fail(f"obeys whoever connects: {_names(open_to_all)}", seen=[s for _, s in open_to_all])
    if risky := [pair for pair in found if pair[1].wildcard]:
        return warn(f"on every address: {_names(risky)}", seen=[s for _, s in risky])
    if not sockets.complete:
        return unknown("the list of sockets was cut", "too-little")
    return ok("none of the known risky services listens beyond this host")
