"""Units that failed."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, some, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.systemd import SystemdUnits
from assay.model import Missing, Verdict
from assay.profiles.monitoring import Monitoring


@check(
    "systemd.failed",
    category="reliability",
    severity="high",
    why="A failed unit is something the node was meant to do and does not: fabric, monitoring, scheduler or storage.",
    fix="systemctl status UNIT; journalctl -u UNIT -b; then systemctl restart UNIT and systemctl reset-failed.",
)
def failed(units: SystemdUnits, gpus: GpuPresence | Missing, bar: Monitoring) -> Verdict:
    """Fails for failed units that GPU work depends on, warns for any other; leftovers of logins are not counted.

    Fabric Manager fails by design where there is no NVSwitch: there it is a warning.
    """
    names = [u for u in units.failed if not u.startswith(bar.units.passing)]
    if not names:
        return ok(f"no failed unit among {len(units.services)} services")
    switches = isinstance(gpus, GpuPresence) and bool(gpus.nvswitches)
    vital = [n for n in names if _stem(n) in bar.units.vital and (switches or _stem(n) not in bar.units.needs_nvswitch)]
    words = some((n.removesuffix(".service") for n in vital + [n for n in names if n not in vital]), 6)
    return fail(f"failed: {words}", seen=names) if vital else warn(f"failed: {words}", seen=names)


def _stem(unit: str) -> str:
    return unit.rsplit(".", 1)[0].split("@", 1)[0]
