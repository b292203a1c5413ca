"""Local drives: there, sound, mounted, with room."""

from __future__ import annotations

from collections.abc import Iterable

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.mounts import Mount, Mounts
from assay.facts.nvme import BlockDevices, DriveTemperature, NvmeDrive, NvmeDrives, NvmeTemperatures
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.host import Host

_STRIPED = frozenset({"raid0", "linear"})  # they fail as a whole and count no missing members
_SYSTEM = ("/boot", "/efi", "/snap", "/etc/", "/dev/", "/var/lib/kubelet/pods")


def _local(drives: NvmeDrives | Missing, bar: Host) -> list[NvmeDrive]:
    """Drives in this machine: not those of a cloud's block storage, not those over a network."""
    if isinstance(drives, Missing):
        return []
    return [d for d in drives.drives if d.transport in (None, "pcie") and not bar.filesystems.remote(d.model)]


@check(
    "storage.local-scratch",
    category="storage",
    severity="medium",
    criteria=("stor-local-scratch",),
    why="Image layers, caches and temporary files belong on a local drive; without one they load the shared storage.",
    fix="Join the NVMe drives (mdadm --level=0), make one file system and mount it at /scratch on every node.",
)
def local_scratch(  # noqa: PLR0913, PLR0917 - drives, what is made of them, and where that is mounted
    mounts: Mounts,
    drives: NvmeDrives | Missing,
    blocks: BlockDevices | Missing,
    gpus: GpuPresence,
    place: Virtualisation | Missing,
    bar: Host,
) -> Verdict:
    """Passes when local NVMe drives are mounted with room; warns when a GPU host has none, or has them unused."""
    if elsewhere := not_the_host(place, "mounts"):
        return elsewhere
    if isinstance(drives, Missing) and drives.kind != "absent":
        return unknown(drives.reason, "failed")
    local = _local(drives, bar)
    if not local:
        return warn("no local NVMe drive") if gpus.any else skip("no GPU and no local NVMe drive")
    if isinstance(blocks, Missing):
        return unknown(blocks.reason, "failed")
    used = _mounted_on(mounts.mounts, blocks, frozenset(n for d in local for n in d.namespaces))
    size = f"{len(local)} NVMe drives of {sum(d.size_gb or 0 for d in local) / 1000:.1f} TB in all"
    best = max(used, key=lambda m: m.available_mib or 0, default=None)
    return _room(size, best, bar) if best else warn(f"{size}, none of them mounted")


def _room(drives: str, best: Mount, bar: Host) -> Verdict:
    if best.available_mib is None:
        return unknown(f"{drives}; free space at {best.target} is not given", "too-little")
    free = best.available_mib / 1024
    words = f"{drives}, {free:.0f} GiB free at {best.target}"
    if free < bar.scratch_gib.value:
        return warn(words, seen=round(free), bar=bar.scratch_gib.bar(" GiB", ">= "))
    return ok(words, seen=round(free))


def _mounted_on(mounts: Iterable[Mount], blocks: BlockDevices, namespaces: frozenset[str]) -> Iterable[Mount]:
    return (
        m
        for m in mounts
        if m.source.startswith("/dev/")
        and not m.target.startswith(_SYSTEM)
        and not m.read_only
        and not namespaces.isdisjoint(blocks.whole(m.source))
    )


@check(
    "storage.space",
    category="storage",
    severity="high",
    why="A full root or container disk stops logins, image pulls and logging, and Kubernetes evicts what runs.",
    fix="Find what fills it (du -xh / | sort -h | tail; docker system df) and move images and logs elsewhere.",
)
def space(mounts: Mounts, bar: Host) -> Verdict:
    """Holds the use of the places where a full disk stops work, as df counts it for users, against two bars."""
    held = [m for m in mounts.holding(bar.filesystems.watched) if m.used_percent is not None]
    if not held:
        return unknown("no size of a local file system is given", "too-little")
    worst = max(held, key=lambda m: m.used_percent or 0)
    words = f"{worst.target} is {worst.used_percent:.0f} % full"
    if (worst.used_percent or 0) > bar.root_full_percent.value:
        return fail(words, seen=worst.used_percent, bar=bar.root_full_percent.bar(" %", "<= "))
    if (worst.used_percent or 0) > bar.root_used_percent.value:
        return warn(words, seen=worst.used_percent, bar=bar.root_used_percent.bar(" %", "<= "))
    return ok(f"{', '.join(m.target for m in held)}: at most {bar.root_used_percent.value:g} % full")


