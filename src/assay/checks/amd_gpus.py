"""How AMD rules count GPUs, and name them in a message."""

from __future__ import annotations

from assay.facts.amd_smi import AmdGpu


def modules(gpus: tuple[AmdGpu, ...]) -> dict[str, AmdGpu]:
    """One entry per physical GPU by PCI address: partitions share the address of the first one."""
    found: dict[str, AmdGpu] = {}
    for gpu in gpus:
        found.setdefault(gpu.bdf or f"#{gpu.index}", gpu)
    return found


def name_of(gpu: AmdGpu) -> str:
    """How a message names a GPU."""
    return f"GPU {gpu.index} ({gpu.bdf})" if gpu.bdf else f"GPU {gpu.index}"
