"""Container engines and the toolkits of the GPU's vendor."""

from __future__ import annotations

import json

from assay.lab.hardware.shapes import Shape
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.software.monitoring import is_nvidia
from assay.lab.virtual import Output, Tool, VirtualHost

_CONTAINERD = """\
version = 3

[plugins]
  [plugins."io.containerd.cri.v1.runtime"]
    enable_cdi = true
    [plugins."io.containerd.cri.v1.runtime".containerd]
      default_runtime_name = "{default}"
"""
_NVIDIA = """\
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
          BinaryName = "/usr/bin/nvidia-container-runtime"
"""
_PLAIN = {"log-opts": {"max-size": "100m"}}
_RUNTIME = {
    "default-runtime": "nvidia",
    "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}},
    **_PLAIN,
}


def containers(shape: Shape, image: Image) -> Parts:
    """Docker, containerd, runc, the NVIDIA container toolkit, enroot with Pyxis."""
    parts = Parts()
    parts.commands["/usr/bin/docker"] = _docker(shape, image)
    parts.files["/etc/docker/daemon.json"] = json.dumps(_RUNTIME if is_nvidia(shape) else _PLAIN) + "\n"
    parts.modes["/run/docker.sock"] = "s 0660 0 988 0:0"
    parts.files["/run/docker.pid"] = "2291"
    module = "github.com/containerd/containerd/v2"
    parts.program("/usr/bin/containerd", {"--version": f"containerd {module} v{image.containerd} 0b1c2d3e\n"})
    built = f"runc version {image.runc}\ncommit: v{image.runc}-0-g0b1c2d3e\nspec: 1.2.1\ngo: go1.25.3\n"
    parts.program("/usr/bin/runc", {"--version": f"{built}libseccomp: 2.5.5\n"})
    if image.slurm:
        parts.program("/usr/bin/enroot", {"version": "4.1.0\n"})
        parts.modes[f"/usr/lib/{shape.cpu.arch}-linux-gnu/slurm/spank_pyxis.so"] = "f 0644 0 0 0:0"
    nvidia = is_nvidia(shape)
    runtimes = _CONTAINERD.format(default="nvidia" if nvidia else "runc")
    parts.files["/etc/containerd/config.toml"] = runtimes + (_NVIDIA if nvidia else "")
    if nvidia:
        _toolkit(parts, image)
    elif shape.gpu:
        parts.program("/usr/bin/amd-ctk", {"--version": "AMD Container Toolkit CLI version 1.3.0\n"})
    return parts


def _toolkit(parts: Parts, image: Image) -> None:
    said = f"NVIDIA Container Toolkit CLI version {image.toolkit}\ncommit: 0b1c2d3e4f\n"
    parts.program("/usr/bin/nvidia-ctk", {"--version": said})
    said = f"cli-version: {image.toolkit}\nlib-version: {image.toolkit}\nbuild date: 2026-06-24T10:53+0000\n"
    parts.program("/usr/bin/nvidia-container-cli", {"--version": said})
    settings = 'supported-driver-capabilities = "compute,utility"\n[nvidia-container-runtime]\nmode = "auto"\n'
    parts.files["/etc/nvidia-container-runtime/config.toml"] = settings
    parts.files["/etc/cdi/nvidia.yaml"] = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"


def _docker(shape: Shape, image: Image) -> Tool:
    runtimes = {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}
    devices = []
    if is_nvidia(shape):
        runtimes["nvidia"] = {"path": "nvidia-container-runtime"}
        devices = [{"Source": "cdi", "ID": f"nvidia.com/gpu={n}"} for n in (*range(shape.gpus), "all")]
    info = {
        "ID": "0b1c2d3e", "Driver": "overlay2", "DockerRootDir": "/var/lib/docker", "CgroupDriver": "systemd",
        "CgroupVersion": "2", "ServerVersion": image.docker, "Runtimes": runtimes,
        "DefaultRuntime": "nvidia" if is_nvidia(shape) else "runc",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
        "RegistryConfig": {"InsecureRegistryCIDRs": ["::1/128", "127.0.0.0/8"],
        "IndexConfigs": {"docker.io": {"Name": "docker.io", "Secure": True}}},
        "LiveRestoreEnabled": False, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"], "DiscoveredDevices": devices,
        "Warnings": None, "ContainersRunning": 0, "OperatingSystem": "Ubuntu 24.04.4 LTS",
        "Architecture": shape.cpu.arch,
        "KernelVersion": image.kernel, "NCPU": shape.cpu.sockets * shape.cpu.cores * shape.cpu.threads,
    }  # fmt: skip

    def tool(argv: tuple[str, ...], host: VirtualHost) -> Output:
        if argv[1:] == ("--version",):
            return Output(f"Docker version {image.docker}, build 0b1c2d3\n")
        if argv[1:] != ("info", "--format", "{{json .}}"):
            raise LookupError(f"{host.name}: no answer to {' '.join(argv)}")
        if not host.tree.may("/run/docker.sock", "w"):
            said = "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock"
            client = {"ServerErrors": [said], "ClientInfo": {"Debug": False, "Context": "default"}}
            return Output(json.dumps(client) + "\n", err=f"{said}\n", rc=1)
        return Output(json.dumps(info) + "\n")

    return tool
