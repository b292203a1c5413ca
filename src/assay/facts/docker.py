"""Docker: what the engine says of itself, and what the host shows of it without asking the engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from assay.facts.source import source
from assay.facts.text import json_object, whole
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, ReadState, Stat

_CLIENT = re.compile(r"^(?:Docker|podman) version (\S+?)(?:, build (\S+))?$", re.MULTILINE)
_PAIR = re.compile(r"^( *)([A-Za-z][\w /().-]*?):(?: (.*))?$")


class DockerEngine(Fact, frozen=True):
    """`docker info`. `security` = option -> profile ("" where it names none); `odd_security` could not be read."""

    server_version: str | None = None
    runtimes: tuple[str, ...] | None = None
    default_runtime: str | None = None
    cdi_devices: tuple[str, ...] | None = None
    cdi_dirs: tuple[str, ...] | None = None
    security: dict[str, str] | None = None
    odd_security: tuple[str, ...] = ()
    cgroup_driver: str | None = None
    cgroup_version: str | None = None
    storage_driver: str | None = None
    root_dir: str | None = None
    insecure_registries: tuple[str, ...] | None = None
    live_restore: bool | None = None
    containerd_commit: str | None = None
    runc_commit: str | None = None
    operating_system: str | None = None
    kernel_version: str | None = None
    architecture: str | None = None
    cpus: int | None = None
    containers_running: int | None = None
    warnings: tuple[str, ...] = ()
    server_errors: tuple[str, ...] = ()


class DockerHost(Fact, frozen=True):
    """The client, the daemon's configuration and its socket. `build` carries the distribution's version, if any."""

    client_version: str | None = None
    build: str | None = None
    podman: bool = False
    socket: str | None = None
    config: dict[str, Any] | None = None
    config_error: str = ""


_SOCKETS = ("/run/docker.sock", "/var/run/docker.sock")
# Asked only while it runs: a client's question to a socket-activated engine would start it.
_RUNS = ("/run/docker.pid",)


@source(
    Probe(
        "container.docker",
        (
            Exec("info", ("docker", "info", "--format", "{{json .}}"), timeout_s=5.0, each=_RUNS),
            Stat("socket", _SOCKETS),
        ),
    ),
    sees_missing=True,
)
def docker_engine(raw: RawFact) -> DockerEngine | Missing:
    """The engine's own account; an answer with server errors, or one of a client alone, is none."""
    read = raw.read("info")
    engine = docker_info_json(read.out) if read.out.lstrip().startswith("{") else DockerEngine()
    if engine.server_version and not engine.server_errors:
        return engine
    said = [*engine.server_errors, *read.err.strip().splitlines()]
    return _no_engine(raw, read.state, said[0][:200] if said else "")


def _no_engine(raw: RawFact, state: ReadState, said: str) -> Missing:
    if state == "absent":
        return Missing("absent", "no docker engine runs here")
    if state == "timed-out":
        return Missing("timed-out", "docker info: the engine did not answer in time")
    if state == "denied" or "permission denied" in said:
        return Missing("denied", "this user may not talk to the docker engine")
    if any(r.key == "socket" and r.state == "absent" for r in raw.reads):
        return Missing("absent", "no docker engine: its socket does not exist")
    if said:
        return Missing("failed", f"docker info: {said}")
    return Missing("not-applicable", "docker here is not the docker engine")


@source(
    Probe(
        "container.docker.host",
        (
            Exec("client", ("docker", "--version"), timeout_s=5.0),
            Files("config", ("/etc/docker/daemon.json",)),
            Stat("socket", _SOCKETS),
        ),
    )
)
def docker_host(raw: RawFact) -> DockerHost | Missing:
    """Client version, /etc/docker/daemon.json and the socket's mode."""
    client = _client(raw.out("client"))
    config, error = _config(raw.out("config"))
    return DockerHost(
        client_version=client.get("version"),
        build=client.get("build"),
        podman="podman" in raw.out("client").lower() or "podman" in raw.read("client").err.lower(),
        socket=next(iter(raw.files("socket").values()), None),
        config=config,
        config_error=error,
    )


