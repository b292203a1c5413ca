"""NCCL and RCCL: what is installed and which settings hold for every job of the node."""

from __future__ import annotations

import re
from collections.abc import Iterable

from assay.checks.alike import NODES_NAMED
from assay.checks.networking.rdma import fabric_of
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevices
from assay.facts.nccl import NcclSetup
from assay.facts.netdev import NetDevices
from assay.facts.packages import Packages
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.network import Network

_NUMBER = re.compile(r"\d+")
_PACKAGES = ("libnccl2", "libnccl", "nccl")
_AMD_PACKAGES = ("rccl", "librccl1", "rccl-dev")


def _rails_of(rdma: RdmaDevices | Missing) -> tuple[str, ...]:
    return () if isinstance(rdma, Missing) else tuple(d.name for d in rdma.rails)


def _version(setup: NcclSetup, packages: Packages | Missing, kind: str) -> str | None:
    """Version of the newest library, "" when nothing tells the version of one that is there, None without any."""
    names = _PACKAGES if kind == "nccl" else _AMD_PACKAGES
    package = packages.first(names) if isinstance(packages, Packages) else None
    if kind == "rccl" and package:  # its library is 1.0.x in every release; the package names the NCCL it follows
        return package[1].partition(":")[2] or package[1]
    libraries = [lib for lib in setup.libraries if lib.kind == kind]
    versions = [lib.version for lib in libraries if lib.version]
    if versions:
        return max(versions, key=lambda v: [int(n) for n in _NUMBER.findall(v)])
    return package[1] if package else ("" if libraries else None)


@check(
    "net.nccl.installed",
    category="networking",
    severity="medium",
    criteria=("exp-slurm-nccl", "orch-slurm-stack"),
    why="Users who build their own code need NCCL on the node; each bringing another version invites mismatches.",
    fix="apt install libnccl2 libnccl-dev (or dnf install libnccl), in the version that fits the CUDA of the node.",
)
def nccl_installed(setup: NcclSetup, gpus: GpuPresence, packages: Packages | Missing) -> Verdict:
    """Warns when a node with NVIDIA GPUs has no NCCL in the usual library directories; containers bring their own."""
    if not gpus.nvidia:
        return skip("no NVIDIA GPU")
    version = _version(setup, packages, "nccl")
    if version is None:
        return warn("no NCCL library in the usual directories", expected="libnccl.so.2")
    return ok(f"NCCL {version}" if version else "NCCL is there, its file does not tell the version", seen=version)


@check(
    "net.rccl.installed",
    category="networking",
    severity="medium",
    criteria=("exp-slurm-nccl",),
    why="Without RCCL on the node, code built there cannot use more than one AMD GPU.",
    fix="apt install rccl (or dnf install rccl) from the ROCm repository of the node's ROCm release.",
)
def rccl_installed(setup: NcclSetup, gpus: GpuPresence, packages: Packages | Missing) -> Verdict:
    """Warns when a node with AMD GPUs has no RCCL in the usual library directories."""
    if not gpus.amd:
        return skip("no AMD GPU")
    version = _version(setup, packages, "rccl")
    if version is None:
        return warn("no RCCL library in the usual directories", expected="librccl.so.1")
    return ok(f"RCCL {version}" if version else "RCCL is there", seen=version)


def _tcpx(setup: NcclSetup) -> bool:
    """GPUDirect-TCPX needs settings that would be faults elsewhere."""
    return (setup.setting("NCCL_NET") or "").startswith(("GPUDirectTCPX", "FasTrak"))


@check(
    "net.nccl.disabled",
    category="networking",
    severity="high",
    criteria=("life-fabric-driver-ready",),
    why="A setting left from debugging takes every job off the fast path, without an error.",
    fix="Remove the setting from /etc/nccl.conf or from the shell's start-up files.",
)
def disabled(setup: NcclSetup, gpus: GpuPresence, rdma: RdmaDevices | Missing, bars: Network) -> Verdict:
    """Fails when nccl.conf or the environment switches off a transport that the node has."""
    if not gpus.any:
        return skip("no GPU")
    compute = _rails_of(rdma)
    found = [
        f"{name}={setup.setting(name)} ({setup.where(name)})"
        for name, values in bars.nccl_disabling.values.items()
        if setup.setting(name) in values and (compute or not name.startswith(("NCCL_IB", "NCCL_NET")))
    ]
    if found:
        return fail(f"transports switched off: {', '.join(found)}", seen=found)
    return ok("no transport is switched off")


