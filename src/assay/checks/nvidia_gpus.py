"""How NVIDIA rules name GPUs in a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from assay.checks.verdict import some
from assay.facts.nvidia import NvidiaGpu, NvidiaSmi


def where(gpus: Iterable[NvidiaGpu], smi: NvidiaSmi) -> str:
    """Which GPUs: "all 8 GPUs" (so that equal nodes fold into one finding), or their PCI addresses."""
    names = [gpu.pci or gpu.name or "?" for gpu in gpus]
    if len(names) == len(smi.gpus):
        return f"all {len(names)} GPUs" if len(names) > 1 else "the GPU"
    return some(names)


def told(smi: NvidiaSmi, text: Callable[[NvidiaGpu], str | None]) -> list[str]:
    """What the function has to say of each GPU, with its address; nothing for the GPUs it has nothing on."""
    return [f"{gpu.pci or gpu.name or '?'}: {said}" for gpu in smi.gpus if (said := text(gpu))]
