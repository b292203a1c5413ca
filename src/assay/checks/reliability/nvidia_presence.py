"""Are all NVIDIA GPUs of the node there, and do they answer."""

from __future__ import annotations

from assay.checks.nvidia_gpus import where
from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.gpu_pci import GpuPciDevices, PciGpu
from assay.facts.nvidia import NvidiaDevices, NvidiaDriver, NvidiaSmi
from assay.facts.nvidia_errors import smi_failure
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.nvidia import GpuBoard, NvidiaBars, board_of

_LENT = frozenset({"vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub"})


def _own(pci: GpuPciDevices | Missing) -> tuple[PciGpu, ...]:
    """NVIDIA GPUs on the bus that this system keeps for itself."""
    return () if isinstance(pci, Missing) else tuple(gpu for gpu in pci.nvidia if gpu.driver not in _LENT)


@check(
    "nvidia.gpu.responds",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="A GPU that fell off the bus, or a driver that hangs, takes down every job that lands on the node.",
    fix="Drain the node; look for Xid 79 and 119 in `journalctl -k`; power-cycle the node, then replace the GPU.",
    required=True,
)
def responds(smi: NvidiaSmi | Missing, pci: GpuPciDevices | Missing, devices: NvidiaDevices | Missing) -> Verdict:
    """Fails when GPUs exist and nvidia-smi hangs, gives an error, or reports one as lost; skips a node without GPUs."""
    own = _own(pci)
    if isinstance(smi, Missing):
        return _no_answer(smi, pci, devices, len(own))
    if dead := [gpu.pci for gpu in own if gpu.gone]:
        return fail(f"off the bus: {some(dead)}", seen=dead)
    if bad := [gpu for gpu in smi.gpus if gpu.lost or gpu.needs_reset]:
        return fail(f"lost, or waiting for a reset: {where(bad, smi)}", seen=[gpu.pci for gpu in bad])
    if smi.failure and smi.failure.state != "inforom_corrupted":
        return fail(f"nvidia-smi reports: {smi.failure.message[:200]}", seen=smi.failure.state)
    if not smi.gpus:
        return fail(f"nvidia-smi shows none of {len(own)} GPUs") if own else skip("no NVIDIA GPU")
    return ok(f"{len(smi.gpus)} GPUs answer", seen=len(smi.gpus))


def _no_answer(smi: Missing, pci: GpuPciDevices | Missing, devices: NvidiaDevices | Missing, own: int) -> Verdict:
    """What a silent nvidia-smi means, given what the bus and the device files show."""
    nodes = 0 if isinstance(devices, Missing) else len(devices.nodes)
    count = max(own, nodes)
    if not count and isinstance(pci, GpuPciDevices):
        return skip("the GPUs are lent to guests (vfio)" if pci.nvidia else "no NVIDIA GPU")
    if smi.kind == "timed-out" and count:
        return fail(f"nvidia-smi hangs although {count} GPUs are there", seen=smi.reason)
    told = smi_failure(smi.reason)
    if count and smi.kind in ("failed", "absent") and told and told.state != "not_run":
        hint = " (inside a container: the access to the device files may be lost)" if told.scope_hint else ""
        return fail(f"{count} GPUs are there, but {smi.reason[:200]}{hint}", seen=told.cause or told.state)
    if count and smi.kind == "failed":
        return fail(f"{count} GPUs are there, but {smi.reason[:200]}", seen=smi.reason)
    if nodes and smi.kind == "absent":
        return unknown(f"{nodes} GPU device files, but nvidia-smi is not installed", "failed")
    return missing(smi)


