"""Memory of NVIDIA GPUs: ECC, row remapping, retired pages, and what the GPU itself asks for."""

from __future__ import annotations

from assay.checks.nvidia_gpus import mute, told, where
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.nvidia import NvidiaGpu, NvidiaSmi
from assay.model import Verdict
from assay.profiles.nvidia import NvidiaBars

_CRITERIA = ("exp-hc-ecc", "rel-passive-suite")


@check(
    "nvidia.ecc.enabled",
    category="reliability",
    severity="high",
    criteria=_CRITERIA,
    why="Without ECC a flipped bit ends as a wrong number in the result instead of an error.",
    fix="`nvidia-smi -e 1` and reset the GPUs or reboot.",
)
def ecc_enabled(smi: NvidiaSmi) -> Verdict:
    """Fails when ECC is off on a GPU that has it, warns when a change waits for a reset."""
    known = [gpu for gpu in smi.gpus if gpu.ecc is not None]
    if not known:
        return skip("no GPU with ECC")
    if off := [gpu for gpu in known if not gpu.ecc]:
        return fail(f"ECC is off on {where(off, smi)}", seen=[gpu.pci for gpu in off])
    if waiting := [gpu for gpu in known if gpu.ecc_pending is False]:
        return warn(f"ECC goes off at the next reset of {where(waiting, smi)}", seen=[gpu.pci for gpu in waiting])
    return mute(known, smi, "ECC mode") or ok(f"ECC is on for {len(known)} GPUs")


@check(
    "nvidia.ecc.uncorrectable",
    category="reliability",
    severity="critical",
    criteria=_CRITERIA,
    why="An uncorrectable error kills the process that meets it, and a GPU that had one tends to have more.",
    fix="Drain the node, reset the GPU, run `dcgmi diag -r 3`; return the GPU when errors come back.",
)
def uncorrectable(smi: NvidiaSmi) -> Verdict:
    """Fails on uncorrectable errors since the last reset and on a passed SRAM threshold; only names older ones."""
    known = [gpu for gpu in smi.gpus if gpu.ecc_volatile and gpu.ecc_volatile.uncorrectable is not None]
    if bad := [gpu for gpu in smi.gpus if gpu.sram_threshold_exceeded]:
        return fail(f"SRAM error threshold exceeded on {where(bad, smi)}", seen=[gpu.pci for gpu in bad])
    if bad := [gpu for gpu in smi.gpus if any(mig.sram_uncorrectable for mig in gpu.mig_devices)]:
        return fail(f"uncorrectable SRAM errors in MIG devices of {where(bad, smi)}", seen=[gpu.pci for gpu in bad])
    if fresh := told(smi, _uncorrectable):
        return fail(f"uncorrectable ECC errors since the last reset: {some(fresh)}", seen=fresh)
    if not known:
        return unknown("no ECC counters although ECC is on", "too-little") if _any_ecc(smi) else skip("no GPU with ECC")
    if gap := mute(known, smi, "ECC counters"):
        return gap
    old = [n for gpu in known if gpu.ecc_aggregate and (n := gpu.ecc_aggregate.uncorrectable)]
    history = " since the last reset, some earlier" if old else ""
    return ok(f"no uncorrectable ECC errors on {len(known)} GPUs{history}", seen={"earlier": sum(old)})


def _uncorrectable(gpu: NvidiaGpu) -> str | None:
    number = gpu.ecc_volatile.uncorrectable if gpu.ecc_volatile else None
    return str(number) if number else None


def _any_ecc(smi: NvidiaSmi) -> bool:
    return any(gpu.ecc for gpu in smi.gpus)