def _config(text: str) -> tuple[dict[str, Any] | None, str]:
    if not text.strip():
        return None, ""
    try:
        return json_object(text, "daemon.json"), ""
    except ValueError as e:
        return None, str(e)


def docker_info_json(text: str) -> DockerEngine:
    """`docker info --format '{{json .}}'`, also the shapes it takes when the engine does not answer."""
    info = json_object(text, "docker info")
    if not {"ServerVersion", "ServerErrors", "Runtimes", "ClientInfo", "host"} & set(info):
        raise ValueError("not the JSON of docker info: none of its keys")
    security, odd = _security(info.get("SecurityOptions"))
    devices = info.get("DiscoveredDevices")
    runtimes = info.get("Runtimes")
    return DockerEngine(
        server_version=info.get("ServerVersion") or None,
        runtimes=tuple(sorted(runtimes)) if runtimes is not None else None,
        default_runtime=info.get("DefaultRuntime") or None,
        cdi_devices=tuple(d["ID"] for d in devices if d.get("Source") == "cdi") if devices else None,
        cdi_dirs=_texts(info.get("CDISpecDirs")),
        security=security,
        odd_security=odd,
        cgroup_driver=info.get("CgroupDriver"),
        cgroup_version=info.get("CgroupVersion"),
        storage_driver=info.get("Driver"),
        root_dir=info.get("DockerRootDir"),
        insecure_registries=_insecure(info.get("RegistryConfig")),
        live_restore=info.get("LiveRestoreEnabled"),
        containerd_commit=(info.get("ContainerdCommit") or {}).get("ID"),
        runc_commit=(info.get("RuncCommit") or {}).get("ID"),
        operating_system=info.get("OperatingSystem"),
        kernel_version=info.get("KernelVersion"),
        architecture=info.get("Architecture"),
        cpus=info.get("NCPU"),
        containers_running=info.get("ContainersRunning"),
        warnings=_texts(info.get("Warnings")) or (),
        server_errors=_texts(info.get("ServerErrors")) or (),
    )


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(str(v) for v in value) if isinstance(value, list) else None


def _insecure(registry: Any) -> tuple[str, ...] | None:
    if not isinstance(registry, dict):
        return None
    networks = registry.get("InsecureRegistryCIDRs") or ()
    named = [name for name, c in (registry.get("IndexConfigs") or {}).items() if c.get("Secure") is False]
    return (*networks, *named)


def _security(options: Any) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """Options by name: "name=seccomp,profile=builtin" -> {"seccomp": "builtin"}; before 17.06 the bare name."""
    if not isinstance(options, list):
        return None, ()
    known: dict[str, str] = {}
    odd = []
    for option in map(str, options):
        pairs = dict(p.partition("=")[::2] for p in option.split(","))
        name = pairs.get("name") or (option if re.fullmatch(r"[a-z]+", option) else "")
        if name:
            known[name] = pairs.get("profile", "")
        else:
            odd.append(option)
    return known, tuple(odd)


def docker_info_text(text: str) -> DockerEngine:
    """`docker info` as printed, whole or cut by a grep: keys by indentation, lists below their key."""
    values, lists = _indented(text)
    if "default runtime" not in values and "server version" not in values and "runtimes" not in values:
        raise ValueError("not the text of docker info")
    runtimes = values.get("runtimes")
    security = _security_text(lists.get("security options", ()))
    return DockerEngine(
        server_version=values.get("server version"),
        runtimes=tuple(sorted(runtimes.split())) if runtimes else None,
        default_runtime=values.get("default runtime"),
        cdi_devices=tuple(d[5:] for d in lists["discovered devices"] if d.startswith("cdi: "))
        if "discovered devices" in lists
        else None,
        cdi_dirs=tuple(lists["cdi spec directories"]) if "cdi spec directories" in lists else None,
        security=security,
        cgroup_driver=values.get("cgroup driver"),
        cgroup_version=values.get("cgroup version"),
        storage_driver=values.get("storage driver"),
        root_dir=values.get("docker root dir"),
        insecure_registries=tuple(lists["insecure registries"]) if "insecure registries" in lists else None,
        live_restore={"true": True, "false": False}.get(values.get("live restore enabled", "")),
        containerd_commit=values.get("containerd version"),
        runc_commit=values.get("runc version"),
        operating_system=values.get("operating system"),
        kernel_version=values.get("kernel version"),
        architecture=values.get("architecture"),
        cpus=whole(values.get("cpus")),
        containers_running=whole(values.get("running")),
        warnings=tuple(line[9:].strip() for line in text.splitlines() if line.startswith("WARNING: ")),
        server_errors=tuple(line[7:].strip() for line in text.splitlines() if line.startswith("ERROR: ")),
    )


