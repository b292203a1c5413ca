"""The emulated hardware of one host: which files, devices and programs show it, and how they are put in place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.lab.hardware.state import State
from assay.lab.hosts import Machine, build
from assay.lab.spec import Host, Role, Spec
from assay.lab.virtual import VirtualHost

PROGRAMS = (
    "nvidia-smi", "dcgmi", "nv-fabricmanager", "nvidia-imex", "nvidia-imex-ctl", "nvidia-container-cli", "nvidia-ctk",
    "amd-smi", "rocm-smi", "rocminfo", "amd-ctk", "lspci", "ibstat", "ibstatus", "ibv_devinfo", "ibdev2netdev",
    "ofed_info",
)  # fmt: skip
# of an invented host, what is hardware; what runs on a host of the lab is real
_SHOWN = re.compile(
    r"/sys/(?!fs/|kernel/|devices/virtual/|class/net/(?:lo|bond\d*)$)|/dev/(?!kmsg$|kvm$)|/opt/rocm$"
    r"|/etc/(?:modprobe\.d|nvidia-imex)/|/proc/driver/|/proc/(?:cpuinfo|meminfo|modules|cmdline)$"
)
# directories in which this machine's own devices are not to be seen beside the emulated ones
_WHOLE = re.compile(
    r"bus/[^/]+|class/(?!net$)[^/]+|devices/pci[^/]+|devices/system/(?:cpu|node|edac)|firmware/[^/]+|module"
)
_OPAQUE = "trusted.overlay.opaque"


@dataclass(frozen=True)
class Picture:
    """What is shown of one host: files and links below /, modes as "type mode uid gid rdev", paths of its programs."""

    host: VirtualHost
    files: Mapping[str, str]
    links: Mapping[str, str]
    modes: Mapping[str, str]
    programs: tuple[str, ...]

    def below(self, top: str) -> Picture:
        """The part below one directory."""
        prefix = f"{top}/"
        tables = ({p: v for p, v in t.items() if p.startswith(prefix)} for t in (self.files, self.links, self.modes))
        files, links, modes = tables
        return Picture(self.host, files, links, modes, ())


def picture(host: Host, spec: Spec, state: State) -> Picture:
    """The hardware of a host in a state: GPUs and cards of the lab's shape, a plain server for ctl and login."""
    shape = spec.gpu_shape.hardware if host.role == "gpu" else "cpu-login"
    built = build(Machine(name=host.name, shape=shape, state=state))
    tables = ({p: v for p, v in table.items() if _SHOWN.match(p)} for table in (built.files, built.links, built.modes))
    files, links, modes = tables
    programs = tuple(sorted(path for path in built.commands if path.rpartition("/")[2] in PROGRAMS))
    return Picture(built, files, links, modes, programs)


def difference(one: Picture, other: Picture) -> tuple[Picture, list[str]]:
    """(what `other` has new or changed, what it no longer has)."""
    gone: list[str] = []

    def new(old: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
        gone.extend(path for path in old if path not in now)
        return {path: value for path, value in now.items() if old.get(path) != value}

    files, links, modes = (
        new(one.files, other.files),
        new(one.links, other.links),
        new(one.modes, other.modes),
    )
    return Picture(other.host, files, links, modes, ()), gone


def place(shown: Picture, root: Path) -> None:
    """Write files, links, directories and devices below `root`."""
    made: set[str] = set()
    for path, line in shown.modes.items():
        kind, mode, uid, gid, device = line.split()
        if kind == "d":
            _directory(root, path, made)
        elif kind in "cb" and path not in shown.files:
            _directory(root, path.rpartition("/")[0], made)
            _node(root / path[1:], kind, int(mode, 8), (int(uid), int(gid)), device)
    for path, text in shown.files.items():
        _directory(root, path.rpartition("/")[0], made)
        fd = os.open(f"{root}{path}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.write(fd, text.encode())
        os.close(fd)
        if path in shown.modes:
            Path(f"{root}{path}").chmod(int(shown.modes[path].split()[1], 8))
    for path, target in shown.links.items():
        _directory(root, path.rpartition("/")[0], made)
        Path(f"{root}{path}").unlink(missing_ok=True)
        Path(f"{root}{path}").symlink_to(target)


def _directory(root: Path, path: str, made: set[str]) -> None:
    if path not in made:
        Path(f"{root}{path}").mkdir(parents=True, exist_ok=True)
        made.add(path)


def _node(path: Path, kind: str, mode: int, owner: tuple[int, int], device: str) -> None:
    major, _, minor = device.partition(":")
    path.unlink(missing_ok=True)
    os.mknod(path, mode | (stat.S_IFCHR if kind == "c" else stat.S_IFBLK), os.makedev(int(major), int(minor)))
    path.chmod(mode)
    os.chown(path, *owner)


def take_away(paths: Iterable[str], root: Path) -> None:
    """Remove what is no longer there, and directories that nothing is left in."""
    for path in sorted(paths, reverse=True):
        here = Path(f"{root}{path}")
        if here.is_dir() and not here.is_symlink():
            _prune(here, root)
            continue
        here.unlink(missing_ok=True)
        _prune(here.parent, root)


def _prune(directory: Path, root: Path) -> None:
    while directory != root and directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def write_proc(shown: Picture, directory: Path) -> list[str]:
    """Write single files of /proc to where they are shown from; their names."""
    names = [path.removeprefix("/proc/") for path in shown.files if path.count("/") == 2 and path.startswith("/proc/")]
    for name in names:
        (directory / name).write_text(shown.files[f"/proc/{name}"], encoding="utf-8")
    return names


def template(role: Role, spec: Spec, directory: Path) -> Picture:
    """Write what hosts of one role have in common in /sys, as a layer that hides this machine's own devices."""
    shown = picture(Host("template", role, ""), spec, State())
    place(shown.below("/sys"), directory.parent)
    hide_machine(directory)
    return shown


def change(before: Picture, after: Picture, pid: int, proc: Path) -> None:
    """Let a running host see other hardware: `pid` is its first process, `proc` where it has files of /proc from."""
    news, gone = difference(before, after)
    single = re.compile(r"/proc/[^/]+$")
    files = {path: text for path, text in news.files.items() if not single.match(path)}
    root = Path(f"/proc/{pid}/root")
    place(Picture(after.host, files, news.links, news.modes, ()), root)
    take_away([path for path in gone if not single.match(path)], root)
    write_proc(news, proc)


def hide_machine(sysfs: Path) -> None:
    """Mark the directories of an overlay's layer for /sys that show emulated devices only."""
    for directory, names, _ in os.walk(sysfs):
        for name in names:
            path = Path(directory, name)
            if _WHOLE.fullmatch(str(path.relative_to(sysfs))):
                os.setxattr(path, _OPAQUE, b"y")


def state_of(text: str) -> State:
    """The state in a host's state.json; a healthy one where there is none."""
    return msgspec.json.decode(text, type=State) if text.strip() else State()


def state_text(state: State) -> str:
    """As it stands in state.json."""
    return msgspec.json.format(msgspec.json.encode(state)).decode() + "\n"
