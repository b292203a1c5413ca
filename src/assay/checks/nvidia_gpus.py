"""How NVIDIA rules name GPUs in a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from assay.checks.verdict import some, unknown
from assay.facts.nvidia import NvidiaGpu, NvidiaSmi
from assay.model import Verdict


def where(gpus: Iterable[NvidiaGpu], smi: NvidiaSmi) -> str:
    """Which GPUs: "all 8 GPUs" (so that equal nodes fold into one finding), or their PCI addresses."""
    names = [gpu.pci or gpu.name or "?" for gpu in gpus]
    if len(names) == len(smi.gpus):
        return f"all {len(names)} GPUs" if len(names) > 1 else "the GPU"
    return some(names)


def told(smi: NvidiaSmi, text: Callable[[NvidiaGpu], str | None]) -> list[str]:
    """What the function has to say of each GPU, with its address; nothing for the GPUs it has nothing on."""
    return [f"{gpu.pci or gpu.name or '?'}: {said}" for gpu in smi.gpus if (said := text(gpu))]


def mute(known: Sequence[NvidiaGpu], smi: NvidiaSmi, what: str) -> Verdict | None:
    """Unknown when a GPU does not tell what others of its product do; MIG hides much and is no such gap."""
    if len(known) == len(smi.gpus):
        return None
    products, said = {gpu.name for gpu in known}, set(map(id, known))
    silent = [gpu for gpu in smi.gpus if gpu.name in products and not gpu.mig and id(gpu) not in said]
    return unknown(f"{what} not told by {where(silent, smi)}", "too-little") if silent else None
