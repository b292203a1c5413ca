"""AMD accelerators of one node: alike, linked and partitioned alike."""

from __future__ import annotations

from collections import Counter

from assay.checks.amd_gpus import modules, name_of
from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.amd_devices import AmdDevices
from assay.facts.amd_smi import AmdGpu, AmdGpus
from assay.model import Missing, Verdict


@check(
    "amd.gpus.alike",
    category="reliability",
    severity="medium",
    why="Another product or firmware on one GPU of a node makes its speed and its faults differ from the others.",
    fix="Bring all GPUs to the same firmware bundle (`amd-smi static --vbios`), and ask why one board was swapped.",
)
def alike(smi: AmdGpus) -> Verdict:
    """Fails when the GPUs of a node differ in product or memory size, warns when only the VBIOS differs."""
    found = modules(smi.gpus).values()
    if len(found) < 2:
        return skip("fewer than two AMD GPUs")
    products = Counter((g.product, g.vram_total_mib) for g in found if g.product or g.vram_total_mib)
    if not products:
        return unknown("amd-smi tells neither product nor memory", "too-little")
    if len(products) > 1:
        kinds = [f"{n} x {name or '?'} {mib or 0:.0f} MiB" for (name, mib), n in products.most_common()]
        return fail(f"different GPUs: {', '.join(kinds)}", seen=kinds)
    images = Counter(g.vbios for g in found if g.vbios)
    if len(images) > 1:
        kinds = [f"{n} x {name}" for name, n in images.most_common()]
        return warn(f"different VBIOS: {', '.join(kinds)}", seen=kinds)
    return ok(f"{len(found)} GPUs alike: {next(iter(products))[0]}", seen=sorted(images))


@check(
    "amd.xgmi.links",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="With one XGMI link down, collectives inside the node fall back to a detour and lose much of their bandwidth.",
    fix="Reset all GPUs of the node; when the link stays down, the module or its socket is faulty.",
)
def xgmi(smi: AmdGpus) -> Verdict:
    """Fails when links are down (D) while others are up (U). All down at once proves nothing: some drivers say so."""
    told = {name_of(g): g.xgmi for g in modules(smi.gpus).values() if g.xgmi}
    if not told:
        return skip("amd-smi tells no XGMI link state", "not-asked")
    down = {name: states.count("D") for name, states in told.items() if "D" in states}
    if not any("U" in states for states in told.values()):
        return unknown("no XGMI link is reported up; some drivers report it so", "too-little", seen=down)
    if odd := sorted({state for states in told.values() for state in states} - {"U", "D", "X"}):
        return unknown(f"unfamiliar XGMI link state: {some(odd)}", seen=odd)
    if down:
        return fail(f"XGMI links down: {'; '.join(f'{name}: {n}' for name, n in down.items())}", seen=down)
    return ok(f"all XGMI links of {len(told)} GPUs are up")


@check(
    "amd.partitions.alike",
    category="reliability",
    severity="medium",
    why="GPUs partitioned differently give a job ranks of different size; a leftover mode surprises the next tenant.",
    fix="Set one mode on all GPUs, e.g. `amd-smi set --compute-partition SPX --memory-partition NPS1`.",
)
def partitions(smi: AmdGpus | Missing, devices: AmdDevices | Missing) -> Verdict:
    """Fails when the GPUs of a node are not in the same compute and memory partition mode; says which mode it is."""
    modes = Counter(f"{g.compute_partition}/{g.memory_partition}" for g in _gpus(smi) if g.compute_partition)
    if not modes and isinstance(devices, AmdDevices):
        modes = Counter(f"{c.compute_partition}/{c.memory_partition}" for c in devices.cards if c.compute_partition)
    if not modes:
        return missing(smi) if isinstance(smi, Missing) else skip("these GPUs have no partition modes")
    if len(modes) > 1:
        kinds = [f"{n} x {mode}" for mode, n in modes.most_common()]
        return fail(f"different partition modes: {', '.join(kinds)}", seen=kinds)
    return ok(f"all GPUs in {next(iter(modes)).rstrip('/')}", seen=next(iter(modes)))


def _gpus(smi: AmdGpus | Missing) -> tuple[AmdGpu, ...]:
    return () if isinstance(smi, Missing) else tuple(modules(smi.gpus).values())
