"""NVIDIA GPUs: clocks, temperature, PCIe link and signs of a stalled job."""

from __future__ import annotations

from statistics import median

from assay.checks.nvidia_gpus import mute, told, where
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.nvidia import NvidiaGpu, NvidiaSmi
from assay.model import Verdict
from assay.profiles.nvidia import NvidiaBars, idle_watts

_HARMFUL = {
    "hw_slowdown": "HW slowdown",
    "hw_thermal_slowdown": "HW thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
}
_WARNING = {"sw_thermal_slowdown": "SW thermal slowdown"}
_HARMLESS = frozenset({
    "idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clock_setting",
})  # fmt: skip


@check(
    "nvidia.throttle",
    category="reliability",
    severity="high",
    criteria=("exp-hc-thermal", "rel-passive-suite"),
    why="A GPU that slows down sets the pace of the whole job: every collective waits for it.",
    fix="Thermal: check fans, cold plates, inlet. Power brake: check power supplies and the rack's power budget.",
)
def throttle(smi: NvidiaSmi) -> Verdict:
    """Fails while a hardware slowdown or the power brake is active, warns on a software thermal slowdown.

    Idle clocks, application clocks, sync boost and the software power cap are normal.
    """
    known = [gpu for gpu in smi.gpus if gpu.event_reasons is not None]
    if not known:
        return (
            unknown("nvidia-smi gives no reasons for the clocks", "too-little") if smi.gpus else skip("no NVIDIA GPU")
        )
    for table, verdict in ((_HARMFUL, fail), (_WARNING, warn)):
        kinds = {text for gpu in known for reason, text in table.items() if reason in (gpu.event_reasons or ())}
        if len(kinds) > 1:
            kinds.discard("HW slowdown")
        if kinds:
            bad = [gpu for gpu in known if table.keys() & set(gpu.event_reasons or ())]
            return verdict(f"{', '.join(sorted(kinds))} on {where(bad, smi)}", seen=[gpu.pci for gpu in bad])
    strange = {reason for gpu in known for reason in gpu.event_reasons or ()} - _HARMLESS
    if strange:
        return unknown(f"unfamiliar reasons for lower clocks: {', '.join(sorted(strange))}", seen=sorted(strange))
    return mute(known, smi, "reasons for the clocks") or ok(f"no slowdown on {len(known)} GPUs")


