"""What dpkg lists: the packages that matter and some of the many that do not."""

from __future__ import annotations

from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.software.monitoring import is_nvidia
from assay.lab.virtual import Output

_BASE = (
    "adduser 3.137ubuntu1", "apparmor 4.0.1really4.0.1-0ubuntu0.24.04.4", "apt 2.7.14build2", "bash 5.2.21-2ubuntu4",
    "chrony 4.5-1ubuntu4.2", "coreutils 9.4-3ubuntu6", "curl 8.5.0-2ubuntu10.6", "e2fsprogs 1.47.0-2.4~exp1ubuntu4.1",
    "gcc-13 13.3.0-6ubuntu2~24.04", "libc6 2.39-0ubuntu8.6", "libseccomp2 2.5.5-1ubuntu3.1", "linux-base 4.5ubuntu9",
    "mdadm 4.3-1ubuntu2.1", "nfs-common 1:2.6.4-3ubuntu5.1", "openssh-server 1:9.6p1-3ubuntu13.14",
    "openssl 3.0.13-0ubuntu3.6", "pciutils 1:3.10.0-2build1", "procps 2:4.0.4-4ubuntu3.2", "python3 3.12.3-0ubuntu2",
    "python3-pip 24.0+dfsg-1ubuntu1.3", "python3.12-venv 3.12.3-1ubuntu0.8", "rsyslog 8.2312.0-3ubuntu9.1",
    "sssd 2.9.4-1.1ubuntu6.3", "sudo 1.9.15p5-3ubuntu5.24.04.1", "systemd 255.4-1ubuntu8.11",
    "xfsprogs 6.6.0-1ubuntu2.1",
)  # fmt: skip


def packages(shape: Shape, state: State, image: Image) -> Parts:
    """dpkg-query."""
    rows = [(*line.split(), line.split()[0]) for line in _BASE]
    for kernel in filter(None, (image.kernel, image.newer_kernel)):
        version = image.kernel_package if kernel == image.kernel else f"{kernel.rpartition('-')[0]}.147"
        rows += [
            (f"linux-image-{kernel}", version, f"{image.kernel_source.replace('linux', 'linux-signed', 1)}"),
            (f"linux-modules-{kernel}", version, image.kernel_source),
        ]
    if image.containers:
        rows += [
            ("docker-ce", f"5:{image.docker}-1~ubuntu.24.04~noble", "docker-ce"),
            ("docker-ce-cli", f"5:{image.docker}-1~ubuntu.24.04~noble", "docker-ce-cli"),
            ("containerd.io", f"{image.containerd}-1~ubuntu.24.04~noble", "containerd.io"),
        ]
    if is_nvidia(shape):
        rows += _nvidia(state, image)
    elif shape.gpu:
        rows += [
            ("amdgpu-dkms", image.amdgpu_dkms, "amdgpu-dkms"), ("rocm-core", "7.14.0.71400-91~24.04", "rocm-core"),
            ("rccl", "2.28.3.71400-91~24.04", "rccl"), ("amd-smi-lib", "26.4.0.71400-91~24.04", "amd-smi-lib"),
        ]  # fmt: skip
    text = "".join(f"ii \t{name}\t{version}\t{source}\n" for name, version, source in sorted(rows))
    parts = Parts()
    parts.commands["/usr/bin/dpkg-query"] = lambda _argv, _host: Output(text)
    return parts


def _nvidia(state: State, image: Image) -> list[tuple[str, str, str]]:
    driver = f"{state.driver}-0ubuntu0.24.04.1"
    branch = state.driver.split(".")[0]
    return [
        (f"nvidia-driver-{branch}-server-open", driver, f"nvidia-graphics-drivers-{branch}-server"),
        ("nvidia-fabricmanager", f"{state.driver}-1", "fabricmanager"),
        ("nvidia-container-toolkit", f"{image.toolkit}-1", "nvidia-container-toolkit"),
        ("nvidia-container-toolkit-base", f"{image.toolkit}-1", "nvidia-container-toolkit"),
        ("libnvidia-container1", f"{image.toolkit}-1", "libnvidia-container"),
        ("datacenter-gpu-manager-4-core", f"1:{image.dcgm}-1", "datacenter-gpu-manager-4-core"),
        ("datacenter-gpu-manager-exporter", f"{image.exporter}-1", "datacenter-gpu-manager-exporter"),
        ("libnccl2", f"{image.nccl}-1+cuda13.0", "libnccl2"),
    ]