def _indented(text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """First value of each key, and the deeper lines below each key without one."""
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    parent, depth = "", -1
    for line in text.splitlines():
        match = _PAIR.match(line)
        indent = len(line) - len(line.lstrip())
        if parent and indent > depth:
            lists[parent].append(line.strip())
        elif match and not match[3]:
            parent, depth = match[2].lower(), indent
            lists.setdefault(parent, [])
            if parent in ("server", "client"):
                parent, depth = "", -1
        else:
            parent, depth = "", -1
        if match and match[3]:
            values.setdefault(match[2].lower(), match[3].strip())
    return values, lists


def _security_text(lines: list[str] | tuple[str, ...]) -> dict[str, str] | None:
    known: dict[str, str] = {}
    last = ""
    for line in lines:
        if line.startswith("Profile: ") and last:
            known[last] = line[9:].strip()
        elif ":" not in line:
            last = line
            known[last] = ""
    return known or None


def _client(text: str) -> dict[str, str]:
    match = _CLIENT.search(text)
    return {k: v for k, v in zip(("version", "build"), match.groups(), strict=True) if v} if match else {}


def docker_version_line(text: str) -> dict[str, str]:
    """`docker --version`: {"version", "build"}."""
    found = _client(text)
    if not found:
        raise ValueError("not the line of docker --version")
    return found


def docker_version(text: str) -> dict[str, Any]:
    """`docker version`, text or JSON: versions of client, server and the server's components."""
    if text.lstrip().startswith("{"):
        return _version_json(text)
    found: dict[str, Any] = {}
    side, part = "", ""
    for line in text.splitlines():
        match = _PAIR.match(line)
        if not match:
            continue
        indent, key, value = len(match[1]), match[2], (match[3] or "").strip()
        if indent == 0:
            side, part = key.split()[0].lower(), ""
        elif indent == 1 and not value:
            part = key.lower()
        elif key in ("Version", "API version"):
            whose = side if part in ("", "engine") or side == "client" else part
            found.setdefault(f"{whose}{'_api' if key != 'Version' else ''}", value.split(" (")[0])
    if not found:
        raise ValueError("not the text of docker version")
    return found


def _version_json(text: str) -> dict[str, Any]:
    both = json_object(text, "docker version")
    found: dict[str, Any] = {}
    for side in ("Client", "Server"):
        if known := both.get(side):
            parts = {c["Name"]: c for c in known.get("Components") or ()}
            details = parts.get("Engine", {}).get("Details") or {}
            found[side.lower()] = known.get("Version") or parts.get("Engine", {}).get("Version")
            found[f"{side.lower()}_api"] = known.get("ApiVersion") or details.get("ApiVersion")
            found |= {name.lower(): c.get("Version") for name, c in parts.items() if name != "Engine"}
    if not found:
        raise ValueError("not the JSON of docker version")
    return found


def docker_info(text: str) -> DockerEngine:
    """`docker info` in either form."""
    return docker_info_json(text) if text.lstrip().startswith("{") else docker_info_text(text)


FORMATS: dict[str, Callable[[str], Any]] = {
    "docker info": docker_info,
    "docker --version": docker_version_line,
    "docker version": docker_version,
}
