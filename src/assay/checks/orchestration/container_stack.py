"""Containers with GPUs on a host: the engine, the vendor's toolkit, and whether they know of each other."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, unknown, warn
from assay.facts.containers import Containerd, GpuToolkit, HpcContainers
from assay.facts.docker import DockerEngine, DockerHost
from assay.facts.gpu_presence import GpuPresence
from assay.facts.packages import Packages
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict

_UNSURE = ("denied", "timed-out", "failed", "unparsable")
_TOOLKITS = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1")


def _docker_way(engine: DockerEngine | Missing) -> str:
    if isinstance(engine, Missing):
        return ""
    if "nvidia" in (engine.runtimes or ()):
        return "docker: runtime nvidia registered"
    devices = [d for d in engine.cdi_devices or () if d.startswith("nvidia.com/")]
    return f"docker: {len(devices)} CDI devices of nvidia.com" if devices else ""


def _containerd_way(containerd: Containerd | Missing, specs: bool) -> str:  # noqa: FBT001 - the two belong together
    if isinstance(containerd, Missing):
        return ""
    if "nvidia" in containerd.runtimes:
        return "containerd: runtime nvidia in its configuration"
    return "containerd: CDI enabled with a specification of nvidia" if containerd.cdi and specs else ""


def _hpc_way(hpc: HpcContainers | Missing, specs: bool, cli: bool) -> str:  # noqa: FBT001 - what the tools need
    if isinstance(hpc, Missing):
        return ""
    ways = [
        ("podman with a CDI specification", hpc.podman and specs),
        ("enroot with nvidia-container-cli", hpc.enroot and cli),
        (f"{hpc.apptainer_product} --nv", hpc.apptainer),
    ]
    return next((name for name, there in ways if there), "")


@check(
    "containers.gpu.registered",
    category="orchestration",
    severity="high",
    criteria=("exp-sa-container-gpu",),
    why="Without the vendor's runtime or device specifications a container starts and sees no GPU.",
    fix="nvidia-ctk runtime configure --runtime=docker && systemctl restart docker   # or: nvidia-ctk cdi generate",
)
def registered(  # noqa: PLR0913, PLR0917 - every engine that could start the container
    gpus: GpuPresence,
    engine: DockerEngine | Missing,
    host: DockerHost | Missing,
    containerd: Containerd | Missing,
    toolkit: GpuToolkit | Missing,
    hpc: HpcContainers | Missing,
) -> Verdict:
    """Passes when an engine has the nvidia runtime registered or finds its CDI devices; no container is started.

    AMD's GPUs need no registration: there an engine is enough.
    """
    if not gpus.any:
        return skip("no GPU")
    if not gpus.nvidia:
        return _amd_engine(engine, hpc)
    specs = not isinstance(toolkit, Missing) and any("nvidia" in s for s in toolkit.cdi_specs)
    cli = not isinstance(toolkit, Missing) and toolkit.nvidia_cli is not None
    ways = [w for w in (_docker_way(engine), _containerd_way(containerd, specs), _hpc_way(hpc, specs, cli)) if w]
    if ways:
        return ok("; ".join(ways), seen=ways)
    return _unregistered(engine, host)


def _unregistered(engine: DockerEngine | Missing, host: DockerHost | Missing) -> Verdict:
    if isinstance(engine, Missing):
        return missing(engine) if engine.kind in _UNSURE else skip("no container engine that could be asked", "absent")
    config = {} if isinstance(host, Missing) else host.config or {}
    said = "docker knows neither the nvidia runtime nor CDI devices of nvidia.com"
    if "nvidia" in config.get("runtimes", {}):
        said = "daemon.json names the nvidia runtime, the running docker engine does not know it"
    return fail(said, seen=engine.runtimes)


def _amd_engine(engine: DockerEngine | Missing, hpc: HpcContainers | Missing) -> Verdict:
    if not isinstance(engine, Missing):
        return ok("docker takes AMD's GPUs by --device /dev/kfd --device /dev/dri")
    if not isinstance(hpc, Missing) and (tool := "podman" if hpc.podman else hpc.apptainer_product):
        return ok(f"{tool} takes AMD's GPUs by their device files")
    return missing(engine) if engine.kind in _UNSURE else skip("no container engine", "absent")


@check(
    "image.container-stack",
    category="orchestration",
    severity="medium",
    criteria=("exp-sa-image-ready",),
    why="On a host that is sold as ready the first hour should not go into installing a container engine.",
    fix="Install docker-ce and nvidia-container-toolkit (AMD: amd-container-toolkit is optional) into the image.",
)
def stack(  # noqa: PLR0913, PLR0917 - each part of the stack has its own source
    gpus: GpuPresence,
    host: DockerHost | Missing,
    containerd: Containerd | Missing,
    hpc: HpcContainers | Missing,
    toolkit: GpuToolkit | Missing,
    packages: Packages | Missing,
    place: Virtualisation | Missing,
) -> Verdict:
    """Passes when a GPU host has a container engine and, for NVIDIA GPUs, the container toolkit; warns otherwise.

    Engines are docker, containerd, podman, apptainer and enroot; apptainer alone needs no toolkit.
    """
    if elsewhere := not_the_host(place, "container engine"):
        return elsewhere
    if not gpus.any:
        return skip("no GPU")
    engines = _engines(host, containerd, hpc)
    if not engines:
        return _nothing((host, containerd, hpc))
    if gpus.nvidia and not _has_toolkit(toolkit, containerd, packages) and engines != ["apptainer"]:
        gap = toolkit if isinstance(toolkit, Missing) and toolkit.kind in _UNSURE else None
        return missing(gap) if gap else warn(f"{', '.join(engines)} without the NVIDIA container toolkit", seen=engines)
    return ok(f"{', '.join(engines)}{' with the NVIDIA container toolkit' if gpus.nvidia else ''}", seen=engines)


def _engines(host: DockerHost | Missing, containerd: Containerd | Missing, hpc: HpcContainers | Missing) -> list[str]:
    batch = (
        []
        if isinstance(hpc, Missing)
        else [n for n, v in (("podman", hpc.podman), ("apptainer", hpc.apptainer), ("enroot", hpc.enroot)) if v]
    )
    docker = not isinstance(host, Missing) and host.client_version is not None and not host.podman
    return [
        *(["docker"] if docker else []),
        *([] if docker or isinstance(containerd, Missing) else ["containerd"]),
        *batch,
    ]


def _nothing(asked: tuple[DockerHost | Containerd | HpcContainers | Missing, ...]) -> Verdict:
    unsure = next((m for m in asked if isinstance(m, Missing) and m.kind in _UNSURE), None)
    if unsure:
        return missing(unsure)
    return (
        unknown("no engine was looked for", "too-little")
        if any(isinstance(m, Missing) and m.kind == "not-asked" for m in asked)
        else warn("no container engine (docker, containerd, podman, apptainer, enroot)")
    )


def _has_toolkit(toolkit: GpuToolkit | Missing, containerd: Containerd | Missing, packages: Packages | Missing) -> bool:
    if not isinstance(toolkit, Missing) and (toolkit.nvidia or toolkit.nvidia_cli):
        return True
    if not isinstance(containerd, Missing) and "nvidia" in containerd.runtimes:
        return True
    return not isinstance(packages, Missing) and packages.first(_TOOLKITS) is not None
