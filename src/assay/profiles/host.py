"""Bars for the host: CPU, memory, storage, toolchain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from assay.model import Bar
from assay.profiles import Profile
from assay.profiles.number import Number, Release, Sourced


class GpuArch(Struct, frozen=True, forbid_unknown_fields=True):
    """The CUDA releases that serve one GPU architecture."""

    arch: str
    words: frozenset[str]
    cuda: str
    runs: str
    last: str = ""

    @property
    def sm(self) -> str:
        """The name compilers use, such as sm_90."""
        return f"sm_{self.arch.replace('.', '')}"


class GpuTable(Sourced, frozen=True, kw_only=True):
    """GPU products and the CUDA releases that know them."""

    table: tuple[GpuArch, ...]

    def of(self, product: str) -> GpuArch | None:
        """The architecture of a product name as nvidia-smi prints it."""
        words = frozenset(product.replace("-", " ").split())
        return next((a for a in self.table if a.words & words), None)

    def all_of(self, products: Iterable[str | None]) -> tuple[list[GpuArch], str | None]:
        """The architectures of the products, and the first product that is not in the table."""
        found = {name: self.of(name) for name in products if name}
        return [a for a in found.values() if a], next((n for n, a in found.items() if a is None), None)

    def bar(self, cuda: str) -> Bar:
        """The bar as a verdict shows it."""
        return self.cited(f"CUDA >= {cuda}")


class FileSystems(Sourced, frozen=True, kw_only=True):
    """What the types of file systems are to a job."""

    parallel: frozenset[str]
    network: frozenset[str]
    object: frozenset[str]
    disk: frozenset[str]
    remote_drives: tuple[str, ...]
    watched: tuple[str, ...]
    images: tuple[str, ...]

    def remote(self, model: str) -> bool:
        """True for an NVMe drive that is a network disk."""
        return model.startswith(self.remote_drives)


class Host(Profile, frozen=True):
    """All bars of the host checks."""

    file: ClassVar[str] = "host.toml"

    numa_balance: Number
    corrected_per_day: Number
    cpu_cap: Number
    memlock_mib: Number
    nofile: Number
    perf_paranoid: Number
    swap_used_mib: Number
    huge_share: Number
    session_share: Number
    root_used_percent: Number
    root_full_percent: Number
    image_space_gib: Number
    scratch_gib: Number
    drive_warm_c: Number
    memory_spread: Number
    python: Release
    torch: Release
    gpus: GpuTable
    filesystems: FileSystems


def older(version: str, than: str) -> bool | None:
    """True when a dotted version is older in the parts that `than` has; None when either is not a version."""
    try:
        bar = tuple(map(int, than.split(".")))
        return tuple(map(int, version.split("+", 1)[0].split(".")[: len(bar)])) < bar
    except ValueError:
        return None
