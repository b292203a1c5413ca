"""AMD accelerators: present, answering and without memory errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.checks.amd_gpus import modules
from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, unknown, warn
from assay.facts.amd_devices import AmdDevices
from assay.facts.amd_smi import AmdGpus, RasCount
from assay.facts.gpu_pci import GpuPciDevices, PciGpu
from assay.facts.rocm_smi import RocmSmi
from assay.model import Missing, Verdict
from assay.profiles.interconnect import Interconnect

_LENT = frozenset({"vfio-pci", "pci-stub", "radeon"})


@check(
    "amd.gpus.answer",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="A GPU that is on the PCI bus but that the driver or its tool cannot reach takes every job on the node down.",
    fix="Read `dmesg | grep amdgpu` for that address; reset or reboot the node, and replace a GPU that stays away.",
    required=True,
)
def answer(
    pci: GpuPciDevices, smi: AmdGpus | Missing, old: RocmSmi | Missing, devices: AmdDevices | Missing
) -> Verdict:
    """Fails when an AMD GPU on the PCI bus is gone or missing in amd-smi (rocm-smi where amd-smi is not installed)."""
    on_bus = [gpu for gpu in pci.amd if gpu.driver not in _LENT]
    if not on_bus:
        return skip("no AMD GPU on the PCI bus")
    if gone := [gpu.pci for gpu in on_bus if gpu.gone]:
        return fail(f"{len(gone)} of {len(on_bus)} AMD GPUs do not answer on the PCI bus: {', '.join(gone)}", seen=gone)
    listed = smi if isinstance(smi, AmdGpus) else old
    if isinstance(listed, Missing):
        return _no_answer(len(on_bus), smi if isinstance(smi, Missing) and smi.kind != "absent" else listed)
    if isinstance(smi, AmdGpus) and smi.hung:
        return warn(f"amd-smi {', '.join(smi.hung)} did not answer in time", seen=smi.hung)
    lent = len(devices.render) if isinstance(devices, AmdDevices) else None
    return _all_listed(on_bus, {gpu.bdf for gpu in listed.gpus}, lent)


def _all_listed(on_bus: list[PciGpu], seen: set[str], lent: int | None) -> Verdict:
    """`lent` = render nodes here: fewer than the GPUs that the driver has mean a container that was given only some."""
    if not any(seen):
        return unknown("the tool names no PCI address", seen=len(seen))
    lost = [gpu for gpu in on_bus if gpu.pci.lower() not in seen]
    if lost and lent is not None and lent < len(on_bus) and all(gpu.driver for gpu in lost):
        return skip(f"only {lent} of {len(on_bus)} AMD GPUs were given to this container", "denied")
    if lost:
        names = [gpu.pci for gpu in lost]
        return fail(f"{len(lost)} of {len(on_bus)} AMD GPUs are missing in amd-smi: {', '.join(names)}", seen=names)
    return ok(f"all {len(on_bus)} AMD GPUs answer")


def _no_answer(count: int, gap: Missing) -> Verdict:
    if gap.kind in ("failed", "timed-out"):
        return fail(f"{count} AMD GPUs on the PCI bus and no answer: {gap.reason}")
    return missing(gap)


@check(
    "amd.gpus.count",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="A board of eight with seven GPUs breaks jobs that expect eight, and is easy to overlook: indices close up.",
    fix="Compare with `lspci -d 1002:`; power-cycle the node, then have the missing module reseated or replaced.",
)
def count(smi: AmdGpus, pci: GpuPciDevices | Missing, profile: Interconnect) -> Verdict:
    """Compares GPUs (in amd-smi or on the bus, whichever is more; partitions once) with the board of the product."""
    found = modules(smi.gpus)
    names = Counter(gpu.product for gpu in found.values())
    board = next((b for b in profile.amd_boards.table if any(b.match in name for name in names)), None)
    if board is None:
        return skip("no board of a known size")
    if any(name.endswith(" VF") for name in names):
        return skip("a virtual machine shows only the GPUs it was given")
    there = max(len(found), len(pci.amd) if isinstance(pci, GpuPciDevices) else 0)
    bar = profile.amd_boards.cited(f"{board.gpus} GPUs")
    if there == board.gpus:
        return ok(f"{there} {board.match}", seen=there, bar=bar)
    if there < board.gpus // 2 or there > board.gpus:
        return unknown(f"{there} {board.match}: not a whole board, maybe only a part of it was given", "no-reference")
    return fail(f"{there} of {board.gpus} {board.match}", seen=there, expected=board.gpus, bar=bar)


@check(
    "amd.ras.uncorrectable",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-ecc", "rel-passive-suite"),
    why="An uncorrectable error has destroyed data in a GPU: the job crashed or, worse, went on with wrong numbers.",
    fix="Drain the node, reset the GPU (`amd-smi reset --gpureset -g N`), and replace it when the count rises again.",
)
def uncorrectable(smi: AmdGpus | Missing, devices: AmdDevices | Missing) -> Verdict:
    """Fails when any block of any GPU counts an uncorrectable error since the driver was loaded (amd-smi or sysfs)."""
    counts = list(_counts(smi, devices))
    known = [(name, block, c.uncorrectable) for name, block, c in counts if c.uncorrectable is not None]
    if not known:
        return _no_counts(smi, devices)
    bad = [f"{name} {block}: {n}" for name, block, n in known if n]
    if bad:
        return fail(f"uncorrectable errors: {'; '.join(dict.fromkeys(bad))}", seen=bad)
    told = len({name for name, _, _ in known})
    if isinstance(smi, AmdGpus) and told < (every := len(modules(smi.gpus))):
        return unknown(f"{every - told} of {every} GPUs report no error counters", "too-little")
    return ok(f"no uncorrectable error on {told} GPUs")


@check(
    "amd.ras.correctable",
    category="reliability",
    severity="low",
    criteria=("exp-hc-ecc", "rel-passive-suite"),
    why="A GPU that corrects many errors slows down and often has an uncorrectable one soon.",
    fix="Watch the block named; have the GPU replaced when its count keeps rising faster than that of its neighbours.",
)
def correctable(smi: AmdGpus | Missing, devices: AmdDevices | Missing, profile: Interconnect) -> Verdict:
    """Warns when a block of a GPU has corrected more errors than the bar since the driver was loaded."""
    known = [(name, block, c.correctable) for name, block, c in _counts(smi, devices) if c.correctable is not None]
    if not known:
        return _no_counts(smi, devices)
    limit = profile.amd_correctable
    bar = limit.cited(f"{limit.value:.0f} per GPU")
    if many := [f"{name} {block}: {n}" for name, block, n in known if n > limit.value]:
        return warn(f"many corrected errors: {'; '.join(dict.fromkeys(many))}", seen=many, bar=bar)
    return ok(f"at most {max(n for _, _, n in known)} corrected errors in a block", bar=bar)


def _counts(smi: AmdGpus | Missing, devices: AmdDevices | Missing) -> Iterator[tuple[str, str, RasCount]]:
    """(GPU, block, counts) of both sources; a total stands in where there are no blocks."""
    if isinstance(smi, AmdGpus):
        for gpu in modules(smi.gpus).values():
            blocks = gpu.ras_blocks or ({"total": gpu.ras} if gpu.ras else {})
            yield from ((gpu.bdf or f"GPU {gpu.index}", block, ras) for block, ras in blocks.items())
    if isinstance(devices, AmdDevices):
        for card in devices.cards:
            yield from ((card.bdf or "card", block, ras) for block, ras in card.blocks.items())


def _no_counts(smi: AmdGpus | Missing, devices: AmdDevices | Missing) -> Verdict:
    if isinstance(smi, AmdGpus) and smi.gpus:
        return unknown("these GPUs report no error counters", "too-little")
    return missing(smi if isinstance(smi, Missing) else devices) if isinstance(devices, Missing) else skip("no AMD GPU")


@check(
    "amd.memory.pages",
    category="reliability",
    severity="high",
    criteria=("exp-hc-ecc", "rel-passive-suite"),
    why="Pages taken out of use show where HBM has failed; a GPU near its limit will refuse to start after a reset.",
    fix="Reboot the node so that pending pages are retired; replace a GPU near its threshold (`amd-smi bad-pages`).",
)
def pages(devices: AmdDevices, smi: AmdGpus | Missing, profile: Interconnect) -> Verdict:
    """Fails near the GPU's own bad page threshold or for a page that cannot be reserved; warns on pending pages."""
    cards = [card for card in devices.cards if card.pages_retired is not None]
    if not cards:
        return skip("the driver lists no bad pages", "absent")
    limits = {gpu.bdf: gpu.bad_page_threshold for gpu in smi.gpus} if isinstance(smi, AmdGpus) else {}
    share = profile.amd_bad_pages_share
    bar = share.cited(f"{share.value:.0%} of the threshold")
    for card in cards:
        limit = limits.get(card.bdf)
        used = (card.pages_retired or 0) + (card.pages_pending or 0)
        if limit and used >= share.value * limit:
            return fail(f"{card.bdf}: {used} bad pages of {limit} allowed", seen=used, expected=limit, bar=bar)
    if stuck := [card.bdf for card in cards if card.pages_unreserved]:
        return fail(f"bad pages still in use on {', '.join(stuck)}", seen=stuck)
    if waiting := [card.bdf for card in cards if card.pages_pending]:
        return warn(f"bad pages wait for a reset on {', '.join(waiting)}", seen=waiting)
    return ok(f"at most {max(card.pages_retired or 0 for card in cards)} retired pages on a GPU", bar=bar)
