"""Local drives: NVMe controllers, block devices, software RAID."""

from __future__ import annotations

from assay.lab.hardware.layout import Device, of
from assay.lab.hardware.shapes import Shape
from assay.lab.parts import Parts

_SECTORS = {0: 1875385008}  # the boot drive: 960 GB
_BIG = 7501476528  # 3.84 TB


def sysfs(shape: Shape, found: tuple[Device, ...]) -> Parts:
    """/sys/class/nvme and /sys/block."""
    parts = Parts()
    drives = of("nvme", found)
    for d in drives:
        home = f"/sys/{d.path}/nvme/nvme{d.index}"
        model = "SAMSUNG MZ1L2960HCJR-00A07" if d.index == 0 else shape.drive
        parts.links[f"/sys/class/nvme/nvme{d.index}"] = f"../../{d.path}/nvme/nvme{d.index}"
        firmware = "GDC7502Q" if d.index == 0 else "OPPA4B5Q"
        values = {"model": f"{model:<40}", "firmware_rev": firmware, "state": "live", "transport": "pcie"}
        parts.put(home, {**values, "numa_node": d.numa, "address": d.address})
        warm = {"temp1_input": 36850 + 1000 * (d.index % 4), "temp1_max": 81850, "temp1_crit": 84850}
        parts.put(f"{home}/hwmon{d.index + 2}", warm)
        _block(parts, f"nvme{d.index}n1", f"{d.path}/nvme/nvme{d.index}/nvme{d.index}n1", _SECTORS.get(d.index, _BIG))
    members = [f"nvme{d.index}n1" for d in drives if d.index]
    if len(members) > 1:
        _block(parts, "md0", "devices/virtual/block/md0", _BIG * len(members) - 65536)
        parts.put("/sys/devices/virtual/block/md0/md", {"level": "raid0", "degraded": 0})
        homes = {f"nvme{d.index}n1": f"{d.path}/nvme/nvme{d.index}/nvme{d.index}n1" for d in drives}
        for member in members:
            parts.links[f"/sys/devices/virtual/block/md0/slaves/{member}"] = f"../../../../../{homes[member]}"
    if shape.guest:
        _block(parts, "vda", f"{of('disk', found)[0].path}/virtio3/block/vda", 1073741824)
    return parts


def _block(parts: Parts, name: str, path: str, sectors: int) -> None:
    parts.links[f"/sys/block/{name}"] = f"../{path}"
    parts.put(f"/sys/{path}", {"size": sectors, "ro": 0, "queue/rotational": 0})
