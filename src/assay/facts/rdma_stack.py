"""The software between GPUs and the fabric: OFED or DOCA, peer memory, DPU access from the host."""

from __future__ import annotations

import re

from assay.facts.source import source
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, Stat

_OFED = re.compile(
    r"^(?:MLNX_OFED_LINUX-|OFED-internal-|DOCA-?(?:OFED)?-?)?(\d+\.\d+-[\d.]+|\d+\.\d+[\d.-]*)", re.MULTILINE
)
_CAPS = re.compile(r"^(\d+)\.(\d+)")


class RdmaStack(Fact, frozen=True):
    """`ofed` = version of the vendor's stack, None where the kernel's own drivers run.

    `peer_clients` = kernel modules registered for the older peer-memory way; `modules` = those of interest that are
    loaded; `kernel` = (major, minor); `rshim` = devices through which the host reaches a DPU; `mst` = opened by MFT.
    """

    ofed: str | None = None
    mlx5_version: str | None = None
    modules: tuple[str, ...] = ()
    peer_clients: tuple[str, ...] = ()
    kernel: tuple[int, int] | None = None
    rshim: tuple[str, ...] = ()
    mst: tuple[str, ...] = ()
    gdrcopy_library: tuple[str, ...] = ()
    gdrcopy_device: bool = False


_MODULES = frozenset({
    "nvidia", "nvidia_peermem", "nv_peer_mem", "gdrdrv", "amdgpu", "amdkfd", "ib_peer_mem", "efa", "efa_nv_peermem",
    "mlx5_ib", "mlx5_core", "bnxt_re", "ionic_rdma", "irdma", "gve", "mana_ib", "ib_uverbs", "rdma_ucm",
})  # fmt: skip
_GDRAPI_DIRS = (
    "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/local/lib", "/usr/local/lib64", "/opt/gdrcopy*/lib",
    "/opt/gdrcopy*/lib64",
)  # fmt: skip


@source(
    Probe(
        "rdma.stack",
        (
            Exec("ofed", ("ofed_info", "-s"), timeout_s=5.0, cap=4096),
            Files("mlx5", ("/sys/module/mlx5_core/version",)),
            Files("modules", ("/proc/modules",), cap=1 << 18),
            Stat("peers", ("/sys/kernel/mm/memory_peers/*",)),
            Files("kernel", ("/proc/sys/kernel/osrelease",)),
            Stat("rshim", ("/dev/rshim*",)),
            Stat("mst", ("/dev/mst/*",)),
            Stat("gdrdrv", ("/dev/gdrdrv",)),
            Stat("gdrapi", tuple(f"{d}/libgdrapi.so*" for d in _GDRAPI_DIRS)),
        ),
    )
)
def rdma_stack(raw: RawFact) -> RdmaStack | Missing:
    """Versions, modules and device files."""
    kernel = _CAPS.match(raw.out("kernel"))
    if not kernel:
        return Missing("absent", "no kernel release in /proc")
    loaded = {line.split(" ", 1)[0] for line in raw.out("modules").splitlines()}
    return RdmaStack(
        ofed=ofed_version(raw.out("ofed")) if raw.read("ofed").rc == 0 else None,
        mlx5_version=raw.out("mlx5").strip() or None,
        modules=tuple(sorted(loaded & _MODULES)),
        peer_clients=tuple(sorted(p.rsplit("/", 1)[1] for p in raw.files("peers"))),
        kernel=(int(kernel[1]), int(kernel[2])),
        rshim=tuple(sorted(raw.files("rshim"))),
        mst=tuple(sorted(raw.files("mst"))),
        gdrcopy_library=tuple(sorted(raw.files("gdrapi"))),
        gdrcopy_device=bool(raw.files("gdrdrv")),
    )


def ofed_version(text: str) -> str | None:
    """The version in "MLNX_OFED_LINUX-23.10-0.5.5.0:" or "OFED-internal-24.10-0.7.0:"."""
    found = _OFED.match(text.strip())
    return found[1] if found else None


def ofed_info(text: str) -> dict[str, str]:
    """`ofed_info -s` as a user pastes it."""
    version = ofed_version(text)
    if version is None:
        raise ValueError("no version in it: not the output of ofed_info -s")
    return {"version": version}


FORMATS = {"ofed_info -s": ofed_info}