@check(
    "storage.image-space",
    category="storage",
    severity="medium",
    why="One training image unpacks to tens of GB; on a small root disk the pull fails or fills the host.",
    fix="Move the image store to a local NVMe drive: root in /etc/containerd/config.toml, data-root of Docker.",
)
def image_space(mounts: Mounts, gpus: GpuPresence, place: Virtualisation | Missing, bar: Host) -> Verdict:
    """Warns when a GPU host has little free space where container images are unpacked, by default the root disk."""
    if elsewhere := not_the_host(place, "image store"):
        return elsewhere
    if not gpus.any:
        return skip("no GPU")
    places = [m for m in mounts.holding(bar.filesystems.images) if m.available_mib is not None]
    if not places:
        return unknown("free space for images is not given", "too-little")
    best = max(places, key=lambda m: m.available_mib or 0)
    free = (best.available_mib or 0) / 1024
    if free < bar.image_space_gib.value:
        words = f"{free:.0f} GiB free for container images (on {best.target})"
        return warn(words, seen=round(free), bar=bar.image_space_gib.bar(" GiB", ">= "))
    return ok(f"at least {bar.image_space_gib.value:g} GiB free for container images (on {best.target})")


@check(
    "storage.read-only",
    category="storage",
    severity="critical",
    why="The kernel stops writes to a disk after an error: the node looks alive, and every job on it fails.",
    fix="Drain the node, look in dmesg for the disk's errors, replace or repair it (fsck), reboot.",
)
def read_only(mounts: Mounts, bar: Host) -> Verdict:
    """Fails when a disk file system that is mounted for writing has become read-only.

    Only mountinfo tells that apart from a read-only mount made on purpose.
    """
    disks = [m for m in mounts.mounts if m.fstype in bar.filesystems.disk]
    if not disks:
        return skip("no disk file system is mounted")
    if lost := [m.target for m in disks if m.forced_ro]:
        return fail(f"read-only after an error: {some(lost)}", seen=lost)
    if all(m.forced_ro is None for m in disks):
        return unknown("the mounts do not tell", "too-little")
    root = mounts.at("/")
    if root and root.fstype in bar.filesystems.disk and root.read_only:
        return warn("the root disk is mounted read-only")
    return ok("every disk mounted for writing can be written")


@check(
    "storage.nvme.state",
    category="storage",
    severity="high",
    criteria=("stor-local-scratch",),
    why="A drive whose controller is not live answers no request; what was on it is gone for the job.",
    fix="nvme reset /dev/nvmeN; if it does not come back, replace the drive.",
)
def nvme_state(drives: NvmeDrives) -> Verdict:
    """Fails for a controller that is dead or being removed, warns for one that is resetting or connecting."""
    states = {d.name: d.state for d in drives.drives}
    odd = {name: state for name, state in states.items() if state != "live"}
    if not odd:
        return ok(f"all {len(states)} NVMe controllers live")
    words = ", ".join(f"{name} {state or 'does not say'}" for name, state in odd.items())
    if any(state in ("dead", "deleting", "deleting (no IO)") for state in odd.values()):
        return fail(f"NVMe controllers: {words}", seen=odd)
    if all(state in ("resetting", "connecting", "new") for state in odd.values()):
        return warn(f"NVMe controllers: {words}", seen=odd)
    return unknown(f"NVMe controllers: {words}", seen=odd)


@check(
    "storage.nvme.temperature",
    category="storage",
    severity="medium",
    why="A hot drive slows itself down, and above its critical temperature it switches off.",
    fix="Check fans and air flow of the drive bays.",
)
def nvme_temperature(temperatures: NvmeTemperatures, bar: Host) -> Verdict:
    """Holds each drive against the limits it states itself; a drive without any against a common bar."""
    known = [t for t in temperatures.drives if t.current_c is not None]
    if not known:
        return skip("no drive gives its temperature", "absent")
    critical = [t for t in known if t.critical_c is not None and (t.current_c or 0) >= t.critical_c]
    if critical:
        return fail(f"at their critical temperature: {_degrees(critical)}")
    hot = [t for t in known if (t.current_c or 0) >= (t.warning_c or t.critical_c or bar.drive_warm_c.value)]
    if hot:
        return warn(f"at their warning temperature: {_degrees(hot)}", bar=bar.drive_warm_c.bar(" C", "< "))
    return ok(f"all {len(known)} NVMe drives below their warning temperature")


def _degrees(drives: Iterable[DriveTemperature]) -> str:
    return ", ".join(f"{t.name} {t.current_c:.0f} C" for t in drives)


@check(
    "storage.raid",
    category="storage",
    severity="high",
    criteria=("stor-local-scratch",),
    why="A RAID without one of its members has lost its protection, and a striped one its data.",
    fix="mdadm --detail /dev/mdN names the missing member; replace the drive and add it: mdadm /dev/mdN --add.",
)
def raid(blocks: BlockDevices) -> Verdict:
    """Fails when a software RAID counts missing members."""
    arrays = {name: d for name, d in blocks.devices.items() if d.raid and d.raid != "container"}
    if not arrays:
        return skip("no software RAID")
    lacking = {name: d.degraded for name, d in arrays.items() if d.degraded}
    if lacking:
        words = ", ".join(f"{name} ({arrays[name].raid}) lacks {n}" for name, n in lacking.items())
        return fail(f"software RAID: {words}", seen=lacking)
    if mute := sorted(name for name, d in arrays.items() if d.degraded is None and d.raid not in _STRIPED):
        return unknown(f"software RAID {some(mute)} does not tell whether members are missing", "too-little")
    return ok(f"{', '.join(sorted(arrays))}: no member missing")
