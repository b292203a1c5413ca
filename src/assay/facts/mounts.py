"""Mounted file systems, and the sizes of the local ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from assay.facts.shapes import shaped
from assay.facts.source import source, why_missing
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact

_ESCAPE = re.compile(r"\\([0-7]{3})")
_SUBPATH = re.compile(r"^(.*?)\[(/.*)\]$")
_NID = re.compile(r"@([a-z][a-z0-9]*)")
_SIZE = re.compile(r"^([\d.,]+)([KMGTP]?)$")
_DF = re.compile(r" (\d+) +(\d+) +(\d+) +(?:\d+%|-) (/.*)$")
_UNIT_MIB = {"": 1 / (1 << 20), "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_REMOTE = (
    "lustre", "nfs", "nfs4", "wekafs", "gpfs", "beegfs", "ceph", "virtiofs", "9p", "cifs", "smb3", "afs", "autofs",
    "fuse", "fuseblk", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.goofys",
    "fuse.mount-s3", "fuse.mountpoint-s3", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.ceph-fuse",
    "fuse.juicefs", "fuse.JuiceFS", "fuse.cvmfs2", "fuse.geesefs", "fuse.seaweedfs", "fuse.beegfs",
)  # fmt: skip


class Mount(Struct, frozen=True, kw_only=True):
    """One mounted file system. `root` = the part of it that is mounted; sizes are asked only of local ones.

    `forced_ro` = mounted for writing and read-only all the same: the kernel stopped writes after an error.
    """

    target: str
    source: str = ""
    fstype: str = ""
    options: tuple[str, ...] = ()
    root: str = "/"
    forced_ro: bool | None = None
    size_mib: int | None = None
    used_mib: int | None = None
    available_mib: int | None = None
    used_percent: float | None = None

    def option(self, name: str) -> str | None:
        """The value of an option ("" for a bare word), None where it is not set."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None

    @property
    def read_only(self) -> bool:
        """True when mounted or degraded to read-only."""
        return "ro" in self.options

    @property
    def lnets(self) -> tuple[str, ...]:
        """LNet networks in the NIDs of a Lustre source: tcp, o2ib, kfi ..."""
        return tuple(dict.fromkeys(_NID.findall(self.source))) if self.fstype == "lustre" else ()


class Mounts(Fact, frozen=True):
    """What is mounted, in order; the same source on the same target only once."""

    mounts: tuple[Mount, ...] = ()

    def at(self, target: str) -> Mount | None:
        """The mount on exactly this directory; the last one hides those before it."""
        return next((m for m in reversed(self.mounts) if m.target == target), None)

    def holding(self, paths: Iterable[str]) -> tuple[Mount, ...]:
        """The mounts that these paths lie on, each once."""
        by_target = {m.target: m for m in self.mounts}
        found = (next((by_target[p] for p in _up(path) if p in by_target), None) for path in paths)
        return tuple({m.target: m for m in found if m}.values())

    def by_type(self) -> dict[str, int]:
        """How many mounts of each file system type."""
        return dict(Counter(m.fstype for m in self.mounts))


