"""The path from NIC to GPU memory: dma-buf, peer-memory modules, GDRCopy."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevices
from assay.facts.nvidia import NvidiaDriver
from assay.facts.rdma_stack import RdmaStack
from assay.model import Missing, Verdict
from assay.profiles.network import Network

_PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"})


@check(
    "net.gpudirect.path",
    category="networking",
    severity="critical",
    criteria=("life-gpudirect-ready", "exp-slurm-dmabuf", "orch-slurm-stack"),
    why="Without GPUDirect RDMA every byte is copied through host memory: 20 to 60 percent of the bandwidth is left.",
    fix="Install the open GPU kernel modules on a kernel with dma-buf support; until then: modprobe nvidia-peermem",
)
def path(
    gpus: GpuPresence, rdma: RdmaDevices, stack: RdmaStack, driver: NvidiaDriver | Missing, bars: Network
) -> Verdict:
    """Passes with dma-buf (open kernel modules, kernel new enough), warns with the older peer-memory module alone.

    Fails when neither is there. For AMD GPUs a registered peer client passes; without one dma-buf cannot be told.
    """
    if not gpus.any or not rdma.rails:
        return skip("no GPU together with an active RDMA port")
    if not gpus.nvidia:
        return _amd(stack)
    modern = stack.kernel is not None and stack.kernel >= bars.dmabuf_kernel.parts
    peer = bool(_PEERMEM & set(stack.modules))
    if isinstance(driver, Missing) or driver.open is None:
        return unknown("open or closed GPU kernel module: not told", "too-little")
    if driver.open and modern:
        return ok("dma-buf: open kernel modules" + (", nvidia_peermem loaded too" if peer else ""), seen="dma-buf")
    if peer:
        return warn("GPUDirect only through the legacy peer-memory module", seen="peermem", expected="dma-buf")
    why = "the kernel is too old for dma-buf" if driver.open else "closed GPU kernel module"
    return fail(f"no GPUDirect path: {why} and no peer-memory module", expected="dma-buf", bar=bars.dmabuf_kernel.bar())


def _amd(stack: RdmaStack) -> Verdict:
    if stack.peer_clients or "ib_peer_mem" in stack.modules:
        return ok(f"peer memory: {', '.join(stack.peer_clients) or 'ib_peer_mem'}")
    return unknown(
        "no peer-memory client; whether the kernel was built with PCI_P2PDMA was not looked at", "too-little"
    )


@check(
    "net.gdrcopy",
    category="networking",
    severity="medium",
    criteria=("net-gdrcopy",),
    why="Without GDRCopy small messages of UCX and NVSHMEM to and from GPUs take several times as long.",
    fix="Install gdrcopy and its gdrdrv module (package gdrdrv-dkms), load it at boot, mode 0666 on /dev/gdrdrv.",
)
def gdrcopy(gpus: GpuPresence, rdma: RdmaDevices, stack: RdmaStack) -> Verdict:
    """Warns when a node with NVIDIA GPUs and RDMA lacks the gdrdrv module or, with it, the library."""
    if not gpus.nvidia or not rdma.rails:
        return skip("no NVIDIA GPU together with an active RDMA port")
    module = stack.gdrcopy_device or "gdrdrv" in stack.modules
    if not module:
        return warn("the gdrdrv module is not loaded" + (", its library is there" if stack.gdrcopy_library else ""))
    if not stack.gdrcopy_library:
        return warn("gdrdrv is loaded, libgdrapi is not in the usual directories")
    return ok("gdrdrv and libgdrapi", seen=list(stack.gdrcopy_library))
