"""Kernel modules: what is loaded, in which version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from assay.facts.source import source, why_missing
from assay.model import Fact, Files, Missing, Probe, RawFact

_LSMOD = re.compile(r"^[ \t]*([\w-]+)[ \t]+(\d+)[ \t]+(-?\d+)(?:[ \t]+([\w,\[\]-]+))?[ \t]*$", re.MULTILINE)
_KERNEL = re.compile(r"^(?:/usr)?/lib/modules/([^/]+)/")
_KEY = re.compile(r"^\s*(\w+):\s*(.*)$")
_NO_MODULE = re.compile(r"^[ \t]*(?:modinfo: )?ERROR: Module \S+ not found", re.MULTILINE)
_VERSIONED = (
    "nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nv_peer_mem", "gdrdrv", "nvidia_fs",
    "amdgpu", "mlx5_core", "mlx5_ib", "mlx4_core", "ib_core", "efa", "ena", "bnxt_en", "bnxt_re", "ionic", "ionic_rdma",
    "ice", "irdma", "lustre", "lnet", "ko2iblnd", "beegfs", "nvme", "nvme_core", "knem", "xpmem", "gve", "mana",
)  # fmt: skip


class Module(Struct, frozen=True, kw_only=True):
    """A loaded module: size in bytes, reference count, the modules that use it."""

    size: int | None = None
    references: int | None = None
    used_by: tuple[str, ...] = ()
    state: str = ""


class KernelModules(Fact, frozen=True):
    """Loaded modules by name (underscores), and the versions that modules say they have, built-in ones included."""

    modules: dict[str, Module] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def loaded(self, name: str) -> bool:
        """True when the module is loaded or built in."""
        return name in self.modules or name in self.versions


class ModInfo(Struct, frozen=True, kw_only=True):
    """modinfo: `fields` holds every value of a key. `open` = licence of the open GPU driver, None where not shown."""

    filename: str | None = None
    version: str | None = None
    kernel: str | None = None
    license: str | None = None
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def open(self) -> bool | None:
        """True for a module under GPL (also Dual MIT/GPL), False for any other licence."""
        return None if self.license is None else "GPL" in self.license


@source(
    Probe(
        "kernel.modules",
        (
            Files("modules", ("/proc/modules",), cap=1 << 18),
            Files("versions", tuple(f"/sys/module/{name}/version" for name in _VERSIONED)),
        ),
    ),
    sees_missing=True,
)
def kernel_modules(raw: RawFact) -> KernelModules | Missing:
    """/proc/modules: name, size, count, users with trailing commas, state, address."""
    if missing := why_missing([raw.read("modules")], "no /proc/modules (a kernel without modules)"):
        return missing
    modules = {}
    for line in raw.out("modules").splitlines():
        words = line.split()
        if len(words) < 5 or not words[1].isdigit():
            continue
        modules[words[0]] = Module(
            size=int(words[1]),
            references=int(words[2]) if words[2].isdigit() else None,
            used_by=_users(words[3]),
            state=words[4],
        )
    return KernelModules(modules=modules, versions=_versions(raw.files("versions")))


def _versions(files: dict[str, str]) -> dict[str, str]:
    return {path.split("/")[3]: text.strip() for path, text in files.items() if text.strip()}


def _users(text: str) -> tuple[str, ...]:
    return tuple(u for u in text.split(",") if u and u not in ("-", "[permanent]"))


def lsmod(text: str) -> KernelModules:
    """`lsmod`, with or without its header; only the first column names modules."""
    modules = {
        name.replace("-", "_"): Module(size=int(size), references=int(count), used_by=_users(users))
        for name, size, count, users in _LSMOD.findall(text)
    }
    if not modules and not text.lstrip().startswith("Module"):
        raise ValueError("not the output of lsmod")
    return KernelModules(modules=modules)


def modinfo(text: str) -> ModInfo:
    """`modinfo NAME`, also filtered; the kernel is that of the path, or of vermagic; all None for no module."""
    if _NO_MODULE.search(text):
        return ModInfo()
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        if found := _KEY.match(line):
            fields.setdefault(found[1], []).append(found[2].strip())
    if not fields.keys() & {"filename", "version", "srcversion", "vermagic", "license"}:
        raise ValueError("not the output of modinfo")
    first = {key: values[0] for key, values in fields.items()}
    path = _KERNEL.match(first.get("filename", ""))
    return ModInfo(
        filename=first.get("filename"),
        version=first.get("version"),
        kernel=path[1] if path else first.get("vermagic", "").partition(" ")[0] or None,
        license=first.get("license"),
        fields={key: tuple(values) for key, values in fields.items()},
    )


FORMATS: dict[str, Callable[[str], Any]] = {"lsmod": lsmod, "modinfo": modinfo}