@check(
    "net.nccl.forced",
    category="networking",
    severity="medium",
    criteria=("net-nccl-autotune",),
    why="A forced algorithm, protocol or channel count is right for one message size and wrong for the others.",
    fix="Remove the setting; where the platform needs it, set it in a tuner plugin or per job.",
)
def forced(setup: NcclSetup, gpus: GpuPresence, bars: Network) -> Verdict:
    """Warns when nccl.conf or the environment forces algorithm, protocol or channels (needed by GPUDirect-TCPX)."""
    if not gpus.any:
        return skip("no GPU")
    if _tcpx(setup):
        return skip("GPUDirect-TCPX prescribes these settings")
    found = [f"{n}={setup.setting(n)} ({setup.where(n)})" for n in sorted(bars.nccl_forced.names) if setup.setting(n)]
    if found:
        return warn(f"forced settings: {', '.join(found)}", seen=found)
    return ok("algorithm, protocol and channels are left to NCCL")


@check(
    "net.nccl.debug",
    category="networking",
    severity="low",
    why="Debug output of every rank fills logs and slows start-up of large jobs.",
    fix="Remove NCCL_DEBUG from the system-wide configuration; set it per job when needed.",
)
def debug(setup: NcclSetup, gpus: GpuPresence) -> Verdict:
    """Warns when NCCL_DEBUG is INFO or TRACE for everybody."""
    if not gpus.any:
        return skip("no GPU")
    level = (setup.setting("NCCL_DEBUG") or "").upper()
    if level in ("INFO", "TRACE", "ABORT"):
        return warn(f"NCCL_DEBUG={level} in the {setup.where('NCCL_DEBUG')}", seen=level)
    return ok("NCCL_DEBUG is quiet", seen=level)


@check(
    "net.nccl.conf",
    category="networking",
    severity="low",
    criteria=("net-nccl-conf-gid",),
    why="NCCL ignores lines it cannot read: the setting somebody relies on is not there.",
    fix="Write NAME=value lines without blanks or export in /etc/nccl.conf.",
)
def conf(setup: NcclSetup) -> Verdict:
    """Warns when /etc/nccl.conf has lines that are no NAME=value."""
    if not setup.has_conf:
        return skip("no /etc/nccl.conf", "absent")
    if setup.odd_lines:
        return warn(f"lines that NCCL cannot read: {some(setup.odd_lines)}", seen=list(setup.odd_lines))
    return ok(f"/etc/nccl.conf with {len(setup.conf)} settings", seen=setup.conf)


