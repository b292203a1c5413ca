"""What a host of the lab sees as its machine: root, /proc, /sys, /dev. Runs inside the host's new namespaces."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from assay.lab import cgroups, kernel
from assay.lab.layer import DATABASE
from assay.lab.site import HostSite, Site
from assay.lab.spec import Host, Shape, Spec

_PLAIN = (
    ("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0),
    ("fuse", 10, 229),
)  # fmt: skip
_NVIDIA, _DRI = 195, 226
_RANGE = re.compile(r"(.*)\[(\d+)-(\d+)\]")
_RANDOM = Path("proc/sys/kernel/random/boot_id")


def mount_root(host: Host, site: Site, spec: Spec, database: Path | None) -> None:
    """Everything below the host's root directory, before it becomes the root."""
    own = site.host(host.name)
    root = own.root
    lower = f"{site.layer}:/"
    kernel.mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={own.upper},workdir={own.work}")
    _devices(root / "dev", host, spec, site.kernel_logs / host.name)
    for name, mode in (("run", "755"), ("tmp", "1777")):
        kernel.mount("tmpfs", root / name, "tmpfs", kernel.NOSUID | kernel.NODEV, f"mode={mode}")
    kernel.bind(own.lab, root / "run/lab")
    kernel.bind(site.munge, root / "run/munge")
    kernel.bind(site.slurm, root / "etc/slurm", read_only=host.role != "control")
    kernel.bind(site.shared, root / "shared")
    if database and host.role == "control":
        kernel.bind(database, root / DATABASE, read_only=True)
    _proc(root)
    _sys(own, root / "sys", constrained=bool(spec.constrain) and host.role == "gpu")


def _proc(root: Path) -> None:
    """/proc of the new process namespace; what belongs to the whole machine cannot be written."""
    kernel.mount("proc", root / "proc", "proc", kernel.NOSUID | kernel.NODEV)
    for path in ("proc/sys", "proc/sysrq-trigger"):
        if (root / path).exists():
            kernel.bind(root / path, root / path, read_only=True)
    boot_id = root / "run/boot_id"
    boot_id.write_text((root / "proc/sys/kernel/random/uuid").read_text(encoding="ascii"), encoding="ascii")
    kernel.bind(boot_id, root / _RANDOM, read_only=True)


def _sys(own: HostSite, target: Path, *, constrained: bool) -> None:
    """/sys of the new network namespace, with what is emulated over it: a write changes no device."""
    kernel.mount("sysfs", own.sysfs, "sysfs", kernel.NOSUID | kernel.NODEV)
    options = f"lowerdir={own.sysfs},upperdir={own.sys_upper},workdir={own.sys_work}"
    kernel.mount("sysfs", target, "overlay", kernel.NOSUID | kernel.NODEV, options)
    if constrained:
        cgroups.show(target / "fs/cgroup")


def _devices(dev: Path, host: Host, spec: Spec, kernel_log: Path) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.NOSUID, "mode=755,size=4m")
    for name, major, minor in _PLAIN:
        _device(dev / name, major, minor)
    if host.role == "gpu":
        for path, major, minor in gpu_devices(spec.gpu_shape):
            _device(dev / path, major, minor)
    (dev / "pts").mkdir()
    kernel.mount("devpts", dev / "pts", "devpts", kernel.NOSUID, "newinstance,ptmxmode=0666,mode=620")
    (dev / "shm").mkdir()
    kernel.mount("tmpfs", dev / "shm", "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=1777")
    for name, target in (
        ("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"),
    ):  # fmt: skip
        (dev / name).symlink_to(target)
    kernel.bind(kernel_log, dev / "kmsg")


def _device(path: Path, major: int, minor: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)


def gpu_devices(shape: Shape) -> list[tuple[str, int, int]]:
    """(path below /dev, major, minor) of the GPUs' files and their drivers' own. No driver answers to any."""
    prefix, first, last = _RANGE.fullmatch(shape.device.removeprefix("/dev/")).groups()  # type: ignore[union-attr]
    major = _NVIDIA if prefix == "nvidia" else _DRI
    found = [(f"{prefix}{number}", major, number) for number in range(int(first), int(last) + 1)]
    own = [("nvidiactl", _NVIDIA, 255)] if prefix == "nvidia" else [("kfd", 236, 0)]
    return [*found, *own]