@check(
    "nvidia.temperature",
    category="reliability",
    severity="high",
    criteria=("exp-hc-thermal", "rel-passive-suite"),
    why="At its slowdown temperature a GPU lowers its clock; beyond it the GPU switches itself off.",
    fix="Check fans, cold plates and inlet temperature of the node; compare with its neighbours in the rack.",
)
def temperature(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Judges the distance to the slowdown temperature that a GPU reports (margin or degrees), and to its memory limit.

    A fixed bar serves GPUs that report no such limit.
    """
    readings = [(gpu, left) for gpu in smi.gpus for left in _distances(gpu, bars.hot_fail_c.value)]
    if not readings:
        return unknown("nvidia-smi gives no temperature", "too-little") if smi.gpus else skip("no NVIDIA GPU")
    most = bars.thermal_margin_c
    bar = most.bar(" C below the slowdown temperature", "> ")
    if bad := [f"{gpu.pci}: {-left:g} C above" for gpu, left in readings if left <= 0]:
        return fail(f"at or above the slowdown temperature: {some(bad)}", seen=bad, bar=bar)
    if bad := [f"{gpu.pci}: {left:g} C below" for gpu, left in readings if left <= most.value]:
        return warn(f"close to the slowdown temperature: {some(bad)}", seen=bad, bar=bar)
    read = {id(gpu): gpu for gpu, _ in readings}.values()
    least = min(left for _, left in readings)
    words = f"{len(read)} GPUs well below the slowdown temperature"
    return mute([*read], smi, "temperature") or ok(words, seen=least, bar=bar)


def _distances(gpu: NvidiaGpu, hot_c: float) -> list[float]:
    """Degrees left to the limits of a GPU; margins and absolute temperatures are never mixed."""
    found: list[float] = []
    if gpu.margin_c is not None:
        found.append(gpu.margin_c - (gpu.slowdown_margin_c or 0))
    elif gpu.temp_c is not None:
        limit = gpu.slowdown_c if gpu.slowdown_c is not None else None if gpu.slowdown_margin_c is not None else hot_c
        if limit is not None:
            found.append(limit - gpu.temp_c)
    if gpu.memory_temp_c is not None and gpu.memory_max_c is not None:
        found.append(gpu.memory_max_c - gpu.memory_temp_c)
    return found


@check(
    "nvidia.pcie.link",
    category="reliability",
    severity="high",
    criteria=("exp-hc-pcie", "rel-passive-suite"),
    why="A link that trained narrow or slow halves the bandwidth to the host and, through it, to the network.",
    fix="Reseat the GPU or riser, check the BIOS slot settings; compare `LnkSta` and `LnkCap` in `lspci -vv`.",
)
def pcie_link(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Fails on a link narrower than those of the other GPUs, warns when all are narrow alike (it may be the design).

    The generation counts only on a busy GPU, because idle links slow down; GPUs attached by NVLink-C2C are left out.
    """
    known = [g for g in smi.gpus if g.pcie_width and g.pcie_width_max and not _attached_otherwise(g, bars)]
    if not known:
        return skip("no GPU with a PCIe link of its own")
    narrow = [g for g in known if (g.pcie_width or 0) < (g.pcie_width_max or 0)]
    if narrow and (len(known) == 1 or len({g.pcie_width for g in known}) > 1):
        texts = [f"{g.pci}: x{g.pcie_width} of x{g.pcie_width_max}" for g in narrow]
        return fail(f"narrow PCIe links: {some(texts)}", seen=texts)
    slow = [
        f"{g.pci}: generation {g.pcie_gen} of {g.pcie_gen_max}" for g in known if _slow(g, bars.busy_util_pct.value)
    ]
    if slow:
        return fail(f"slow PCIe links under load: {some(slow)}", seen=slow)
    if narrow:
        return warn(
            f"all links run at x{narrow[0].pcie_width} of x{narrow[0].pcie_width_max}", seen=narrow[0].pcie_width
        )
    return ok(f"{len(known)} links at full width", seen=sorted({f"x{g.pcie_width}" for g in known}))


def _attached_otherwise(gpu: NvidiaGpu, bars: NvidiaBars) -> bool:
    return gpu.c2c == "Enabled" or any(word in (gpu.name or "") for word in bars.shared_slot)


def _slow(gpu: NvidiaGpu, busy_pct: float) -> bool:
    busy = gpu.util_gpu_pct is not None and gpu.util_gpu_pct > busy_pct
    return busy and gpu.pcie_gen is not None and gpu.pcie_gen_max is not None and gpu.pcie_gen < gpu.pcie_gen_max


@check(
    "nvidia.pcie.replays",
    category="reliability",
    severity="low",
    criteria=("exp-hc-pcie", "rel-passive-suite"),
    why="Replayed packets mean a marginal PCIe link: slower transfers now, a lost GPU later.",
    fix="Read the count twice under load; reseat or replace the GPU or riser when it keeps rising.",
)
def pcie_replays(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Warns when a GPU has replayed more packets than the bar and ten times the median of the node."""
    counts = [(gpu, gpu.pcie_replays) for gpu in smi.gpus if gpu.pcie_replays is not None]
    if not counts:
        return skip("nvidia-smi gives no replay count", "absent")
    most, usual = bars.pcie_replays, median(number for _, number in counts)
    bar = most.bar(" and ten times the median", "<= ")
    if bad := [f"{gpu.pci}: {number}" for gpu, number in counts if number > most.value and number > 10 * usual]:
        return warn(f"many PCIe replays: {some(bad)}", seen=bad, bar=bar)
    return ok("few PCIe replays", seen=max(number for _, number in counts), bar=bar)


@check(
    "nvidia.stalled-collective",
    category="reliability",
    severity="medium",
    criteria=("exp-hc-stalled-collective", "rel-passive-suite"),
    why="GPUs that wait for each other look fully used and draw little: the job stands still while it is paid for.",
    fix="Ask the owner of the job; look for a dead rank with `py-spy dump` and the NCCL flight recorder.",
)
def stalled(smi: NvidiaSmi, bars: NvidiaBars) -> Verdict:
    """Warns when two or more GPUs report full utilisation and none of the busy ones draws more than an idle GPU may."""
    known = [gpu for gpu in smi.gpus if gpu.util_gpu_pct is not None and gpu.drawn_w is not None]
    if not known:
        return skip("no GPU reports both utilisation and power (MIG hides the utilisation)")
    busy = [gpu for gpu in known if (gpu.util_gpu_pct or 0) >= bars.stalled_util_pct.value]
    if len(busy) < 2:
        return ok("no two GPUs are fully utilised now")
    low = [gpu for gpu in busy if _low_power(gpu, bars)]
    if len(low) == len(busy):
        watts = max(gpu.drawn_w or 0 for gpu in low)
        return warn(f"{where(low, smi)}: full utilisation at {watts:.0f} W or less", seen=[gpu.pci for gpu in low])
    return ok(f"{len(busy)} busy GPUs draw power like working ones")


def _low_power(gpu: NvidiaGpu, bars: NvidiaBars) -> bool:
    ceiling = idle_watts(bars, gpu.name or "") or (gpu.power_limit_w or 0) * bars.stalled_power_share.value
    return (gpu.drawn_w or 0) <= ceiling


@check(
    "nvidia.gpu.processes",
    category="reliability",
    severity="low",
    why="Another user's job on the GPUs makes every measurement of this node worthless, and ours would disturb it.",
    fix="Measure on an idle node: wait for the job, or take the node out of the queue first.",
)
def processes(smi: NvidiaSmi) -> Verdict:
    """Warns when processes hold GPUs at the time of the audit; those of guests (vgpu) do not count."""
    if not any(gpu.processes is not None for gpu in smi.gpus):
        return skip("nvidia-smi lists no processes", "absent")
    busy = told(smi, _holders)
    if busy:
        names = sorted({p.name.rsplit("/", 1)[-1][:40] for gpu in smi.gpus for p in gpu.processes or () if p.name})
        return warn(f"{len(busy)} of {len(smi.gpus)} GPUs are in use: {some(names) or 'unnamed'}", seen=busy)
    return ok("no process holds a GPU")


def _holders(gpu: NvidiaGpu) -> str | None:
    pids = [p.pid for p in gpu.processes or () if p.name != "vgpu"]
    return f"{len(pids)} processes" if pids else None
