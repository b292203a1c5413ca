"""amdgpu in the kernel: module, device files, partitions and RAS counters, from /sys and /dev."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from assay.facts.amd_smi import RasCount
from assay.facts.pci_address import last_address
from assay.facts.source import source
from assay.facts.stat import PathState, path_states
from assay.facts.users import group_names
from assay.model import Fact, Files, Links, Missing, Probe, RawFact, Stat

_CARD = re.compile(r"^/sys/class/drm/(card\d+)/device(?:/(.*))?$")
_COUNT = re.compile(r"^[ \t]*(ue|ce|de)[ \t]*:[ \t]*(\d+)[ \t]*$", re.MULTILINE)
_PAGE = re.compile(r"^0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\s*:\s*([RPF])\s*$", re.MULTILINE | re.IGNORECASE)
_FILES = ("current_compute_partition", "current_memory_partition", "unique_id", "pcie_replay_count")


class DeviceFile(Struct, frozen=True, kw_only=True):
    """A device file. `mode` is octal text ("0660"), `access` what the auditing user may do ("rw", "r", "")."""

    path: str = ""
    mode: str = ""
    uid: int | None = None
    gid: int | None = None
    group: str = ""
    access: str = ""


class AmdCard(Struct, frozen=True, kw_only=True):
    """One GPU as the kernel tells it: RAS counters per block, pages taken out of use, partitions."""

    bdf: str = ""
    unique_id: str = ""
    compute_partition: str = ""
    memory_partition: str = ""
    pcie_replays: int | None = None
    blocks: dict[str, RasCount] = msgspec.field(default_factory=dict)
    pages_retired: int | None = None
    pages_pending: int | None = None
    pages_unreserved: int | None = None


class AmdDevices(Fact, frozen=True):
    """`module_version` is amdgpu's own number (out-of-tree driver), None for the one in the kernel."""

    loaded: bool = False
    module_version: str | None = None
    kfd: DeviceFile | None = None
    render: tuple[DeviceFile, ...] = ()
    cards: tuple[AmdCard, ...] = ()
    uid: int = -1


@source(
    Probe(
        "amd.devices",
        (
            Stat("module", ("/sys/module/amdgpu",)),
            Files("version", ("/sys/module/amdgpu/version",)),
            Stat("devices", ("/dev/kfd", "/dev/dri/renderD*")),
            Files("group", ("/etc/group",), cap=1 << 18),
            Links("cards", ("/sys/class/drm/card*/device",)),
            Files("sysfs", tuple(f"/sys/class/drm/card*/device/{name}" for name in _FILES), cap=256),
            Files(
                "ras",
                ("/sys/class/drm/card*/device/ras/*_err_count", "/sys/class/drm/card*/device/ras/gpu_vram_bad_pages"),
            ),
        ),
    )
)
def amd_devices(raw: RawFact) -> AmdDevices | Missing:
    """The amdgpu side of /sys and /dev; absent where there is neither its module nor /dev/kfd."""
    groups = group_names(raw.out("group"))
    files = {state.path: device_file(state, groups) for state in path_states(raw.files("devices"))}
    kfd = files.pop("/dev/kfd", None)
    loaded = bool(raw.files("module"))
    if not loaded and kfd is None:
        return Missing("absent", "no amdgpu module and no /dev/kfd")
    return AmdDevices(
        loaded=loaded,
        module_version=raw.out("version").strip() or None,
        kfd=kfd,
        render=tuple(files[path] for path in sorted(files)),
        cards=cards(raw.files("cards"), raw.files("sysfs") | raw.files("ras")),
        uid=raw.uid,
    )


def device_file(state: PathState, groups: dict[int, str]) -> DeviceFile:
    """A device file with the name of its group."""
    return DeviceFile(
        path=state.path,
        mode=f"{state.mode:04o}",
        uid=state.uid,
        gid=state.gid,
        group=groups.get(state.gid, ""),
        access=state.access,
    )


def cards(links: dict[str, str], files: dict[str, str]) -> tuple[AmdCard, ...]:
    """One entry per DRM card that has any file of amdgpu, named by its PCI address."""
    addresses = {m[1]: last_address(to) for path, to in links.items() if (m := _CARD.match(path))}
    by_card: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        if m := _CARD.match(path):
            by_card.setdefault(m[1], {})[m[2] or ""] = text
    return tuple(_card(addresses.get(name, ""), found) for name, found in sorted(by_card.items()))


def _card(bdf: str, files: dict[str, str]) -> AmdCard:
    compute, memory, unique, replays = (files.get(name, "").strip() for name in _FILES)
    ends = "_err_count"
    blocks = {
        path.removeprefix("ras/").removesuffix(ends): ras_count(text)
        for path, text in sorted(files.items())
        if path.endswith(ends)
    }
    pages = bad_pages(files["ras/gpu_vram_bad_pages"]) if "ras/gpu_vram_bad_pages" in files else {}
    return AmdCard(
        bdf=bdf,
        unique_id=unique,
        compute_partition=compute,
        memory_partition=memory,
        pcie_replays=int(replays) if replays.isdigit() else None,
        blocks=blocks,
        pages_retired=pages.get("R"),
        pages_pending=pages.get("P"),
        pages_unreserved=pages.get("F"),
    )


def ras_count(text: str) -> RasCount:
    """`ue: 0`, `ce: 12`, `de: 0` of a ras/*_err_count file."""
    found = {name: int(count) for name, count in _COUNT.findall(text)}
    return RasCount(found.get("ce"), found.get("ue"), found.get("de"))


def bad_pages(text: str) -> dict[str, int]:
    """Pages by flag in gpu_vram_bad_pages: R reserved, P pending, F could not be reserved."""
    flags = [flag.upper() for flag in _PAGE.findall(text)]
    return {flag: flags.count(flag) for flag in "RPF"}


FORMATS: dict[str, Callable[[str], Any]] = {"gpu_vram_bad_pages": bad_pages}
