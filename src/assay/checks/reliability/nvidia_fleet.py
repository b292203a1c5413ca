"""NVIDIA GPUs over the fleet: the same driver, firmware and number everywhere."""

from __future__ import annotations

from assay.checks.alike import alike
from assay.checks.registry import Fleet, check
from assay.facts.nvidia import NvidiaDriver, NvidiaSmi
from assay.model import Verdict


@check(
    "nvidia.driver.uniform",
    category="reliability",
    severity="medium",
    criteria=("life-fabric-driver-ready",),
    why="Different drivers in one job mean different CUDA support, and NCCL errors that depend on where the job lands.",
    fix="Bring the odd nodes to the driver of the majority before they take jobs again.",
)
def driver_uniform(drivers: Fleet[NvidiaDriver]) -> Verdict:
    """Warns when the nodes run different driver versions, or some the open and some the closed module."""
    versions = {node: f"{d.version}{' open' if d.open else ''}" for node, d in drivers.items() if d.version}
    return alike("driver", {"": versions})


@check(
    "nvidia.vbios.uniform",
    category="reliability",
    severity="low",
    why="Nodes with other GPU firmware behave differently under power and thermal limits, and hide known faults.",
    fix="Ask the provider to bring all boards of one product to the same firmware.",
)
def vbios_uniform(fleet: Fleet[NvidiaSmi]) -> Verdict:
    """Warns when GPUs of one product carry different VBIOS versions on different nodes."""
    images: dict[str, dict[str, str]] = {}
    for node, smi in fleet.items():
        for product in {gpu.name for gpu in smi.gpus if gpu.name}:
            if versions := {gpu.vbios for gpu in smi.gpus if gpu.name == product and gpu.vbios}:
                images.setdefault(product, {})[node] = ", ".join(sorted(versions))
    return alike("VBIOS", images, nobody="no NVIDIA GPU that tells its VBIOS")


@check(
    "nvidia.gpu.count-uniform",
    category="reliability",
    severity="high",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="A node with fewer GPUs than its neighbours has usually lost one without any error.",
    fix="Look for the absent GPU on the odd nodes: `lspci -d 10de:` and `journalctl -k`.",
)
def count_uniform(fleet: Fleet[NvidiaSmi]) -> Verdict:
    """Warns when nodes with the same product have different numbers of GPUs."""
    counts: dict[str, dict[str, str]] = {}
    for node, smi in fleet.items():
        names = {gpu.name for gpu in smi.gpus if gpu.name}
        if len(names) == 1:
            counts.setdefault(names.pop(), {})[node] = f"{len(smi.gpus)} GPUs"
    return alike("number of GPUs", counts, nobody="no node with one kind of NVIDIA GPU")
