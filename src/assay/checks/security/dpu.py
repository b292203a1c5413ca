"""BlueField DPUs: may the host reach their control plane."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import ok, skip, unknown, warn
from assay.facts.pci import PciTree
from assay.facts.rdma_stack import RdmaStack
from assay.model import Missing, Verdict

_NICS = frozenset({"a2d2", "a2d6", "a2dc", "a2df"})
_MANAGEMENT = frozenset({"c2d2", "c2d3", "c2d4", "c2d5", "c2d6"})


@check(
    "dpu.rshim",
    category="security",
    severity="high",
    criteria=("sec-dpu-host-restricted",),
    why="Through RShim a tenant with root installs his own system on the DPU that is meant to isolate him.",
    fix="Restrict the host: mlxprivhost -d DEVICE r --disable_rshim --disable_tracer --disable_counter_rd "
    "--disable_port_owner, then a power cycle; stop the rshim service.",
)
def rshim(stack: RdmaStack, tree: PciTree | Missing) -> Verdict:
    """Warns when RShim devices are open on the host; a visible management function alone proves nothing."""
    if stack.rshim:
        return warn(f"the host reaches the DPU through {', '.join(stack.rshim)}", seen=list(stack.rshim), expected=[])
    if isinstance(tree, Missing):
        return skip("no RShim device, and the PCI tree is not known", "absent")
    mellanox = [(a, d) for a, d in tree.devices.items() if d.vendor == "15b3"]
    if not any(d.device in _NICS for _, d in mellanox):
        return skip("no BlueField on the bus")
    if management := [a for a, d in mellanox if d.device in _MANAGEMENT]:
        return unknown(f"management function {management[0]} is visible, no RShim driver runs: not told", "too-little")
    return ok("a BlueField without RShim or management function on the host side")
