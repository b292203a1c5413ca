"""Compilers, CUDA or ROCm, NCCL or RCCL, Python, profilers and the RDMA stack."""

from __future__ import annotations

import json

from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts, says_json
from assay.lab.software.image import Image
from assay.lab.software.monitoring import is_nvidia

_NVCC = (
    "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2026 NVIDIA Corporation\nBuilt on "
    "Wed_Jan_21_20:23:50_PST_2026\n"
    "Cuda compilation tools, release {release}, V{version}\nBuild cuda_{release}.r{release}/compiler.1_0\n"
)
_PLACES = ("venv", "ensurepip", "pip", "torch", "jax", "vllm", "sglang", "transformers", "numpy")


def compute(shape: Shape, state: State, image: Image) -> Parts:
    """Everything a user compiles and runs with."""
    parts = Parts()
    arch = f"{shape.cpu.arch}-linux-gnu"
    gcc = "gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0\nCopyright (C) 2023 Free Software Foundation, Inc.\n"
    parts.program("/usr/bin/gcc", {"--version": gcc})
    _python(parts, shape, image)
    parts.files["/usr/bin/perf"] = "#!/bin/bash\n# wrapper that runs the tool of the running kernel\n"
    parts.modes["/usr/bin/perf"] = "f 0755 0 0 0:0"
    parts.modes[f"/usr/lib/linux-tools/{image.kernel}/perf"] = "f 0755 0 0 0:0"
    if not shape.gpu:
        return parts
    for name in ("s5cmd", "rclone"):
        parts.modes[f"/usr/bin/{name}"] = "f 0755 0 0 0:0"
    if is_nvidia(shape):
        _cuda(parts, image)
        _library(parts, f"/usr/lib/{arch}", "nccl", image.nccl)
    else:
        _rocm(parts, state)
    if shape.rails:
        _rdma(parts, shape, image, arch)
    return parts


def _cuda(parts: Parts, image: Image) -> None:
    for nvcc in image.nvcc:
        parts.program(nvcc.path, {"--version": _NVCC.format(release=nvcc.release, version=nvcc.version)})
        home = nvcc.path.removesuffix("/bin/nvcc")
        if home.startswith("/usr/local/"):
            body = {
                "cuda": {"name": "CUDA SDK", "version": nvcc.version},
                "nvidia_driver": {"name": "NVIDIA Linux Driver", "version": "590.44.01"},
            }
            parts.files[f"{home}/version.json"] = json.dumps(body) + "\n"
            parts.links["/etc/alternatives/cuda"] = home
            parts.links["/usr/local/cuda"] = "/etc/alternatives/cuda"
            for name in ("ncu", "nsys", "nvbandwidth"):
                parts.modes[f"{home}/bin/{name}"] = "f 0755 0 0 0:0"


def _library(parts: Parts, directory: str, name: str, version: str) -> None:
    whole = f"lib{name}.so.{version}"
    parts.files[f"{directory}/{whole}"] = ""
    parts.links[f"{directory}/lib{name}.so.{version[0]}"] = whole
    parts.links[f"{directory}/lib{name}.so"] = f"lib{name}.so.{version[0]}"


def _rocm(parts: Parts, state: State) -> None:
    home = f"/opt/rocm-{state.rocm}"
    parts.links["/opt/rocm"] = home
    parts.files[f"{home}/.info/version"] = f"{state.rocm}-91\n"
    _library(parts, f"{home}/lib", "rccl", "1.0.71400")
    for name in ("rocprof", "rocprofv3", "rvs", "rocm-bandwidth-test"):
        parts.modes[f"{home}/bin/{name}"] = "f 0755 0 0 0:0"


def _rdma(parts: Parts, shape: Shape, image: Image, arch: str) -> None:
    parts.program("/usr/bin/ofed_info", {"-s": f"OFED-internal-{image.ofed}:\n"})
    parts.directory("/opt/hpcx-v2.26")
    parts.program(
        "/opt/hpcx-v2.26/ompi/bin/mpirun",
        {"--version": "mpirun (Open MPI) 4.1.9rc1\n\nReport bugs to http://www.open-mpi.org/community/help/\n"},
    )
    parts.links["/usr/local/bin/mpirun"] = "/opt/hpcx-v2.26/ompi/bin/mpirun"
    if is_nvidia(shape):
        parts.node("/dev/gdrdrv", "0666", "508:0")
        _library(parts, f"/usr/lib/{arch}", "gdrapi", "2.5.1")
        if image.peer_memory:
            parts.directory("/sys/kernel/mm/memory_peers/nv_mem")
    else:
        parts.directory("/sys/kernel/mm/memory_peers/amdkfd")
    rails = shape.rail.link_layer if shape.rail else ""
    lines = "NCCL_SOCKET_IFNAME=bond0\n" + (
        "NCCL_IB_PKEY=0\n" if rails == "InfiniBand" else "NCCL_IB_QPS_PER_CONNECTION=4\n"
    )
    parts.files["/etc/nccl.conf"] = lines


def _python(parts: Parts, shape: Shape, image: Image) -> None:
    lib = "/usr/lib/python3.12"
    where = dict.fromkeys(_PLACES, None) | {
        "venv": f"{lib}/venv/__init__.py", "ensurepip": f"{lib}/ensurepip/__init__.py",
        "pip": "/usr/lib/python3/dist-packages/pip/__init__.py",
        "numpy": "/usr/lib/python3/dist-packages/numpy/__init__.py",
    }  # fmt: skip
    said = {"version": "3.12.3", "executable": "/usr/bin/python3", "where": where, "torch": ""}
    parts.commands["/usr/bin/python3"] = says_json(said)
    for name in ("pip3", "uv"):
        parts.modes[f"/usr/bin/{name}"] = "f 0755 0 0 0:0"
    if shape.gpu and image.torch:
        nvidia = is_nvidia(shape)
        build = f"cu{image.torch_cuda.replace('.', '')}" if nvidia else "rocm7.2"
        cuda, hip = (f"'{image.torch_cuda}'", "None") if nvidia else ("None", "'7.2.53211'")
        text = "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', "
        f"'xpu']\n__version__ = '{image.torch}+{build}'\n"
        text += f"debug = False\ncuda: Optional[str] = {cuda}\ngit_version = '0b1c2d3e'\nhip: Optional[str] = {hip}\n"
        "xpu: Optional[str] = None\n"
        parts.files["/opt/venv/lib/python3.12/site-packages/torch/version.py"] = text