@check(
    "nvidia.ecc.correctable",
    category="reliability",
    severity="low",
    criteria=_CRITERIA,
    why="A flood of corrected errors is the early sign of memory that will fail.",
    fix="Watch the rate; reset the GPU when the node is idle and test its memory with `dcgmi diag -r 3`.",
)
def correctable(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Warns when the corrected errors of a GPU since its last reset pass the bar for DRAM or SRAM."""
    known = [(gpu, gpu.ecc_volatile) for gpu in smi.gpus if gpu.ecc_volatile]
    counts = [
        (gpu, name, number, bar)
        for gpu, ecc in known
        for name, number, bar in (
            ("DRAM", ecc.dram_correctable, bars.dram_correctable),
            ("SRAM", ecc.sram_correctable, bars.sram_correctable),
            ("single-bit", ecc.single_bit, bars.dram_correctable),
        )
        if number is not None
    ]
    if not counts:
        return unknown("no ECC counters although ECC is on", "too-little") if _any_ecc(smi) else skip("no GPU with ECC")
    bar = bars.ecc_bar()
    if bad := [f"{gpu.pci}: {number} {name}" for gpu, name, number, most in counts if number > most.value]:
        return warn(f"many corrected ECC errors: {some(bad)}", seen=bad, bar=bar)
    return ok("few corrected ECC errors", seen=max(number for _, _, number, _ in counts), bar=bar)


@check(
    "nvidia.remapped-rows",
    category="reliability",
    severity="high",
    criteria=_CRITERIA,
    why="HBM replaces bad rows by spare ones; a failed or pending replacement leaves the bad row in use.",
    fix="Pending: drain the node and reset the GPU. Failed or without spares: return the GPU.",
)
def remapped_rows(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Fails on a failed remapping and on very many rows; warns on a pending one, many rows, banks without spares."""
    known = [gpu for gpu in smi.gpus if gpu.remapped]
    if not known:
        return skip("no GPU reports remapped rows (GPU without HBM remapping, or MIG is on)")
    if bad := told(smi, lambda gpu: _lasting(gpu, bars.remapped_fail.value)):
        return fail(f"row remapping: {some(bad)}", seen=bad, bar=bars.remapped_fail.bar(sign="< "))
    if bad := told(smi, lambda gpu: _passing(gpu, bars.remapped_warn.value)):
        return warn(f"row remapping: {some(bad)}", seen=bad, bar=bars.remapped_warn.bar(sign="< "))
    if any(rows.failure is None or rows.pending is None for gpu in known if (rows := gpu.remapped)):
        return unknown("the state of row remapping is not told", "too-little")
    return mute(known, smi, "row remapping") or ok(f"no row remapping is pending or failed on {len(known)} GPUs")


def _lasting(gpu: NvidiaGpu, most: float) -> str | None:
    if gpu.remapped and gpu.remapped.failure:
        return "remapping failed"
    return _rows(gpu, most)


def _passing(gpu: NvidiaGpu, most: float) -> str | None:
    if gpu.remapped and gpu.remapped.pending:
        return "pending, a reset is due"
    banks = gpu.remapped.banks.get("none", 0) if gpu.remapped else 0
    return _rows(gpu, most) or (f"{banks} banks without spare rows" if banks else None)


def _rows(gpu: NvidiaGpu, most: float) -> str | None:
    rows = gpu.remapped.uncorrectable if gpu.remapped else None
    return f"{rows} rows after uncorrectable errors" if rows is not None and rows >= most else None


@check(
    "nvidia.retired-pages",
    category="reliability",
    severity="high",
    criteria=_CRITERIA,
    why="Volta and Turing take bad memory pages out of use at the next reset; until then they stay in use.",
    fix="Drain the node and reset the GPU; return it when the number of retired pages keeps growing.",
)
def retired_pages(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Fails at the number of retired pages where a GPU is due for return; warns earlier and on a pending retirement."""
    known = [gpu for gpu in smi.gpus if gpu.retired_double is not None or gpu.retired_pending is not None]
    if not known:
        return skip("no GPU that retires pages")
    if bad := told(smi, lambda gpu: _pages(gpu, bars.retired_fail.value)):
        return fail(f"retired memory pages: {some(bad)}", seen=bad, bar=bars.retired_fail.bar(sign="< "))
    if waiting := [gpu for gpu in known if gpu.retired_pending]:
        return warn(f"page retirement is pending on {where(waiting, smi)}", seen=[gpu.pci for gpu in waiting])
    if bad := told(smi, lambda gpu: _pages(gpu, bars.retired_warn.value)):
        return warn(f"retired memory pages: {some(bad)}", seen=bad, bar=bars.retired_warn.bar(sign="< "))
    return ok(f"few retired pages on {len(known)} GPUs", bar=bars.retired_warn.bar(sign="< "))


def _pages(gpu: NvidiaGpu, most: float) -> str | None:
    pages = (gpu.retired_single or 0) + (gpu.retired_double or 0)
    return str(pages) if pages >= most else None


@check(
    "nvidia.recovery-action",
    category="reliability",
    severity="critical",
    criteria=("exp-hc-ecc", "rel-passive-suite"),
    why="The driver itself says that this GPU needs a reset, a reboot or a repair; until then jobs on it fail.",
    fix="Drain the node, then do what the driver asks: `nvidia-smi --gpu-reset -i N`, or a reboot, or the repair.",
)
def recovery_action(smi: NvidiaSmi) -> Verdict:
    """Fails when the driver asks for a recovery action; warns when a repair or a reset is only recommended."""
    if bad := told(smi, _demand):
        return fail(f"the driver asks for: {some(bad)}", seen=bad)
    if bad := told(smi, _advice):
        return warn(f"the driver recommends: {some(bad)}", seen=bad)
    known = [gpu for gpu in smi.gpus if gpu.recovery_action or gpu.reset_required is not None]
    if not known:
        return skip("this driver names no recovery action")
    return mute(known, smi, "recovery action") or ok(f"no recovery action on {len(known)} GPUs")


def _demand(gpu: NvidiaGpu) -> str | None:
    if gpu.recovery_action and gpu.recovery_action != "None":
        return gpu.recovery_action
    if gpu.unrepairable_memory:
        return "replacement (unrepairable memory)"
    return "reset" if gpu.reset_required else None


def _advice(gpu: NvidiaGpu) -> str | None:
    if gpu.channel_repair_pending or gpu.tpc_repair_pending:
        return "a reset (repair pending)"
    return "drain and reset" if gpu.drain_and_reset else None


@check(
    "nvidia.inforom",
    category="reliability",
    severity="medium",
    why="The InfoROM keeps ECC history and page retirement; when it is corrupt, both are lost or wrong.",
    fix="Reset the GPU; when the warning stays, return the GPU.",
)
def inforom(smi: NvidiaSmi) -> Verdict:
    """Warns when nvidia-smi says beside its answer that an InfoROM is corrupt."""
    if not smi.gpus:
        return skip("no NVIDIA GPU")
    if smi.failure and smi.failure.state == "inforom_corrupted":
        return warn(f"corrupt InfoROM: {smi.failure.pci or 'a GPU'}", seen=smi.failure.message)
    return ok("nvidia-smi reports no corrupt InfoROM")
