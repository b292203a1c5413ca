"""AMD accelerators: links, temperature, power and clocks."""

from __future__ import annotations

from statistics import median

from assay.checks.amd_gpus import modules, name_of
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.amd_smi import AmdGpu, AmdGpus
from assay.model import Verdict
from assay.profiles.interconnect import Interconnect

_HARMFUL = frozenset({"prochot", "socket_thermal", "vr_thermal", "hbm_thermal", "gfx_clk_below_host_limit_thermal"})
_HARMLESS = frozenset({
    "ppt", "low_utilization", "gfx_clk_below_host_limit", "gfx_clk_below_host_limit_power",
    "total_gfx_clk_below_host_limit", "gfx_clk_below_host_limit_total",
})  # fmt: skip


@check(
    "amd.pcie.width",
    category="reliability",
    severity="high",
    criteria=("exp-hc-pcie", "rel-passive-suite"),
    why="A link that trained narrow or slow halves the bandwidth to the host and, through it, to the network.",
    fix="Reseat or replace the module or riser; compare `amd-smi metric --pcie` with `amd-smi static --bus`.",
)
def pcie_width(smi: AmdGpus, profile: Interconnect) -> Verdict:
    """Fails when a link is narrower than the GPU allows. The speed counts only on a busy GPU: idle links slow down."""
    found = [g for g in modules(smi.gpus).values() if g.pcie_width and g.pcie_width_max]
    if not found:
        return unknown("amd-smi tells no link width", "too-little") if smi.gpus else skip("no AMD GPU")
    narrow = [f"{name_of(g)} x{g.pcie_width} of x{g.pcie_width_max}" for g in found if _narrow(g)]
    if narrow:
        return fail(f"narrow PCIe links: {'; '.join(narrow)}", seen=narrow)
    slow = [
        f"{name_of(g)} {g.pcie_gts:g} of {g.pcie_gts_max:g} GT/s"
        for g in found
        if _slow(g, profile.amd_busy_util_pct.value)
    ]
    if slow:
        return fail(f"slow PCIe links under load: {'; '.join(slow)}", seen=slow)
    return ok(f"{len(found)} links at full width", seen=sorted({f"x{g.pcie_width}" for g in found}))


def _narrow(gpu: AmdGpu) -> bool:
    return (gpu.pcie_width or 0) < (gpu.pcie_width_max or 0)


def _slow(gpu: AmdGpu, busy_pct: float) -> bool:
    busy = (gpu.gfx_util_pct or 0) > busy_pct
    return busy and gpu.pcie_gts is not None and gpu.pcie_gts_max is not None and gpu.pcie_gts < gpu.pcie_gts_max


@check(
    "amd.pcie.replays",
    category="reliability",
    severity="low",
    criteria=("exp-hc-pcie", "rel-passive-suite"),
    why="Replayed packets mean a marginal PCIe link: slower transfers now, a lost GPU later.",
    fix="Read the count twice under load; reseat or replace the module when it keeps rising.",
)
def pcie_replays(smi: AmdGpus, profile: Interconnect) -> Verdict:
    """Warns when a GPU has replayed more packets than the bar and ten times the median of the node."""
    counts = [(g, g.pcie_replays) for g in modules(smi.gpus).values() if g.pcie_replays is not None]
    if not counts:
        return skip("amd-smi tells no replay count", "absent")
    limit = profile.amd_pcie_replays
    usual = median(n for _, n in counts)
    bar = limit.cited(f"{limit.value:.0f} and ten times the median")
    if bad := [f"{name_of(g)}: {n}" for g, n in counts if n > limit.value and n > 10 * usual]:
        return warn(f"many PCIe replays: {'; '.join(bad)}", seen=bad, bar=bar)
    return ok(f"at most {max(n for _, n in counts)} PCIe replays", bar=bar)


@check(
    "amd.temperature",
    category="reliability",
    severity="high",
    criteria=("exp-hc-thermal", "rel-passive-suite"),
    why="A GPU at its slowdown temperature lowers its clock, and the whole job runs at the pace of that GPU.",
    fix="Check fans, cold plates and inlet temperature of the node; compare with its neighbours in the rack.",
)
def temperature(smi: AmdGpus, profile: Interconnect) -> Verdict:
    """Compares hotspot and memory with the slowdown limits that the GPU reports; a fixed bar where it reports none."""
    margin, hot = profile.amd_thermal_margin_c, profile.amd_hot_c
    readings = [r for g in modules(smi.gpus).values() for r in _readings(g, hot.value)]
    if not readings:
        return unknown("amd-smi tells no temperature", "too-little") if smi.gpus else skip("no AMD GPU")
    bar = margin.cited(f"{margin.value:g} C below the limit")
    if over := [text for text, left in readings if left <= 0]:
        return fail(f"at or above the slowdown temperature: {'; '.join(over)}", seen=over, bar=bar)
    if near := [text for text, left in readings if left <= margin.value]:
        return warn(f"close to the slowdown temperature: {'; '.join(near)}", seen=near, bar=bar)
    return ok(f"at least {min(left for _, left in readings):g} C below the slowdown temperature", bar=bar)


def _readings(gpu: AmdGpu, fallback: float) -> list[tuple[str, float]]:
    pairs = (("hotspot", gpu.hotspot_c, gpu.slowdown_hotspot_c), ("memory", gpu.memory_c, gpu.slowdown_memory_c))
    return [
        (f"{name_of(gpu)} {part} {value:g} C of {limit or fallback:g} C", (limit or fallback) - value)
        for part, value, limit in pairs
        if value is not None
    ]


@check(
    "amd.throttle",
    category="reliability",
    severity="high",
    criteria=("exp-hc-thermal", "rel-passive-suite"),
    why="A GPU held back by heat or by its board makes every synchronous job wait for it.",
    fix="`amd-smi metric --throttle` names the reason: heat is a cooling fault, prochot comes from board or power.",
)
def throttle(smi: AmdGpus, profile: Interconnect) -> Verdict:
    """Fails on active thermal or board limits, warns on an idle GPU called throttled; a busy one may be at its cap."""
    found = modules(smi.gpus).values()
    known = [g for g in found if g.throttled is not None or g.violations]
    if not known:
        return unknown("amd-smi tells no throttle state", "too-little") if found else skip("no AMD GPU")
    held = {name_of(g): sorted(_HARMFUL.intersection(g.violations)) for g in known}
    if words := [f"{name}: {', '.join(limits)}" for name, limits in held.items() if limits]:
        return fail(f"clocks held back: {'; '.join(words)}", seen=words)
    if strange := {limit for g in known for limit in g.violations} - _HARMLESS:
        return unknown(f"unfamiliar limit: {some(sorted(strange))}", seen=sorted(strange))
    return _called_throttled(known, len(found), profile.amd_busy_util_pct.value)


def _called_throttled(known: list[AmdGpu], every: int, busy_pct: float) -> Verdict:
    """The verdict where only the older state speaks, which names no limit."""
    said = [g for g in known if g.throttled and not g.violations]
    if idle := [name_of(g) for g in said if g.gfx_util_pct is not None and g.gfx_util_pct <= busy_pct]:
        return warn(f"throttled while idle: {', '.join(idle)}", seen=idle)
    if said:
        return unknown(f"{len(said)} busy GPUs are throttled and the tool gives no reason", "too-little")
    if len(known) < every:
        return unknown(f"{every - len(known)} of {every} GPUs tell no throttle state", "too-little")
    return ok(f"{len(known)} GPUs not held back by heat or board")
