"""What a host of the lab sees as its machine: root, /proc, /sys, /dev. Runs inside the host's new namespaces."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from assay.lab import emulation, kernel, layer
from assay.lab.emulation import Picture
from assay.lab.site import SCRIPTS, HostSite, Site
from assay.lab.spec import Host

_PLAIN = (
    ("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0),
    ("fuse", 10, 229),
)  # fmt: skip
_RANDOM = Path("proc/sys/kernel/random/boot_id")


def mount_root(host: Host, site: Site, database: Path | None) -> None:
    """Everything below the host's root directory, before it becomes the root."""
    own = site.host(host.name)
    root = own.root
    lower = f"{site.layer}:/"
    kernel.mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={own.upper},workdir={own.work}")
    _devices(root / "dev", site.kernel_logs / host.name)
    for name, mode in (("run", "755"), ("tmp", "1777")):
        kernel.mount("tmpfs", root / name, "tmpfs", kernel.NOSUID | kernel.NODEV, f"mode={mode}")
    kernel.bind(own.lab, root / "run/lab")
    kernel.bind(site.munge, root / "run/munge")
    kernel.bind(site.slurm, root / "etc/slurm", read_only=host.role != "control")
    kernel.bind(site.shared, root / "shared")
    if database and host.role == "control":
        kernel.bind(database, root / layer.DATABASE, read_only=True)
    _proc(root)
    _sys(own, root / "sys", site.template(host.role) / "sys")


def show_hardware(own: HostSite, shown: Picture, template: Picture) -> None:
    """What is emulated: in /sys only what the template has not, in /proc and /dev all of it, and the programs."""
    root = own.root
    news, gone = emulation.difference(template.below("/sys"), shown.below("/sys"))
    emulation.place(news, root)
    emulation.take_away(gone, root)
    if (root / "proc/driver").is_dir():
        kernel.mount("driver", root / "proc/driver", "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=555,size=4m")
        emulation.place(shown.below("/proc/driver"), root)
    for path in emulation.write_proc(shown, own.proc):
        if (root / "proc" / path).exists():  # a kernel without modules has no /proc/modules to put one over
            kernel.bind(own.proc / path, root / "proc" / path, read_only=True)
    for top in ("/dev", "/etc", "/opt"):
        emulation.place(shown.below(top), root)
    program = (SCRIPTS / "program").read_text(encoding="utf-8")
    for path in shown.programs:
        layer.put(root / path[1:], program, 0o755)


def _proc(root: Path) -> None:
    """/proc of the new process namespace; what belongs to the whole machine cannot be written."""
    kernel.mount("proc", root / "proc", "proc", kernel.NOSUID | kernel.NODEV)
    for path in ("proc/sys", "proc/sysrq-trigger"):
        if (root / path).exists():
            kernel.bind(root / path, root / path, read_only=True)
    boot_id = root / "run/boot_id"
    boot_id.write_text((root / "proc/sys/kernel/random/uuid").read_text(encoding="ascii"), encoding="ascii")
    kernel.bind(boot_id, root / _RANDOM, read_only=True)


def _sys(own: HostSite, target: Path, template: Path) -> None:
    """/sys of the new network namespace with emulated devices over it: a write changes nothing of this machine."""
    kernel.mount("sysfs", own.sysfs, "sysfs", kernel.NOSUID | kernel.NODEV)
    options = f"lowerdir={template}:{own.sysfs},upperdir={own.sys_upper},workdir={own.sys_work}"
    kernel.mount("sysfs", target, "overlay", kernel.NOSUID | kernel.NODEV, options)


def _devices(dev: Path, kernel_log: Path) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.NOSUID, "mode=755,size=4m")
    for name, major, minor in _PLAIN:
        _device(dev / name, major, minor)
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
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)