def _up(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield "/"


@source(
    Probe(
        "storage.mounts",
        (
            Files("mountinfo", ("/proc/self/mountinfo",), cap=1 << 20),
            Exec(
                "df",
                ("df", "-P", "-k", "--local", "-T", *(word for t in _REMOTE for word in ("-x", t))),
                timeout_s=5.0,
            ),
        ),
    )
)
def storage_mounts(raw: RawFact) -> Mounts | Missing:
    """Mountinfo for what is mounted; df only for local sizes, so that a dead file server hangs nothing."""
    if missing := why_missing([raw.read("mountinfo")], "no /proc/self/mountinfo"):
        return missing
    found = mountinfo(raw.out("mountinfo"))
    return Mounts(mounts=tuple(_sized(found.mounts, df(raw.out("df")))))


def _sized(mounts: Iterable[Mount], sizes: dict[str, tuple[int, int, int]]) -> Iterator[Mount]:
    for mount in mounts:
        if mount.target not in sizes:
            yield mount
            continue
        size, used, available = sizes[mount.target]
        room = used + available
        yield structs.replace(
            mount,
            size_mib=size // 1024,
            used_mib=used // 1024,
            available_mib=available // 1024,
            used_percent=round(100 * used / room, 1) if room else None,
        )


def mountinfo(text: str) -> Mounts:
    """/proc/self/mountinfo (proc(5)): optional fields end at " - "; the options of mount and file system together."""
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        before, after = left.split(), right.split(" ")
        if not dash or len(before) < 6 or len(after) < 3:
            continue
        options = [*before[5].split(","), *after[2].split(",")]
        mounts.append(
            Mount(
                target=_plain(before[4]),
                source=_plain(after[1]),
                fstype=after[0],
                options=tuple(dict.fromkeys(options)),
                root=_plain(before[3]),
                forced_ro="rw" in before[5].split(",") and bool({"ro", "emergency_ro"} & set(after[2].split(","))),
            )
        )
    return _mounts(mounts, "/proc/self/mountinfo")


def mount_lines(text: str) -> Mounts:
    """`mount`: "source on target type fstype (options)"; SELinux contexts may hold colons and commas in quotes."""
    mounts = (_mount_line(line.strip()) for line in text.splitlines())
    return _mounts([m for m in mounts if m], "mount")


def _mount_line(line: str) -> Mount | None:
    where, _, what = line.rpartition(" type ")
    device, on, target = where.partition(" on /")
    fstype, _, options = what.partition(" (")
    if not on or not options.endswith(")"):
        return None
    words = tuple(o for o in options[:-1].split(",") if o)
    return Mount(target=f"/{target}", source=device, fstype=fstype, options=words)


@shaped("findmnt")
def findmnt_json(text: str) -> Mounts:
    """`findmnt -J`, flat or as a tree, with any columns; human sizes ("1.7T") become MiB."""
    match json.loads(text):
        case {"filesystems": [*entries]}:
            return Mounts(mounts=_once(_findmnt(e) for e in _flat(entries)))
    raise ValueError("not the JSON of findmnt")


def proc_mounts(text: str) -> Mounts:
    """/proc/mounts or fstab: source, target, type, options and two numbers; comments are passed over."""
    rows = (line.split() for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = [r for r in rows if len(r) in (4, 5, 6) and r[1].startswith(("/", "none", "swap"))]
    return _mounts(
        [Mount(source=_plain(r[0]), target=_plain(r[1]), fstype=r[2], options=tuple(r[3].split(","))) for r in found],
        "/proc/mounts",
    )


def df(text: str) -> dict[str, tuple[int, int, int]]:
    """`df -P -k`, with -T or without: target -> KiB in all, used, available; lines without sizes are left out."""
    found = (_DF.search(line) for line in text.splitlines())
    return {f[4]: (int(f[1]), int(f[2]), int(f[3])) for f in found if f}


def _mounts(mounts: list[Mount], what: str) -> Mounts:
    if not mounts:
        raise ValueError(f"not the output of {what}: no mount line")
    return Mounts(mounts=_once(mounts))


def _once(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    return tuple({(m.source, m.target, m.fstype, m.root): m for m in mounts}.values())


def _flat(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield entry
        yield from _flat(entry.get("children", ()))


def _findmnt(entry: dict[str, Any]) -> Mount:
    where = str(entry.get("source") or "")
    part = _SUBPATH.match(where)
    percent = str(entry.get("use%") or "").rstrip("%")
    return Mount(
        target=str(entry["target"]),
        source=part[1] if part else where,
        fstype=str(entry.get("fstype") or ""),
        options=tuple(str(entry.get("options") or "").split(",")) if entry.get("options") else (),
        root=part[2] if part else "/",
        size_mib=_human(entry.get("size")),
        used_mib=_human(entry.get("used")),
        available_mib=_human(entry.get("avail")),
        used_percent=float(percent) if percent.isdigit() else None,
    )


def _human(value: Any) -> int | None:
    found = _SIZE.match(str(value or "").strip())
    return int(float(found[1].replace(",", ".")) * _UNIT_MIB[found[2]]) if found else None


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 8)), text) if "\\" in text else text


FORMATS: dict[str, Callable[[str], Any]] = {
    "findmnt -J": findmnt_json,
    "mount": mount_lines,
    "/proc/self/mountinfo": mountinfo,
    "/proc/mounts": proc_mounts,
    "/etc/fstab": proc_mounts,
    "df -PkT": df,
}