def _chosen(pattern: str, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names that an NCCL list (exact with "=", else prefixes) chooses, and entries that choose none."""
    exact = pattern.startswith("=")
    chosen: list[str] = []
    idle: list[str] = []
    for entry in filter(None, pattern.removeprefix("=").split(",")):
        wanted = entry.partition(":")[0].removeprefix("=")
        found = [n for n in names if n == wanted or (not exact and n.startswith(wanted))]
        chosen += found
        if not found:
            idle.append(wanted)
    return chosen, idle


@check(
    "net.nccl.interface",
    category="networking",
    severity="high",
    criteria=("net-nccl-conf-gid",),
    why="NCCL ends with an error, or bootstraps over the wrong network, when the interface it is told does not exist.",
    fix="Set NCCL_SOCKET_IFNAME to the management interface of these nodes, or to ^docker,lo.",
)
def interface(setup: NcclSetup, nets: NetDevices) -> Verdict:
    """Fails when NCCL_SOCKET_IFNAME matches no interface of the node; warns when a part of the list matches none."""
    pattern = setup.setting("NCCL_SOCKET_IFNAME")
    if not pattern:
        return skip("NCCL_SOCKET_IFNAME is not set")
    if pattern.startswith("^"):
        return ok(f"NCCL_SOCKET_IFNAME={pattern} only excludes")
    chosen, idle = _chosen(pattern, nets.devices)
    if not chosen:
        return fail(
            f"NCCL_SOCKET_IFNAME={pattern} ({setup.where('NCCL_SOCKET_IFNAME')}) names no interface", seen=pattern
        )
    if idle:
        return warn(f"NCCL_SOCKET_IFNAME names interfaces that are not here: {some(idle)}", seen=idle)
    return ok(f"NCCL_SOCKET_IFNAME={pattern}: {some(chosen)}", seen=chosen)


@check(
    "net.nccl.hca",
    category="networking",
    severity="high",
    criteria=("net-hca-naming", "net-nccl-conf-gid"),
    why="A list of HCAs from another machine leaves rails unused, or takes the storage NIC for compute.",
    fix="List exactly the compute rails with a leading '=' (NCCL_IB_HCA==mlx5_0,mlx5_3,...), or remove the setting.",
)
def hca(setup: NcclSetup, rdma: RdmaDevices, gpus: GpuPresence) -> Verdict:
    """Fails when NCCL_IB_HCA matches no device; warns when it names absent ones, leaves rails out or adds others."""
    pattern, compute = setup.setting("NCCL_IB_HCA"), _rails_of(rdma)
    if not pattern or not compute or not gpus.any:
        return skip("NCCL_IB_HCA is not set, or no GPU, or no compute network")
    names = [d.name for d in rdma.devices]
    chosen, idle = _chosen(pattern.removeprefix("^"), names)
    if pattern.startswith("^"):
        chosen, idle = [n for n in names if n not in chosen], []
    if not chosen:
        return fail(f"NCCL_IB_HCA={pattern} ({setup.where('NCCL_IB_HCA')}) names no RDMA device", seen=pattern)
    unused, foreign = [n for n in compute if n not in chosen], [n for n in chosen if n not in compute]
    for text, found in (
        ("names absent devices", idle),
        ("leaves rails unused", unused),
        ("names devices outside the compute network", foreign),
    ):
        if found:
            return warn(f"NCCL_IB_HCA {text}: {some(found)}", seen=found, expected=list(compute))
    return ok(f"NCCL_IB_HCA names the {len(compute)} rails", seen=chosen)


@check(
    "net.nccl.gid",
    category="networking",
    severity="high",
    criteria=("net-nccl-conf-gid",),
    why="With a wrong GID index RoCE connections fail, or leave without the priority that the switches protect.",
    fix="Set NCCL_IB_GID_INDEX to the RoCE v2 IPv4 entry (show_gids), or remove it with NCCL 2.21 and later.",
)
def gid(setup: NcclSetup, rdma: RdmaDevices, gpus: GpuPresence, packages: Packages | Missing, bars: Network) -> Verdict:
    """On RoCE, fails when NCCL_IB_GID_INDEX points to no RoCE v2 entry of a rail, warns when to a link-local one.

    Where it is not set, NCCL 2.21 and later choose by themselves; older ones take index 0, which is not RoCE v2.
    """
    compute = rdma.rails
    if not gpus.any or not compute or fabric_of(compute) != "RoCE":
        return skip("no GPU with an active RoCE port")
    index = setup.setting("NCCL_IB_GID_INDEX")
    if index is None or index == "-1":
        return _automatic_gid(setup, packages, bars)
    if not index.isdigit() or int(index) > 15:
        return unknown(f"NCCL_IB_GID_INDEX={index} is beyond the entries that were read")
    entries = {d.name: {g.index: g for p in d.ports for g in p.gids}.get(int(index)) for d in compute}
    wrong = [n for n, g in entries.items() if g is None or g.type not in ("RoCE v2", "")]
    local = [n for n, g in entries.items() if g is not None and g.link_local]
    if wrong:
        return fail(f"GID {index} is no RoCE v2 entry on {some(wrong)}", seen=wrong)
    if local:
        return warn(f"GID {index} is link-local on {some(local)}", seen=local)
    return ok(f"GID {index} is a RoCE v2 entry on {len(entries)} rails", seen=index)


def _automatic_gid(setup: NcclSetup, packages: Packages | Missing, bars: Network) -> Verdict:
    version = _version(setup, packages, "nccl") or _version(setup, packages, "rccl")
    if not version or version.startswith("1.0."):
        return unknown("NCCL_IB_GID_INDEX is not set and the version of NCCL is not known", "too-little")
    if tuple(int(n) for n in _NUMBER.findall(version)[:2]) >= bars.automatic_gid.parts:
        return ok(f"NCCL {version} chooses the GID by itself", bar=bars.automatic_gid.bar())
    return warn(f"NCCL {version} takes GID 0 unless told otherwise", bar=bars.automatic_gid.bar())


@check(
    "net.nccl.plugin",
    category="networking",
    severity="high",
    criteria=("life-fabric-driver-ready", "orch-slurm-stack"),
    why="NCCL does not know the cloud's own fabric: without its plug-in every job falls back to sockets.",
    fix="Install the provider's plug-in: aws-ofi-nccl for EFA, gIB or TCPX(O) on Google Cloud.",
)
def plugin(
    setup: NcclSetup, gpus: GpuPresence, rdma: RdmaDevices | Missing, nets: NetDevices | Missing,
    machine: Virtualisation | Missing,
) -> Verdict:  # fmt: skip
    """Fails on GPUs with EFA and no OFI plug-in; warns on Google Cloud machines when its plug-in is not found."""
    compute = () if isinstance(rdma, Missing) else rdma.rails
    fabric = fabric_of(compute) if compute else ""
    gve = isinstance(nets, NetDevices) and any(d.driver == "gve" for d in nets.devices.values())
    google = isinstance(machine, Virtualisation) and machine.cloud == "gcp"
    if not gpus.any or not (fabric == "EFA" or (google and (gve or fabric == "RoCE"))):
        return skip("no cloud fabric that needs a plug-in")
    if fabric == "EFA":
        found = [p for p in setup.plugins if "ofi" in p]
        if not found:
            return fail("EFA without the OFI plug-in: NCCL falls back to sockets", expected="libnccl-net-ofi.so")
    else:
        found = [p for p in setup.plugins if any(w in p for w in ("/gib/", "tcpx", "fastrak"))]
        if not found:
            return warn("Google Cloud fabric and neither gIB nor TCPX(O) in the usual places")
    return ok(f"plug-in {found[0]}", seen=found)


@check(
    "net.nccl.topology",
    category="networking",
    severity="high",
    criteria=("net-topo-file-container",),
    why="In a virtual machine NCCL cannot see which GPU is near which NIC; a topology file that is absent is ignored.",
    fix="Install the provider's topology file at the configured path, or correct NCCL_TOPO_FILE.",
)
def topology(setup: NcclSetup) -> Verdict:
    """Fails when NCCL_TOPO_FILE names a file that is not among those found in its directory."""
    path = setup.setting("NCCL_TOPO_FILE")
    if not path:
        return skip("NCCL_TOPO_FILE is not set")
    if path in setup.topology_files:
        return ok(f"{path} is there", seen=path)
    if path.startswith(("/etc/nccl/", "/opt/microsoft/", "/var/run/nvidia-topologyd/")):
        return fail(f"NCCL_TOPO_FILE={path} does not exist", seen=path)
    return unknown(f"{path} is outside the directories that were looked at", "too-little")


@check(
    "net.nccl.profiler",
    category="monitoring",
    severity="low",
    criteria=("net-nccl-monitor-plugin",),
    why="Without one, finding the slow rank of a large job means to change the job and run it again.",
    fix="Offer NCCL's inspector or another profiler plug-in in the images and set NCCL_PROFILER_PLUGIN.",
)
def profiler(setup: NcclSetup) -> Verdict:
    """Passes when a profiler plug-in for NCCL is installed; nothing follows where none is found."""
    found = [p for p in setup.plugins if "profiler" in p]
    if found or setup.setting("NCCL_PROFILER_PLUGIN"):
        return ok(f"{found[0] if found else setup.setting('NCCL_PROFILER_PLUGIN')}", seen=found)
    return skip("no profiler plug-in found", "absent")


@check(
    "net.hpcx",
    category="networking",
    severity="low",
    criteria=("net-hpcx",),
    why="HPC-X brings MPI, UCX and collectives tuned for the fabric; the distribution's MPI often lacks GPU support.",
    fix="Install HPC-X (part of DOCA and of the HPC SDK) below /opt and provide a module for it.",
)
def hpcx(setup: NcclSetup, gpus: GpuPresence, rdma: RdmaDevices) -> Verdict:
    """Warns when a GPU node with InfiniBand or RoCE has no HPC-X in the usual places."""
    compute = rdma.rails
    if not gpus.any or not compute or fabric_of(compute) not in ("InfiniBand", "RoCE"):
        return skip("no GPU with InfiniBand or RoCE")
    if not setup.hpcx:
        return warn("no HPC-X below /opt")
    return ok(setup.hpcx[0], seen=list(setup.hpcx))


@check(
    "net.nccl.qps",
    category="networking",
    severity="low",
    criteria=("net-qps-entropy",),
    why="With one queue pair per connection few flows share the uplinks of a large RoCE fabric, and some collide.",
    fix="NCCL_IB_QPS_PER_CONNECTION=4 in /etc/nccl.conf, measured with and without.",
)
def qps(setups: Fleet[NcclSetup], rdma: Fleet[RdmaDevices], bars: Network) -> Verdict:
    """Warns when more nodes with RoCE than the bar run with one queue pair per connection."""
    roce = [n for n, r in rdma.items() if (c := r.rails) and fabric_of(c) == "RoCE"]
    if len(roce) <= bars.qps_nodes.value:
        return skip(f"{len(roce)} nodes with RoCE: small enough for the default")
    few = [n for n in roce if n in setups and setups[n].setting("NCCL_IB_QPS_PER_CONNECTION") in (None, "1")]
    if few:
        words = f"one queue pair per connection on {len(few)} of {len(roce)} RoCE nodes: {some(few, NODES_NAMED)}"
        return warn(words, seen=few, bar=bars.qps_nodes.bar())
    return ok(f"several queue pairs per connection on {len(roce)} RoCE nodes", bar=bars.qps_nodes.bar())
