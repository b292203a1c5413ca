"""What an idle AMD GPU costs."""

from __future__ import annotations

from assay.checks.amd_gpus import modules, name_of
from assay.checks.registry import check
from assay.checks.verdict import ok, skip, warn
from assay.facts.amd_smi import AmdGpus
from assay.model import Verdict
from assay.profiles.interconnect import Interconnect


@check(
    "amd.power.idle",
    category="monitoring",
    severity="low",
    criteria=("mon-idle-thermals",),
    why="An idle GPU that draws much power has a stuck process or firmware and heats its neighbours.",
    fix="`amd-smi process` shows who holds it; reset the GPU when nobody does.",
)
def idle_power(smi: AmdGpus, profile: Interconnect) -> Verdict:
    """Warns when a GPU without activity draws more than a share of its power cap; busy GPUs are left out."""
    share = profile.amd_idle_share
    idle = [
        (g, g.power_w, g.power_cap_w)
        for g in modules(smi.gpus).values()
        if g.gfx_util_pct is not None
        and g.gfx_util_pct <= profile.amd_busy_util_pct.value
        and g.power_w is not None
        and g.power_cap_w
    ]
    if not idle:
        return skip("no idle GPU that tells its power", "not-asked")
    bar = share.cited(f"{share.value:.0%} of the cap")
    if bad := [f"{name_of(g)} {w:g} of {cap:g} W" for g, w, cap in idle if w > share.value * cap]:
        return warn(f"idle GPUs draw much power: {'; '.join(bad)}", seen=bad, bar=bar)
    return ok(f"{len(idle)} idle GPUs draw at most {max(w for _, w, _ in idle):g} W", bar=bar)
