"""Container runtimes below and beside docker: containerd, runc, the GPU toolkits, and those of batch clusters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.facts.source import source
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, Read, Stat

_CONTAINERD = re.compile(r"^containerd (\S*containerd\S*) v?(\d\S*)", re.MULTILINE)
_RUNC = re.compile(r"^(runc|crun|youki) version v?(\d\S*)", re.MULTILINE)
_CTK = re.compile(r"^(NVIDIA|AMD) Container Toolkit CLI version v?(\d\S*)", re.MULTILINE)
_CTK_BARE = re.compile(r"^(?:amd-ctk|nvidia-ctk)(?: version)?:? v?(\d\S*)", re.MULTILINE)
_PAIR = re.compile(r"^([\w -]+): (.*)$", re.MULTILINE)
_SINGULARITY = re.compile(r"^(apptainer|singularity(?:-ce|-pro)?) version (\d\S*)", re.MULTILINE)
_SINGULARITY_2 = re.compile(r"^(\d+\.\d+(?:\.\d+)?(?:-\S+)?)$")
_PODMAN = re.compile(r"^podman version (\d\S*)", re.MULTILINE)
_ENROOT = re.compile(r"^(?:enroot )?(?:version )?v?(\d+\.\d+\.\d+\S*)$", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\[plugins?\..*runtimes\.[\"']?([\w-]+)[\"']?\]", re.MULTILINE)
_DEFAULT_RUNTIME = re.compile(r"^[ \t]*default_runtime_name\s*=\s*[\"']([^\"']*)", re.MULTILINE)
_SETTING = re.compile(r"^[ \t]*([\w-]+)\s*=\s*(.*?)\s*(?:#.*)?$", re.MULTILINE)


class Containerd(Fact, frozen=True):
    """`containerd --version` and its configuration. Empty `runtimes` = the configuration names none."""

    version: str | None = None
    configs: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    default_runtime: str | None = None
    cdi: bool | None = None


class OciRuntime(Struct, frozen=True):
    """One low-level runtime on disk. `version` as printed, a distribution's suffix kept."""

    path: str
    name: str = "runc"
    version: str | None = None
    commit: str | None = None
    libseccomp: str | None = None


class OciRuntimes(Fact, frozen=True):
    """Every runc (and kin) found in the usual places."""

    found: tuple[OciRuntime, ...] = ()


class GpuToolkit(Fact, frozen=True):
    """Container toolkit of the GPU's vendor. `cdi_specs` = files in the CDI directories; `settings` of its config."""

    nvidia: str | None = None
    nvidia_cli: str | None = None
    amd: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    cdi_specs: tuple[str, ...] = ()


class HpcContainers(Fact, frozen=True):
    """Container tools of batch clusters. `apptainer` carries the product in `apptainer_product`."""

    enroot: str | None = None
    apptainer: str | None = None
    apptainer_product: str | None = None
    podman: str | None = None
    pyxis: tuple[str, ...] = ()
    setuid_starters: tuple[str, ...] = ()


@source(
    Probe(
        "container.containerd",
        (
            Exec("version", ("containerd", "--version"), timeout_s=5.0),
            Files(
                "config",
                (
                    "/etc/containerd/config.toml",
                    "/etc/containerd/conf.d/*.toml",
                    "/var/lib/rancher/*/agent/etc/containerd/config.toml",
                ),
                limit=16,
            ),
        ),
    )
)
def containerd(raw: RawFact) -> Containerd | Missing:
    """The binary on PATH and the configuration files."""
    configs = raw.files("config")
    text = "\n".join(configs.values())
    default = _DEFAULT_RUNTIME.findall(text)
    cdi = re.findall(r"^[ \t]*enable_cdi\s*=\s*(true|false)", text, re.MULTILINE)
    version = _CONTAINERD.search(raw.out("version"))
    return Containerd(
        version=version[2] if version else None,
        configs=tuple(configs),
        runtimes=tuple(dict.fromkeys(_SECTION.findall(text))),
        default_runtime=default[-1] if default else None,
        cdi=cdi[-1] == "true" if cdi else None,
    )