@check(
    "nvidia.driver.loaded",
    category="reliability",
    severity="critical",
    criteria=("life-fabric-driver-ready",),
    why="Without its kernel driver a GPU exists only on the bus; jobs that land there fail at start.",
    fix="`modprobe nvidia` and read `dmesg`; after a kernel update rebuild the module (`dkms status`).",
    required=True,
)
def driver_loaded(pci: GpuPciDevices, driver: NvidiaDriver | Missing) -> Verdict:
    """Fails when NVIDIA GPUs are on the bus and none, or not all, are bound to the driver; vfio counts as lent out."""
    own = _own(pci)
    if not own:
        return skip("the GPUs are lent to guests (vfio)" if pci.nvidia else "no NVIDIA GPU")
    unbound = [gpu.pci for gpu in own if gpu.driver != "nvidia"]
    if not unbound:
        return ok(f"{len(own)} GPUs bound to the driver")
    if len(unbound) < len(own):
        return fail(f"{len(unbound)} of {len(own)} GPUs have no driver: {some(unbound)}", seen=unbound)
    if isinstance(driver, NvidiaDriver):
        return fail(f"the driver {driver.version or ''} is loaded but holds none of {len(own)} GPUs", seen=unbound)
    if driver.kind == "absent":
        other = sorted({gpu.driver for gpu in own if gpu.driver})
        return fail(f"{len(own)} GPUs, driver not loaded" + (f" (bound to {', '.join(other)})" if other else ""))
    return missing(driver)


@check(
    "nvidia.gpu.count",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-off-bus", "rel-passive-suite"),
    why="A node that silently lost one of eight GPUs still accepts jobs; they fail, or run on fewer GPUs.",
    fix="Drain the node, find the absent address with `lspci -d 10de:` and in `journalctl -k`; power-cycle the node.",
)
def count(
    smi: NvidiaSmi,
    pci: GpuPciDevices | Missing,
    devices: NvidiaDevices | Missing,
    machine: Virtualisation | Missing,
    bars: NvidiaBars,
) -> Verdict:
    """Compares nvidia-smi with the PCI bus, then with the sizes that the board is sold in.

    GPUs that this user or container may not open are left out; then the board is not judged either.
    """
    if not smi.gpus:
        return skip("no NVIDIA GPU")
    seen = {gpu.pci for gpu in smi.gpus}
    if (smi.attached or 0) > len(seen):
        return fail(f"nvidia-smi counts {smi.attached} GPUs and describes {len(seen)}", seen=sorted(seen))
    bus, allowed = {gpu.pci for gpu in _own(pci)}, _allowed(devices)
    unbound = {gpu.pci for gpu in _own(pci) if gpu.driver is None}
    absent = sorted((bus & (allowed | unbound) if allowed else bus) - seen)
    if absent:
        return fail(f"nvidia-smi shows {len(seen)} of {len(seen) + len(absent)} GPUs, not {some(absent)}", seen=absent)
    if bus - seen:
        return ok(f"{len(seen)} GPUs visible here, the node has {len(bus | seen)}", seen=len(seen))
    names = {gpu.name or "" for gpu in smi.gpus}
    board = board_of(bars, next(iter(names))) if len(names) == 1 else None
    guest = smi.gpus[0].virtualization != "None" if isinstance(machine, Missing) else machine.machine != "bare-metal"
    return _against_board(len(seen), board, bars, guest=guest)


def _allowed(devices: NvidiaDevices | Missing) -> set[str]:
    """GPUs of the driver whose device file this user may open; empty = it cannot be told."""
    if isinstance(devices, Missing) or not devices.nodes:
        return set()
    return {
        gpu.pci for gpu in devices.gpus if gpu.minor is None or "w" in devices.nodes.get(f"/dev/nvidia{gpu.minor}", "")
    }


def _against_board(number: int, board: GpuBoard | None, bars: NvidiaBars, *, guest: bool) -> Verdict:
    if board is None:
        return ok(f"{number} GPUs, as many as on the bus", seen=number)
    sizes = board.guest if guest else board.bare
    bar = bars.boards.cited(" or ".join(map(str, sizes)))
    if number in sizes:
        return ok(f"{number} GPUs", seen=number, bar=bar)
    if number in board.guest:
        return warn(f"{number} GPUs on a board that holds {bar.value}", seen=number, expected=sizes, bar=bar)
    return fail(f"{number} GPUs on a board that holds {bar.value}", seen=number, expected=sizes, bar=bar)
