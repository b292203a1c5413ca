"""Shared file systems and object storage."""

from __future__ import annotations

from collections import Counter

from assay.checks.alike import NODES_NAMED
from assay.checks.place import not_the_host
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.infiniband import RdmaDevices
from assay.facts.mounts import Mount, Mounts
from assay.facts.tools import StorageClients
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.host import FileSystems, Host


def _of(mounts: Mounts, kinds: frozenset[str]) -> list[Mount]:
    """Mounts of these types, one per source: binds and volumes of pods repeat it."""
    return list({(m.source, m.fstype): m for m in reversed(mounts.mounts) if m.fstype in kinds}.values())


def _names(mounts: list[Mount]) -> str:
    return some(f"{m.fstype} at {m.target}" for m in mounts)


def _fast_nfs(mount: Mount) -> bool:
    return mount.fstype in ("nfs", "nfs4") and (
        mount.option("proto") == "rdma"
        or mount.option("nconnect") is not None
        or mount.option("remoteports") is not None
    )


@check(
    "storage.parallel-fs",
    category="storage",
    severity="medium",
    criteria=("stor-parallel-fs",),
    why="Without a fast file system that every node sees, data sets are copied by hand and checkpoints stall the GPUs.",
    fix="Mount the shared file system on every GPU node and name it in the documentation.",
)
def parallel_fs(mounts: Mounts, gpus: GpuPresence, place: Virtualisation | Missing, bar: Host) -> Verdict:
    """Passes for a parallel file system, or NFS with several connections or RDMA; warns for plain shares and for none.

    A Kubernetes node and a container are not judged by mounts that are not there: volumes come from storage classes.
    """
    kinds = bar.filesystems
    if found := _of(mounts, kinds.parallel):
        return ok(f"parallel file system: {_names(found)}")
    shares = _of(mounts, kinds.network)
    if fast := [m for m in shares if _fast_nfs(m)]:
        return ok(f"NFS over several connections or RDMA: {_names(fast)}")
    if shares:
        return warn(f"only network shares: {_names(shares)}; whether they are fast takes a measurement")
    if not gpus.any:
        return skip("no GPU")
    return not_the_host(place, "mounts") or _none_mounted(mounts)


def _none_mounted(mounts: Mounts) -> Verdict:
    if any(m.target.startswith("/var/lib/kubelet") for m in mounts.mounts):
        return skip("a Kubernetes node: shared volumes come from storage classes")
    return warn("no shared file system is mounted")


@check(
    "storage.object",
    category="storage",
    severity="low",
    criteria=("stor-s3",),
    why="Data sets and models move between sites through object storage; without it they are copied by hand.",
    fix="Name the S3 endpoint to the audit, or set AWS_ENDPOINT_URL for the sessions.",
)
def object_storage(mounts: Mounts, clients: StorageClients | Missing, bar: Host) -> Verdict:
    """Passes when object storage is mounted or this session has an endpoint; installed clients alone prove nothing."""
    if found := _of(mounts, bar.filesystems.object):
        return ok(f"object storage is mounted: {_names(found)}")
    if isinstance(clients, Missing):
        return missing(clients)
    if clients.endpoints:
        return ok(f"an S3 endpoint is configured: {next(iter(clients.endpoints.values()))}")
    there = f"clients are installed ({', '.join(sorted(clients.paths))}), " if clients.paths else ""
    return skip(f"{there}no S3 endpoint was given", "not-asked")


