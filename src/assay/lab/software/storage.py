"""What is mounted, and how full it is."""

from __future__ import annotations

from msgspec import Struct

from assay.lab.hardware.shapes import Shape
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.virtual import Output


class Mount(Struct, frozen=True):
    """One line of mountinfo; `gib` and `used` (percent) are what df says, 0 where it is not asked."""

    device: str
    source: str
    target: str
    fstype: str
    options: str = "rw"
    gib: int = 0
    used: int = 0


def storage(shape: Shape, image: Image) -> Parts:
    """/proc/self/mountinfo and df."""
    parts = Parts()
    root = "/dev/vda1" if shape.guest else "/dev/nvme0n1p2"
    mounts = [
        Mount("259:2", root, "/", "ext4", "rw,errors=remount-ro", 440, 98 if image.root_full else 21),
        Mount("0:21", "proc", "/proc", "proc"),
        Mount("0:22", "sysfs", "/sys", "sysfs"),
        Mount("0:25", "tmpfs", "/dev/shm", "tmpfs", "rw", shape.memory_gib // 2, 0),  # noqa: S108 - of an invented host
        Mount("0:26", "cgroup2", "/sys/fs/cgroup", "cgroup2"),
    ]
    if not shape.guest:
        mounts.insert(1, Mount("259:1", "/dev/nvme0n1p1", "/boot/efi", "vfat", "rw,errors=remount-ro", 1, 2))
    if shape.drives > 1 and not image.root_full:
        size = 3576 * shape.drives
        mounts.append(Mount("9:0", "/dev/md0", "/scratch", "xfs", "rw,attr2,inode64,noquota", size, 3))
        for place in ("/var/lib/docker", "/var/lib/containerd"):
            mounts += [Mount("9:0", "/dev/md0", place, "xfs", "rw,attr2,inode64,noquota", size, 3)]
    if shape.guest:
        nfs = "rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=16,local_lock=none"
        mounts.append(Mount("0:51", "10.200.0.9:/shared", "/shared", "nfs4", nfs))
    else:
        mounts.append(
            Mount("0:50", "10.201.0.5@o2ib:10.201.0.6@o2ib:/fs1", "/lustre", "lustre", "rw,flock,lazystatfs,encrypt")
        )
        mounts.append(
            Mount("0:51", "10.200.0.9:/home", "/home", "nfs4", "rw,vers=4.2,hard,proto=tcp,nconnect=16,local_lock=none")
        )
    parts.files["/proc/self/mountinfo"] = "".join(
        f"{n + 21} {21 if n else 1} {m.device} / {m.target} rw,relatime shared:{n + 1} - {m.fstype} {m.source} "
        f"{m.options}\n"
        for n, m in enumerate(mounts)
    )
    text = "Filesystem     Type  1024-blocks      Used Available Capacity Mounted on\n" + "".join(
        _df(m) for m in mounts if m.gib
    )
    parts.commands["/usr/bin/df"] = lambda _argv, _host: Output(text)
    return parts


def _df(m: Mount) -> str:
    total = m.gib << 20
    used = total * m.used // 100
    return f"{m.source:<14} {m.fstype:<5} {total} {used} {total - used} {m.used}% {m.target}\n"
