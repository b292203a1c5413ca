"""What the kernel remembers of faults since it booted."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import ok, unknown, warn
from assay.facts.kernel import TAINTS, Kernel
from assay.model import Verdict

_GRAVE = ("machine-check", "oops", "bad-page", "soft-lockup", "forced-module", "cpu-out-of-spec")


@check(
    "kernel.taint",
    category="reliability",
    severity="medium",
    why="A kernel that has seen a machine check, a bad page or an oops may corrupt or lose the next job.",
    fix="Read the kernel log of this boot (journalctl -k), settle the cause, then reboot the node.",
)
def taint(kernel: Kernel) -> Verdict:
    """Warns when the taint flags tell of a machine check, an oops, a bad page, a soft lockup or a forced module.

    Proprietary, external and unsigned modules are normal on GPU hosts.
    """
    if kernel.taints is None:
        return unknown("/proc/sys/kernel/tainted was not readable", "unparsable")
    grave = [name for name in kernel.taints if name in _GRAVE]
    if grave:
        return warn(f"the kernel is tainted by {', '.join(grave)} since it booted", seen=list(kernel.taints))
    if odd := [name for name in kernel.taints if name not in TAINTS]:
        return unknown(f"unknown taint {', '.join(odd)}", seen=list(kernel.taints))
    return ok("no taint by a fault", seen=list(kernel.taints))