@check(
    "storage.posix",
    category="storage",
    severity="medium",
    criteria=("stor-posix",),
    why="Programs that rely on locks corrupt each other's files where a mount only pretends to have them.",
    fix="Mount Lustre with flock, NFS without nolock, local_lock and soft; read object stores by their own client.",
)
def posix(mounts: Mounts, bar: Host) -> Verdict:
    """Reads the mount options: locks that hold on one node only, soft NFS, object storage behind a directory.

    Whether locks and renames really hold between nodes takes a test on two of them.
    """
    kinds = bar.filesystems
    shared = _of(mounts, kinds.parallel | kinds.network | kinds.object)
    if not shared:
        return skip("no shared file system is mounted")
    faults = [f"{m.target} ({m.fstype}): {fault}" for m in shared if (fault := _fault(m, kinds))]
    if faults:
        return warn(some(faults), seen=faults)
    return ok(f"mount options of {_names(shared)} keep locks between nodes")


def _fault(mount: Mount, kinds: FileSystems) -> str:
    if mount.fstype in kinds.object:
        return "object storage, no POSIX file system"
    if mount.fstype == "lustre":
        if mount.option("localflock") is not None:
            return "localflock: locks hold on one node only"
        return "" if mount.option("flock") is not None else "mounted without flock: locks are refused"
    if mount.fstype in ("nfs", "nfs4"):
        if mount.option("nolock") is not None or mount.option("local_lock") in ("all", "flock", "posix"):
            return "locks hold on one node only"
        return "soft: a slow server means write errors" if mount.option("soft") is not None else ""
    return ""


@check(
    "storage.lustre-network",
    category="storage",
    severity="low",
    criteria=("stor-parallel-fs",),
    why="Lustre over TCP on a host with RDMA devices costs CPU and reaches a fraction of the bandwidth.",
    fix="Configure LNet for o2ib and mount by the @o2ib NIDs, where the servers offer them.",
    lifecycle="experimental",
)
def lustre_network(mounts: Mounts, rdma: RdmaDevices | Missing) -> Verdict:
    """Warns when all NIDs of a Lustre mount are TCP although the host has active RDMA ports."""
    lustre = [m for m in mounts.mounts if m.fstype == "lustre"]
    if not lustre:
        return skip("no Lustre is mounted")
    if isinstance(rdma, Missing) or not any(p.active for d in rdma.devices for p in d.ports):
        return skip("no active RDMA port")
    slow = [m.target for m in lustre if m.lnets and all(n.startswith("tcp") for n in m.lnets)]
    if slow:
        return warn(f"{some(slow)}: Lustre over TCP", seen=slow)
    return ok(f"Lustre over {', '.join(sorted({n for m in lustre for n in m.lnets})) or 'networks not named'}")


@check(
    "storage.mounts.uniform",
    category="storage",
    severity="high",
    criteria=("stor-mount-stable", "stor-mount-layout"),
    why="A job that lands on a node without the shared file system fails at once, or writes to the node's own disk.",
    fix="Mount it on the nodes named (systemctl restart remote-fs.target) and let the health check watch it.",
)
def mounts_uniform(mounts: Fleet[Mounts], gpus: Fleet[GpuPresence], bar: Host) -> Verdict:
    """Among GPU nodes, fails when a shared file system that most of them mount is absent from some."""
    kinds = bar.filesystems.parallel | bar.filesystems.network
    seen = {
        node: {m.target for m in found.mounts if m.fstype in kinds and not m.target.startswith("/var/lib/kubelet")}
        for node, found in mounts.items()
        if node in gpus and gpus[node].any
    }
    if len(seen) < 2:
        return skip("fewer than two GPU nodes to compare")
    counts = Counter(target for targets in seen.values() for target in targets)
    usual = sorted(t for t, n in counts.items() if n * 2 > len(seen))
    gaps = {t: [n for n, targets in seen.items() if t not in targets] for t in usual}
    gaps = {t: nodes for t, nodes in gaps.items() if nodes}
    if gaps:
        words = some(f"{t} on {some(nodes, NODES_NAMED)}" for t, nodes in gaps.items())
        return fail(f"shared file systems not mounted: {words}", seen=gaps)
    if not usual:
        return skip("the GPU nodes share no mounted file system")
    return ok(f"{some(usual)} on all {len(seen)} GPU nodes that answered")