@source(
    Probe(
        "container.runc",
        (
            Exec(
                "runc",
                ("{}", "--version"),
                timeout_s=5.0,
                each=(
                    "/usr/bin/runc",
                    "/usr/sbin/runc",
                    "/usr/local/bin/runc",
                    "/usr/local/sbin/runc",
                    "/usr/bin/docker-runc",
                    "/opt/cni/bin/runc",
                    "/opt/containerd/bin/runc",
                    "/var/lib/rancher/*/data/*/bin/runc",
                ),
            ),
        ),
    ),
    sees_missing=True,
)
def oci_runtimes(raw: RawFact) -> OciRuntimes | Missing:
    """Asks each runc for its version: several are common (package, Kubernetes installer, rancher)."""
    found = tuple(_runtime(read) for read in raw.every("runc") if read.argv and read.argv[0] != "{}")
    return OciRuntimes(found=found) if found else Missing("absent", "no runc in the usual places")


def _runtime(read: Read) -> OciRuntime:
    if read.state != "ok" or not _RUNC.search(read.out):
        return OciRuntime(read.argv[0])
    known = runc_version(read.out)
    return OciRuntime(read.argv[0], known["name"], known["version"], known.get("commit"), known.get("libseccomp"))


@source(
    Probe(
        "container.gpu",
        (
            Exec("nvidia", ("nvidia-ctk", "--version"), timeout_s=5.0),
            Exec("cli", ("nvidia-container-cli", "--version"), timeout_s=5.0),
            Exec("amd", ("amd-ctk", "--version"), timeout_s=5.0),
            Files("config", ("/etc/nvidia-container-runtime/config.toml",)),
            Stat("cdi", ("/etc/cdi/*", "/var/run/cdi/*", "/run/cdi/*"), limit=64),
        ),
    )
)
def gpu_toolkit(raw: RawFact) -> GpuToolkit | Missing:
    """Toolkit versions, the runtime's settings and the device specifications on disk."""
    names = (path.rsplit("/", 1)[-1] for path in raw.files("cdi"))
    specs = dict.fromkeys(n for n in names if n.endswith((".yaml", ".yml", ".json")))
    cli = dict(_PAIR.findall(raw.out("cli")))
    return GpuToolkit(
        nvidia=_toolkit(raw.out("nvidia")),
        nvidia_cli=cli.get("cli-version"),
        amd=_toolkit(raw.out("amd")),
        settings={k: v.strip('"') for k, v in _SETTING.findall(raw.out("config"))},
        cdi_specs=tuple(specs),
    )


@source(
    Probe(
        "container.hpc",
        (
            Exec("enroot", ("enroot", "version"), timeout_s=5.0),
            Exec("apptainer", ("apptainer", "--version"), timeout_s=5.0),
            Exec("singularity", ("singularity", "--version"), timeout_s=5.0),
            Exec("podman", ("podman", "--version"), timeout_s=5.0),
            Stat(
                "pyxis",
                (
                    "/usr/lib/slurm/spank_pyxis.so",
                    "/usr/lib64/slurm/spank_pyxis.so",
                    "/usr/local/lib/slurm/spank_pyxis.so",
                    "/usr/lib/*-linux-gnu/slurm*/spank_pyxis.so",
                    "/opt/slurm/lib/slurm/spank_pyxis.so",
                ),
            ),
            Stat(
                "suid",
                ("/usr/libexec/*/bin/starter-suid", "/usr/local/libexec/*/bin/starter-suid"),
            ),
        ),
    )
)
def hpc_containers(raw: RawFact) -> HpcContainers | Missing:
    """Enroot with Pyxis, Apptainer or Singularity, Podman."""
    enroot = _ENROOT.search(raw.out("enroot").strip())
    box = _box(raw.out("apptainer")) or _box(raw.out("singularity")) or {}
    podman = _PODMAN.search(raw.out("podman"))
    return HpcContainers(
        enroot=enroot[1] if enroot else None,
        apptainer=box.get("version"),
        apptainer_product=box.get("product"),
        podman=podman[1] if podman else None,
        pyxis=tuple(raw.files("pyxis")),
        setuid_starters=tuple(path for path, stat in raw.files("suid").items() if stat.split()[1:2][0][:1] in "4567"),
    )


