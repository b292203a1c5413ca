"""What keeps a container inside: the engine's socket and API, seccomp, AppArmor or SELinux, registries."""

from __future__ import annotations

from typing import Any

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.docker import DockerEngine, DockerHost
from assay.facts.stat import path_states
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict

CRITERIA = ("sec-container-escape-protection",)
_LOCAL = ("127.0.0.0/8", "::1/128", "localhost", "127.0.0.1")


@check(
    "containers.docker.socket",
    category="security",
    severity="critical",
    criteria=CRITERIA,
    why="Whoever may write to the engine's socket starts a container with the host's disk in it and is root.",
    fix="chmod 0660 /run/docker.sock && chgrp docker /run/docker.sock; set SocketMode=0660 in docker.socket",
)
def socket(host: DockerHost, place: Virtualisation | Missing) -> Verdict:
    """Fails when the docker socket is open to all users."""
    if not host.socket:
        return skip("no docker socket", "absent")
    state = path_states({"docker.sock": host.socket})[0]
    if state.kind != "s":
        return unknown(f"docker.sock is no socket ({state.kind})")
    if state.mode & 0o002:
        return fail(f"every user may write to the docker socket (mode {state.mode:04o})", seen=f"{state.mode:04o}")
    if not isinstance(place, Missing) and place.container:
        return warn(f"the docker socket of the host is mounted in this container (mode {state.mode:04o})")
    return ok(f"docker socket has mode {state.mode:04o}", seen=f"{state.mode:04o}")


@check(
    "containers.docker.confinement",
    category="security",
    severity="high",
    criteria=CRITERIA,
    why="Without seccomp and AppArmor or SELinux one kernel fault is enough to leave a container.",
    fix="Drop seccomp-profile=unconfined from /etc/docker/daemon.json, install AppArmor or SELinux, restart docker.",
    refs=("https://docs.docker.com/engine/security/seccomp/",),
)
def confinement(engine: DockerEngine) -> Verdict:
    """Fails without a seccomp profile, warns without AppArmor or SELinux; user namespaces are named, not demanded."""
    if engine.security is None or engine.odd_security:
        return unknown(
            f"docker info: security options {list(engine.odd_security) or 'not given'}", seen=engine.security
        )
    known = engine.security
    if "seccomp" not in known or known["seccomp"] == "unconfined":
        return fail("containers run without a seccomp profile", seen=known)
    if not {"apparmor", "selinux"} & set(known):
        return warn("containers run without AppArmor and SELinux", seen=known)
    extra = [name for name in ("userns", "rootless", "no-new-privileges") if name in known]
    return ok(f"docker confines by {', '.join(['seccomp', *sorted({'apparmor', 'selinux'} & set(known)), *extra])}")


@check(
    "containers.docker.api",
    category="security",
    severity="critical",
    criteria=CRITERIA,
    why="An engine on the network without client certificates gives root to everyone who reaches the port.",
    fix='Remove the tcp:// entry of "hosts" from /etc/docker/daemon.json or set tlsverify with your own CA.',
    refs=("https://docs.docker.com/engine/security/protect-access/",),
)
def api(engine: DockerEngine | Missing, host: DockerHost | Missing) -> Verdict:
    """Fails when the engine warns of an open API, or daemon.json names a tcp host without tlsverify."""
    if isinstance(engine, Missing) and isinstance(host, Missing):
        return missing(host)
    warnings = () if isinstance(engine, Missing) else engine.warnings
    if open_api := next((w for w in warnings if "API is accessible on http" in w), ""):
        return fail(f"docker: {open_api.removeprefix('WARNING: ').split('.  ')[0][:120]}", seen=open_api)
    config = _config(host)
    tcp = [h for h in config.get("hosts") or () if str(h).startswith("tcp://")]
    if tcp and config.get("tlsverify") is not True:
        return fail(f"/etc/docker/daemon.json: {some(map(str, tcp))} without tlsverify", seen=tcp)
    return missing(engine) if isinstance(engine, Missing) else ok("the docker engine warns of no open API")


@check(
    "containers.docker.registries",
    category="security",
    severity="medium",
    criteria=CRITERIA,
    why="An image from a registry without TLS can be replaced on the way, and it runs as root.",
    fix='Give the registry a certificate and remove it from "insecure-registries" in /etc/docker/daemon.json.',
)
def registries(engine: DockerEngine | Missing, host: DockerHost | Missing, place: Virtualisation | Missing) -> Verdict:
    """Warns when docker trusts registries other than its own host without TLS."""
    if elsewhere := not_the_host(place, "docker"):
        return elsewhere
    if isinstance(engine, Missing) and not _config(host):
        return missing(engine)
    listed = [*_config(host).get("insecure-registries", ())]
    if not isinstance(engine, Missing):
        listed += engine.insecure_registries or ()
    named = sorted({str(r) for r in listed} - set(_LOCAL))
    remote = [r for r in named if not r.startswith(("localhost:", "127.", "[::1]"))]
    if remote:
        return warn(f"docker pulls without TLS from {some(remote)}", seen=remote)
    return missing(engine) if isinstance(engine, Missing) else ok("docker trusts no remote registry without TLS")


def _config(host: DockerHost | Missing) -> dict[str, Any]:
    return {} if isinstance(host, Missing) or host.config is None else host.config
