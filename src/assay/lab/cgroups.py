"""Control groups of version 1, by which Slurm keeps a job to its GPUs. Used where the machine has them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from assay.lab import kernel

CONTROLLERS = ("devices", "freezer")
_MOUNTS = Path("/proc/self/mounts")
_REMOVE_S, _RETRY_S = 5.0, 0.02


def hierarchies(mounts: str) -> dict[str, Path]:
    """Controller -> mount point of its version 1 hierarchy."""
    found: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, point, kind, options = line.split(" ")[:4]
        if kind == "cgroup":
            found.update({name: Path(point) for name in options.split(",") if name in CONTROLLERS})
    return found


def usable() -> dict[str, Path]:
    """The hierarchies, when all that are needed are there and can be written."""
    found = hierarchies(_MOUNTS.read_text(encoding="utf-8"))
    whole = set(found) == set(CONTROLLERS) and all(os.access(point, os.W_OK) for point in found.values())
    return found if whole else {}


def why_not() -> str:
    """Why jobs cannot be kept to their GPUs here."""
    kinds = {line.split(" ")[2] for line in _MOUNTS.read_text(encoding="utf-8").splitlines()}
    if "cgroup" in kinds:
        return f"the cgroups of version 1 ({', '.join(CONTROLLERS)}) cannot be written here"
    return "this machine has cgroup v2 only" if "cgroup2" in kinds else "this machine has no cgroups of version 1"


def group(point: Path, lab: str) -> Path:
    """A lab's group in one hierarchy."""
    return point / f"assay-lab-{lab}"


def make(lab: str, hosts: Iterable[str]) -> None:
    """A group per host. No host of a lab may touch this machine's disks."""
    names = list(hosts)
    for controller, point in usable().items():
        group(point, lab).mkdir(exist_ok=True)
        if controller == "devices":
            (group(point, lab) / "devices.deny").write_text("b *:* rwm", encoding="ascii")
        for name in names:
            (group(point, lab) / name).mkdir(exist_ok=True)


def join(lab: str, host: str) -> None:
    """Move this process into a host's groups, and make them what it sees as the root of all groups."""
    for point in usable().values():
        (group(point, lab) / host / "cgroup.procs").write_text("0", encoding="ascii")
    kernel.unshare(kernel.NEWCGROUP)


def show(directory: Path) -> None:
    """Mount the hierarchies as this process sees them."""
    kernel.mount("tmpfs", directory, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755,size=1m")
    for controller in CONTROLLERS:
        (directory / controller).mkdir()
        kernel.mount("cgroup", directory / controller, "cgroup", kernel.NOSUID | kernel.NODEV, controller)


def remove(lab: str) -> None:
    """Take the groups away, once the last process in them has ended."""
    deadline = time.monotonic() + _REMOVE_S
    for point in usable().values():
        top = group(point, lab)
        while top.is_dir() and time.monotonic() < deadline:
            _remove_tree(top)
            if top.is_dir():
                time.sleep(_RETRY_S)


def _remove_tree(top: Path) -> None:
    with contextlib.suppress(OSError):
        for directory, _, _ in os.walk(top, topdown=False):
            Path(directory).rmdir()