def _toolkit(text: str) -> str | None:
    match = _CTK.search(text)
    if match:
        return match[2]
    bare = _CTK_BARE.search(text)
    return bare[1] if bare else None


def _box(text: str) -> dict[str, str] | None:
    match = _SINGULARITY.search(text)
    if not match:
        old = _SINGULARITY_2.match(text.strip())
        return {"product": "singularity", "version": old[1].split("-")[0], "printed": old[1]} if old else None
    version, _, release = match[2].partition("-")
    return {"product": match[1], "version": version, "release": release, "printed": match[2]}


def containerd_version(text: str) -> dict[str, str]:
    """`containerd --version`: {"version", "module"}; 2.x has "/v2" in the module's path."""
    match = _CONTAINERD.search(text)
    if not match:
        raise ValueError("not the line of containerd --version")
    return {"version": match[2], "module": match[1]}


def runc_version(text: str) -> dict[str, str]:
    """`runc --version` (or crun): {"name", "version", "commit", "spec", "libseccomp", ...}."""
    match = _RUNC.search(text)
    if not match:
        raise ValueError("not the text of runc --version")
    return {**dict(_PAIR.findall(text)), "name": match[1], "version": match[2]}


def toolkit_version(text: str) -> dict[str, str]:
    """`nvidia-ctk --version` or `amd-ctk --version`: {"version", "commit"}."""
    version = _toolkit(text)
    if not version:
        raise ValueError("not the text of nvidia-ctk --version")
    return {**{k: v for k, v in _PAIR.findall(text) if k == "commit"}, "version": version}


def container_cli_version(text: str) -> dict[str, str]:
    """`nvidia-container-cli --version`: "key: value" lines, keys with "_" for blanks and dashes."""
    pairs = {k.replace("-", "_").replace(" ", "_"): v for k, v in _PAIR.findall(text)}
    if "cli_version" not in pairs:
        raise ValueError("not the text of nvidia-container-cli --version")
    return pairs


def apptainer_version(text: str) -> dict[str, str]:
    """`apptainer --version` or `singularity --version`: {"product", "version", "release"}."""
    box = _box(text)
    if not box:
        raise ValueError("not the line of apptainer --version")
    return box


def podman_version(text: str) -> dict[str, str]:
    """`podman --version`: {"version"}."""
    match = _PODMAN.search(text)
    if not match:
        raise ValueError("not the line of podman --version")
    return {"version": match[1]}


def enroot_version(text: str) -> dict[str, str]:
    """`enroot version`: {"version"}."""
    match = _ENROOT.search(text.strip())
    if not match:
        raise ValueError("not the line of enroot version")
    return {"version": match[1]}


def cdi_list(text: str) -> tuple[str, ...]:
    """`nvidia-ctk cdi list`: device names "vendor/class=name", log lines skipped."""
    names = tuple(line.strip() for line in text.splitlines() if re.fullmatch(r"\s*[\w.-]+/[\w.-]+=[\w:.-]+\s*", line))
    if not names and "Found 0 CDI devices" not in text:
        raise ValueError("no device of nvidia-ctk cdi list")
    return names


FORMATS: dict[str, Callable[[str], Any]] = {
    "containerd --version": containerd_version,
    "runc --version": runc_version,
    "crun --version": runc_version,
    "nvidia-ctk --version": toolkit_version,
    "amd-ctk --version": toolkit_version,
    "nvidia-ctk cdi list": cdi_list,
    "nvidia-container-cli --version": container_cli_version,
    "apptainer --version": apptainer_version,
    "singularity --version": apptainer_version,
    "podman --version": podman_version,
    "enroot version": enroot_version,
}
