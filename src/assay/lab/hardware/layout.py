"""Where the devices of a shape sit: PCI addresses, bridges above them, NUMA nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from assay.lab.hardware.shapes import Nic, Shape
from assay.lab.hardware.state import State

Kind = Literal["bridge", "gpu", "nvswitch", "rail", "front", "nvme", "vga", "disk"]
Express = Literal["root", "upstream", "downstream", "endpoint"]

_BUSES = (0x15, 0x37, 0x48, 0x59, 0x97, 0xA7, 0xB7, 0xC7)
_TRAY_GPUS = (0x08, 0x09, 0x18, 0x19)
_TRAY_RAILS = (0x00, 0x02, 0x10, 0x12)
_GEN = {4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}


class Device(Struct, frozen=True, kw_only=True):
    """One PCI function. `parents` = the bridges above it from the root down; `index` counts devices of its kind."""

    kind: Kind
    index: int
    address: str
    parents: tuple[str, ...] = ()
    vendor: str
    device: str
    subsystem: str = "0000"
    code: str
    driver: str = ""
    numa: int = 0
    speed: str = "32.0 GT/s PCIe"
    width: int = 16
    express: Express = "endpoint"

    @property
    def path(self) -> str:
        """Its directory below /sys."""
        domain, bus = (self.parents or (self.address,))[0].split(":")[:2]
        return "/".join((f"devices/pci{domain}:{bus}", *self.parents, self.address))


def number(*words: object) -> str:
    """A number as long as a SHA-256 in hexadecimal that depends on the words only."""
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()


def gpu_uuid(host: str, index: int) -> str:
    """The UUID of one NVIDIA GPU of a host."""
    text = number(host, "gpu", index)
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def numa_of(shape: Shape, index: int, count: int) -> int:
    """The NUMA node beside the device `index` of `count`."""
    return index * shape.cpu.sockets * shape.cpu.nodes // max(count, 1)


def devices(shape: Shape, state: State) -> tuple[Device, ...]:
    """Every PCI function of the machine, by address."""
    made = tuple(_guest(shape) if shape.guest else (*_fronts(shape), *_back(shape)))
    gone = {d.address for d in made if d.kind == "gpu" and state.has(d.index, "off-bus")}
    return tuple(sorted((d for d in made if d.address not in gone), key=lambda d: d.address))


def of(kind: Kind, found: tuple[Device, ...]) -> tuple[Device, ...]:
    """The devices of one kind, by their index."""
    return tuple(sorted((d for d in found if d.kind == kind), key=lambda d: d.index))


def rdma_names(found: tuple[Device, ...]) -> dict[str, Device]:
    """The kernel's names of RDMA cards: mlx5_0 ... in the order of their addresses."""
    cards = [d for d in found if d.kind in ("rail", "front") and d.driver == "mlx5_core"]
    return {f"mlx5_{i}": card for i, card in enumerate(cards)}


def cpu_ranges(shape: Shape, node: int) -> str:
    """CPU numbers of a NUMA node: cores first, then their siblings."""
    cpu = shape.cpu
    total, nodes = cpu.sockets * cpu.cores, cpu.sockets * cpu.nodes
    each = total // nodes
    return ",".join(f"{t * total + node * each}-{t * total + (node + 1) * each - 1}" for t in range(cpu.threads))


# ---- pieces ---------------------------------------------------------------------------------------------------


def _bridge(  # noqa: PLR0913, PLR0917 - every part of what is described
    address: str, parents: tuple[str, ...], express: Express, numa: int, maker: tuple[str, str], speed: str
) -> Device:
    return Device(
        kind="bridge", index=0, address=address, parents=parents, vendor=maker[0], device=maker[1], subsystem=maker[1],
        code="060400", driver="pcieport", numa=numa, speed=speed, express=express,
    )  # fmt: skip


def _gpu(shape: Shape, index: int, address: str, parents: tuple[str, ...]) -> Device:
    gpu = shape.gpu
    if gpu is None:
        raise ValueError(f"{shape.name} has no GPU")
    amd = gpu.vendor == "1002"
    return Device(
        kind="gpu", index=index, address=address, parents=parents, vendor=gpu.vendor, device=gpu.device,
        subsystem=gpu.subsystem, code="120000" if amd else "030200", driver="amdgpu" if amd else "nvidia",
        numa=numa_of(shape, index, shape.gpus), speed=_GEN[gpu.generation], width=gpu.lanes,
    )  # fmt: skip


def _nic(  # noqa: PLR0913, PLR0917 - every part of what is described
    kind: Kind, nic: Nic, index: int, address: str, parents: tuple[str, ...], numa: int
) -> Device:
    code = "020700" if nic.link_layer == "InfiniBand" else "020000"
    return Device(
        kind=kind, index=index, address=address, parents=parents, vendor=nic.vendor, device=nic.device,
        subsystem=nic.subsystem, code=code, driver="virtio-pci" if nic.driver == "virtio_net" else nic.driver,
        numa=numa,
        speed=nic.gts, width=nic.lanes,
    )  # fmt: skip


def _drive(index: int, address: str, parents: tuple[str, ...], numa: int) -> Device:
    return Device(
        kind="nvme", index=index, address=address, parents=parents, vendor="144d", device="a826", subsystem="aa0a",
        code="010802", driver="nvme", numa=numa, width=4,
    )  # fmt: skip


def _root(shape: Shape) -> tuple[str, str]:
    if shape.cpu.arch == "aarch64":
        return "10de", "22b1"
    return ("8086", "352a") if shape.cpu.vendor == "GenuineIntel" else ("1022", "153b")


