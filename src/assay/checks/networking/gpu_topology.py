"""What lies between GPUs, and between GPUs and NICs, of one node."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.nvidia_nvlink import NvLinks
from assay.facts.nvidia_topo import NvidiaTopology
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.interconnect import Interconnect, nvlink_product

_NEAR = frozenset({"PIX", "PXB"})


@check(
    "gpu.topology.nvlink",
    category="networking",
    severity="critical",
    criteria=("life-fabric-driver-ready",),
    why="GPU pairs without NVLink talk over PCIe: an all-reduce runs at the pace of the slowest pair.",
    fix="See `nvidia-smi nvlink -s` and `nvidia-smi -q | grep -A6 Fabric`; start Fabric Manager or reset the GPUs.",
)
def pairs(topology: NvidiaTopology, nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """On products with built-in NVLink every pair of GPUs must be NV# with the same number of links."""
    if reason := _not_judged(topology, nvlink, profile):
        return skip(reason)
    gpus = frozenset(topology.gpus)
    codes = {(a, b): code for a in gpus for b, code in topology.links.get(a, {}).items() if b in gpus and a != b}
    bad = sorted({f"{min(pair)}-{max(pair)} {code}" for pair, code in codes.items() if not code.startswith("NV")})
    if bad:
        return fail(f"{len(bad)} GPU pairs without NVLink: {some(bad)}", seen=bad[:16])
    widths = sorted(set(codes.values()))
    if len(widths) > 1:
        return fail(f"GPU pairs of different NVLink width: {', '.join(widths)}", seen=widths)
    if not topology.complete:
        return unknown("nvidia-smi topo -m is cut off", "too-little")
    return ok(f"every pair of {len(gpus)} GPUs is {widths[0]}", seen=widths)


def _not_judged(topology: NvidiaTopology, nvlink: NvLinks, profile: Interconnect) -> str:
    """Why there is nothing to judge, "" when there is."""
    products = [nvlink_product(profile, gpu.name) for gpu in nvlink.gpus]
    if not products or not all(p is not None and p.links for p in products):
        return "no product with built-in NVLink"
    if len(topology.gpus) < 2:
        return "one GPU only"
    return "NVLink is off under MIG" if any(gpu.state == "mig" for gpu in nvlink.gpus) else ""


@check(
    "gpu.topology.nic",
    category="networking",
    severity="medium",
    criteria=("life-gpudirect-ready",),
    why="A GPU without a NIC beside it sends its data through the CPU: GPUDirect RDMA slows down or stops.",
    fix="Move NICs to the slots beside the GPUs; in virtual machines pass the PCI topology on or give NCCL its file.",
)
def nics(topology: NvidiaTopology, nvlink: NvLinks | Missing, machine: Virtualisation | Missing) -> Verdict:
    """Warns when a GPU has no NIC at PIX or PXB distance; on Grace modules NODE is as near as it gets."""
    if not topology.nics:
        return skip("nvidia-smi shows no NIC beside the GPUs")
    if 2 * len(topology.nics) < len(topology.gpus):
        return skip(f"{len(topology.nics)} NICs for {len(topology.gpus)} GPUs: not one for each")
    grace = isinstance(nvlink, NvLinks) and any(" GB" in gpu.name or " GH" in gpu.name for gpu in nvlink.gpus)
    near = _NEAR | {"NODE", "PHB"} if grace else _NEAR
    rows = {gpu: topology.links[gpu] for gpu in topology.gpus if gpu in topology.links}
    far = [gpu for gpu, row in rows.items() if not any(row[nic] in near for nic in topology.nics)]
    if far and isinstance(machine, Virtualisation) and machine.machine == "vm":
        return unknown("a virtual machine hides how near the NICs are", "too-little", seen=far)
    if far:
        return warn(f"no NIC near {some(far, 8)}", seen=far, expected="PIX or PXB")
    if not topology.complete:
        return unknown("nvidia-smi topo -m is cut off", "too-little")
    return ok(f"each of {len(rows)} GPUs has a NIC nearby")
