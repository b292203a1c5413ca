"""What is installed on an invented host and how it is set. The defaults are current and well kept."""

from __future__ import annotations

from msgspec import Struct


class Nvcc(Struct, frozen=True):
    """One CUDA toolkit: where its nvcc lies, its release and full version."""

    path: str
    release: str
    version: str


CUDA = Nvcc("/usr/local/cuda-13.1/bin/nvcc", "13.1", "13.1.80")
DISTRO_CUDA = Nvcc("/usr/bin/nvcc", "11.5", "11.5.119")


class Image(Struct, frozen=True, kw_only=True):
    """Ubuntu 24.04 with everything a GPU cluster needs."""

    kernel: str = "6.8.0-147-generic"
    kernel_package: str = "6.8.0-147.147"
    kernel_source: str = "linux"
    newer_kernel: str = ""
    docker: str = "29.9.2"
    containerd: str = "2.2.4"
    runc: str = "1.3.6"
    toolkit: str = "1.19.1"
    dcgm: str = "4.5.3"
    exporter: str = "4.8.2"
    nccl: str = "2.30.3"
    torch: str = "2.14.1"
    torch_cuda: str = "13.0"
    ofed: str = "26.07-0.6.6"
    amdgpu_dkms: str = "1:6.16.13.31400000-2278356.24.04"
    nvcc: tuple[Nvcc, ...] = (CUDA,)
    path: str = "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    open_module: bool = True
    profiling_for_root: bool = False
    exporters_open: bool = False
    synchronised: bool = True
    last_suite_days: float = 2.3
    nested: bool = False
    sudo_for_all: bool = False
    root_full: bool = False
    log_shipper: bool = True
    swap_used_mib: int = 0
    peer_memory: bool = True
    slurm: bool = True
    containers: bool = True