# ---- machines -------------------------------------------------------------------------------------------------


def _back(shape: Shape) -> Iterator[Device]:
    """Accelerators, rails and local drives; a GPU, its NIC and its drive share a switch on x86 boards."""
    if shape.domain:
        yield from _tray(shape)
        return
    for i in range(max(shape.gpus, shape.drives)):
        numa, bus = numa_of(shape, i, max(shape.gpus, shape.drives)), _BUSES[i]
        root, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        speed = _GEN[shape.gpu.generation if shape.gpu else 5]
        yield _bridge(root, (), "root", numa, _root(shape), speed)
        yield _bridge(up, (root,), "upstream", numa, ("1000", "c030"), speed)
        below = [f"0000:{bus + 2:02x}:{port:02x}.0" for port in range(3)]
        parents = [(root, up, port) for port in below]
        for port in below:
            yield _bridge(port, (root, up), "downstream", numa, ("1000", "c030"), speed)
        if shape.rail and i < shape.rails:
            yield _nic("rail", shape.rail, i, f"0000:{bus + 3:02x}:00.0", parents[0], numa)
        if i < shape.gpus:
            yield _gpu(shape, i, f"0000:{bus + 4:02x}:00.0", parents[1])
        if i < shape.drives:
            yield _drive(i + 1, f"0000:{bus + 5:02x}:00.0", parents[2], numa)
    yield from _switches(shape)


def _switches(shape: Shape) -> Iterator[Device]:
    if not shape.switches:
        return
    root, up = "0000:05:01.0", "0000:06:00.0"
    yield _bridge(root, (), "root", 0, _root(shape), "32.0 GT/s PCIe")
    yield _bridge(up, (root,), "upstream", 0, ("1000", "c030"), "32.0 GT/s PCIe")
    for i in range(shape.switches):
        port = f"0000:07:{i:02x}.0"
        yield _bridge(port, (root, up), "downstream", 0, ("1000", "c030"), "32.0 GT/s PCIe")
        yield Device(
            kind="nvswitch", index=i, address=f"0000:{8 + i:02x}:00.0", parents=(root, up, port), vendor="10de",
            device="22a3", subsystem="1796", code="068000", driver="nvidia-nvswitch", numa=0, width=2,
        )  # fmt: skip


def _tray(shape: Shape) -> Iterator[Device]:
    for i, domain in enumerate(_TRAY_GPUS):
        root = f"{domain:04x}:00:00.0"
        yield _bridge(root, (), "root", numa_of(shape, i, 4), _root(shape), "64.0 GT/s PCIe")
        yield _gpu(shape, i, f"{domain:04x}:06:00.0", (root,))
    for i, domain in enumerate(_TRAY_RAILS):
        root, numa = f"{domain:04x}:00:00.0", numa_of(shape, i, 4)
        yield _bridge(root, (), "root", numa, _root(shape), "64.0 GT/s PCIe")
        if shape.rail:
            yield _nic("rail", shape.rail, i, f"{domain:04x}:03:00.0", (root,), numa)
    for i in range(shape.drives):
        root = f"{4 + i // 2 * 16:04x}:00:0{i % 2}.0"
        yield _bridge(root, (), "root", i // 2, _root(shape), "32.0 GT/s PCIe")
        yield _drive(i + 1, f"{4 + i // 2 * 16:04x}:0{1 + i % 2}:00.0", (root,), i // 2)


def _fronts(shape: Shape) -> Iterator[Device]:
    """Front-end card, boot drive and the BMC's display."""
    domain = "0006" if shape.domain else "0000"
    card, boot, bmc = f"{domain}:26:01.0", f"{domain}:00:1c.0", f"{domain}:00:1d.0"
    for root, speed in ((card, "16.0 GT/s PCIe"), (boot, "16.0 GT/s PCIe"), (bmc, "5.0 GT/s PCIe")):
        yield _bridge(root, (), "root", 0, _root(shape), speed)
    for i in range(shape.fronts):
        yield _nic("front", shape.front, i, f"{domain}:27:00.{i}", (card,), 0)
    yield Device(
        kind="nvme", index=0, address=f"{domain}:01:00.0", parents=(boot,), vendor="144d", device="a80a",
        subsystem="a801",
        code="010802", driver="nvme", numa=0, speed="16.0 GT/s PCIe", width=4,
    )  # fmt: skip
    yield Device(
        kind="vga", index=0, address=f"{domain}:02:00.0", parents=(bmc,), vendor="1a03", device="2000",
        subsystem="2000",
        code="030000", driver="ast", numa=0, speed="5.0 GT/s PCIe", width=1,
    )  # fmt: skip


def _guest(shape: Shape) -> Iterator[Device]:
    """A virtual machine: every device below a root port of its own, no NUMA node told."""
    for i in range(shape.gpus + 2):
        root, address = f"0000:00:02.{i}", f"0000:{i + 1:02x}:00.0"
        yield _bridge(root, (), "root", -1, ("1b36", "000c"), "16.0 GT/s PCIe")
        if i < shape.gpus:
            yield _gpu(shape, i, address, (root,))
        elif i == shape.gpus:
            yield _nic("front", shape.front, 0, address, (root,), -1)
        else:
            yield Device(
                kind="disk", index=0, address=address, parents=(root,), vendor="1af4", device="1042", subsystem="1100",
                code="010000", driver="virtio-pci", numa=-1, speed="2.5 GT/s PCIe", width=1,
            )  # fmt: skip
