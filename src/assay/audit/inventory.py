"""What a node consists of, in a dozen short lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from assay.checks.engine import NodeFacts
from assay.facts.amd_smi import AmdGpus
from assay.facts.containers import OciRuntimes
from assay.facts.cpu import Cpu
from assay.facts.docker import DockerEngine
from assay.facts.gpu_pci import GpuPciDevices
from assay.facts.infiniband import RdmaDevices
from assay.facts.kernel import Kernel
from assay.facts.memory import Memory
from assay.facts.nvidia import NvidiaSmi
from assay.facts.nvme import NvmeDrives
from assay.facts.os import OsRelease
from assay.facts.virtualisation import Virtualisation
from assay.model import Fact

F = TypeVar("F", bound=Fact)


def inventory(node: NodeFacts) -> dict[str, str]:
    """Part of the machine -> what was seen of it. A part that was not seen is left out."""
    rows = ((name, tell(node)) for name, tell in _PARTS.items())
    return {name: words for name, words in rows if words}


def _get(node: NodeFacts, kind: type[F]) -> F | None:
    fact = node.facts.get(kind)
    return fact if isinstance(fact, kind) else None


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{n} x {name}" for name, n in sorted(Counter(names).items()))


def _machine(node: NodeFacts) -> str:
    where = _get(node, Virtualisation)
    if where is None:
        return ""
    kind = {"bare-metal": "bare metal", "vm": "virtual machine", None: ""}[where.machine]
    inside = f"in a container ({where.container_kind})" if where.container else ""
    parts = [" ".join(filter(None, (where.vendor, where.product))), kind, where.hypervisor, where.cloud, inside]
    return ", ".join(filter(None, parts))


def _system(node: NodeFacts) -> str:
    release, kernel = _get(node, OsRelease), _get(node, Kernel)
    linux = f"Linux {kernel.release} {kernel.arch or ''}".strip() if kernel else ""
    return ", ".join(filter(None, (release.pretty if release else "", linux)))


def _cpu(node: NodeFacts) -> str:
    cpu = _get(node, Cpu)
    if cpu is None:
        return ""
    return ", ".join(_cpu_words(cpu))


def _cpu_words(cpu: Cpu) -> Iterator[str]:
    if cpu.model:
        yield cpu.model
    if cpu.sockets:
        yield f"{cpu.sockets} socket{'s' if cpu.sockets != 1 else ''}"
    if cpu.online:
        yield f"{cpu.online} CPUs"


def _memory(node: NodeFacts) -> str:
    memory = _get(node, Memory)
    return f"{memory.total_mib / 1024:.0f} GiB" if memory and memory.total_mib else ""


def _gpus(node: NodeFacts) -> str:
    names = gpu_names(node)
    seen = _get(node, GpuPciDevices)
    on_bus = len(seen.gpus) if seen else 0
    if on_bus > len(names):
        return f"{_counted(names) or 'none answers'}; {on_bus} on the PCI bus"
    return _counted(names)


def gpu_names(node: NodeFacts) -> tuple[str, ...]:
    """Product name of every GPU that answers."""
    nvidia, amd = _get(node, NvidiaSmi), _get(node, AmdGpus)
    names = [gpu.name or "NVIDIA GPU" for gpu in nvidia.gpus] if nvidia else []
    return (*names, *(gpu.product or "AMD GPU" for gpu in (amd.gpus if amd else ())))


def _driver(node: NodeFacts) -> str:
    nvidia, amd = _get(node, NvidiaSmi), _get(node, AmdGpus)
    words = []
    if nvidia and nvidia.driver_version:
        words.append(f"NVIDIA {nvidia.driver_version}, CUDA {nvidia.cuda_version or '?'}")
    if amd and (amd.driver_version or amd.rocm_version):
        words.append(f"amdgpu {amd.driver_version or 'of the kernel'}, ROCm {amd.rocm_version or '?'}")
    return "; ".join(words)


def _fabric(node: NodeFacts) -> str:
    fabric = _get(node, RdmaDevices)
    if fabric is None:
        return ""
    return _counted(f"{d.hca_type or d.driver or 'RDMA device'} fw {d.fw_ver or '?'}" for d in fabric.devices)


def _drives(node: NodeFacts) -> str:
    drives = _get(node, NvmeDrives)
    return _counted(f"{d.model} {d.size_gb or 0:.0f} GB".strip() for d in drives.drives) if drives else ""


def _containers(node: NodeFacts) -> str:
    engine, runtimes = _get(node, DockerEngine), _get(node, OciRuntimes)
    words = [f"docker {engine.server_version}"] if engine and engine.server_version else []
    words += [f"{r.name} {r.version}" for r in (runtimes.found if runtimes else ()) if r.version]
    return ", ".join(dict.fromkeys(words))


_PARTS: dict[str, Callable[[NodeFacts], str]] = {
    "machine": _machine,
    "system": _system,
    "processor": _cpu,
    "memory": _memory,
    "accelerators": _gpus,
    "GPU driver": _driver,
    "RDMA devices": _fabric,
    "NVMe drives": _drives,
    "containers": _containers,
}
