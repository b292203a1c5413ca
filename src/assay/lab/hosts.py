"""Invented hosts: hardware, software and faults put together. Every example run is made of these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec
from msgspec import Struct

from assay.lab.hardware import amd, drives, infiniband, network, nvidia_kernel, pci, processor
from assay.lab.hardware.layout import Device, devices
from assay.lab.hardware.nvidia_smi import Smi
from assay.lab.hardware.shapes import SHAPES, Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts
from assay.lab.software import (
    accounts,
    compute,
    containers,
    monitoring,
    nvlink,
    packages,
    records,
    services,
    storage,
    system,
)
from assay.lab.software.image import CUDA, DISTRO_CUDA, Image
from assay.lab.software.services import Service, Socket
from assay.lab.virtual import Output, Tool, VirtualHost

NOW = dt.datetime(2026, 11, 2, 9, 0, tzinfo=dt.timezone.utc).timestamp()
TENANT = 1001
TENANT_GROUPS = (1001, 44, 993)


class Machine(Struct, frozen=True, kw_only=True):
    """One host of an example: `uid` reads it; `hung` = programs that never answer."""

    name: str
    shape: str
    state: State = State()
    image: Image = Image()
    uid: int = 0
    hung: tuple[str, ...] = ()


def build(machine: Machine) -> VirtualHost:
    """The virtual host of a machine."""
    shape, state, image, name = SHAPES[machine.shape], machine.state, machine.image, machine.name
    found = devices(shape, state)
    parts = Parts()
    pieces = [
        system.base(name, shape, state, image), pci.sysfs(found), network.sysfs(shape, state, found),
        infiniband.sysfs(name, shape, state, found, network.names(shape, found)), processor.kernel_files(shape, state),
        drives.sysfs(shape, found), accounts.accounts(sudo_for_all=image.sudo_for_all,
        directory=not image.sudo_for_all),
        _services(shape, image), monitoring.health(name, shape, image, found), compute.compute(shape, state, image),
        storage.storage(shape, image), records.records(name, shape, state, image, found, NOW),
        packages.packages(shape, state, image), *_accelerators(name, shape, state, image, found),
    ]  # fmt: skip
    if image.containers:
        pieces.append(containers.containers(shape, image))
    for piece in pieces:
        parts.add(piece)
    parts.commands["/usr/bin/lspci"] = pci.lspci(found, acs=state.acs)
    _keep_badly(parts, image)
    groups: tuple[int, ...] = ()
    if machine.uid:
        groups = TENANT_GROUPS
        system.reader(parts, machine.uid, TENANT, groups)
        parts.environment |= {"USER": "tenant", "LOGNAME": "tenant", "HOME": "/home/tenant"}
    return parts.host(name, NOW, uid=machine.uid, groups=groups, hung=machine.hung)


def _accelerators(name: str, shape: Shape, state: State, image: Image, found: tuple[Device, ...]) -> list[Parts]:
    if shape.gpu is None:
        return []
    if not monitoring.is_nvidia(shape):
        return [_amd(name, shape, state, found)]
    kernel = nvidia_kernel.driver(
        name, shape, state, found, open_module=image.open_module, for_root=image.profiling_for_root
    )
    parts = Parts()
    smi = Smi(name, shape, state, found, f"{dt.datetime.fromtimestamp(NOW, dt.timezone.utc):%a %b %d %H:%M:%S %Y}")
    parts.commands["/usr/bin/nvidia-smi"] = _tool(smi.answer)
    switched = bool(shape.gpu.links) and not shape.domain
    return [kernel, parts, nvlink.imex(shape, state), *([nvlink.fabric_manager(state)] if switched else [])]


def _amd(name: str, shape: Shape, state: State, found: tuple[Device, ...]) -> Parts:
    parts = amd.driver(name, shape, state, found)
    smi = amd.AmdSmi(name, shape, state, found)
    cpu = shape.cpu
    home = f"/opt/rocm-{state.rocm}/bin"
    parts.commands[f"{home}/amd-smi"] = _tool(smi.answer)
    parts.commands[f"{home}/rocminfo"] = lambda _argv, _host: Output(smi.rocminfo(cpu.model, cpu.sockets, cpu.cores))
    parts.commands[f"{home}/rocm-smi"] = lambda _argv, _host: Output(smi.rocm_smi())
    return parts


def _tool(answer: Callable[[tuple[str, ...]], Output]) -> Tool:
    return lambda argv, _host: answer(argv[1:])


def _services(shape: Shape, image: Image) -> Parts:
    units = [
        Service(unit="chrony", about="chrony, an NTP client/server", process="chronyd"),
        Service(unit="ssh", about="OpenBSD Secure Shell server", process="sshd"),
        Service(unit="rsyslog", about="System Logging Service", process="rsyslogd",
        arguments="/usr/sbin/rsyslogd -n -iNONE"),
        Service(unit="systemd-journald", about="Journal Service", process="systemd-journal", enabled=False),
        Service(unit="cron", about="Regular background program processing daemon", process="cron"),
        Service(unit="sssd", about="System Security Services Daemon", process="sssd"),
    ]  # fmt: skip
    if image.slurm:
        units += [Service(unit="munge", about="MUNGE authentication service", process="munged")]
        units += [Service(unit="slurmd", about="Slurm node daemon", process="slurmd")] if shape.gpu else []
    if image.containers:
        units += [
            Service(unit="docker", about="Docker Application Container Engine", process="dockerd"),
            Service(unit="containerd", about="containerd container runtime", process="containerd"),
        ]  # fmt: skip
    if monitoring.is_nvidia(shape):
        units.append(Service(unit="nvidia-persistenced", about="NVIDIA Persistence Daemon", process="nvidia-persiste"))
        if shape.gpu and shape.gpu.links:
            unit = (
                ("nvidia-imex", "NVIDIA IMEX service", "nvidia-imex")
                if shape.domain
                else ("nvidia-fabricmanager", "NVIDIA fabric manager service", "nv-fabricmanage")
            )
            units.append(Service(unit=unit[0], about=unit[1], process=unit[2]))
    more, sockets = monitoring.units(shape, image)
    wide = "0.0.0.0"  # noqa: S104 - written, not bound
    sockets = [Socket("sshd", 22, wide), *sockets, Socket("chronyd", 323, proto="udp")]
    if image.slurm and shape.gpu:
        sockets.append(Socket("slurmd", 6818, wide))
    return services.services([*units, *more], sockets, monitoring.timers(shape, image, NOW))


def _keep_badly(parts: Parts, image: Image) -> None:
    """Settings that are files of another piece."""
    if image.nested:
        parts.put("/sys/module/kvm_intel/parameters", {"nested": "Y"})
        parts.node("/dev/kvm", "0666", "10:232", gid=993)
    if image.swap_used_mib:
        size = 8 * 1024 * 1024
        text = parts.files["/proc/meminfo"]
        text = text.replace(f"{'SwapTotal:':<16}{0:>10} kB", f"{'SwapTotal:':<16}{size:>10} kB")
        free = size - image.swap_used_mib * 1024
        parts.files["/proc/meminfo"] = text.replace(f"{'SwapFree:':<16}{0:>10} kB", f"{'SwapFree:':<16}{free:>10} kB")


# ---- the examples ---------------------------------------------------------------------------------------------

_BAD_STATE = State(
    gpus={1: frozenset({"remap-pending"}), 5: frozenset({"off-bus"})}, rails_down=frozenset({2}), acs=True,
    driver="570.124.06", cuda="12.8",
)  # fmt: skip
_BAD_IMAGE = Image(
    kernel="6.8.0-101-generic", kernel_package="6.8.0-101.101", newer_kernel="6.8.0-147-generic", docker="28.2.2",
    containerd="1.7.27", runc="1.1.14", toolkit="1.17.4", dcgm="3.3.5", exporter="3.3.5", open_module=False,
    nvcc=(DISTRO_CUDA, CUDA), path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", torch="2.6.0",
    torch_cuda="12.4",
    profiling_for_root=True, exporters_open=True, synchronised=False, last_suite_days=23.4, nested=True,
    sudo_for_all=True,
    root_full=True, log_shipper=False, swap_used_mib=5800, peer_memory=False,
)  # fmt: skip

EXAMPLES: dict[str, tuple[Machine, ...]] = {
    "hgx-h100": (Machine(name="h100-01", shape="hgx-h100"), Machine(name="h100-02", shape="hgx-h100")),
    "hgx-b300": (Machine(name="b300-01", shape="hgx-b300"),),
    "gb300-tray": (
        Machine(
            name="gb300-r1-t07", shape="gb300-tray",
            image=Image(kernel="6.17.0-1031-nvidia-64k", kernel_package="6.17.0-1031.31",
            kernel_source="linux-nvidia-6.17"),
        ),
    ),
    "mi355x": (Machine(name="mi355x-01", shape="mi355x"),),
    "login-cpu": (Machine(name="login-01", shape="cpu-login", image=Image(containers=False)),),
    "badly-kept": (
        Machine(name="bad-01", shape="hgx-h100", state=_BAD_STATE, image=_BAD_IMAGE),
        Machine(name="bad-02", shape="hgx-h100", state=_BAD_STATE, image=_BAD_IMAGE, uid=TENANT),
    ),
    "hung-smi": (Machine(name="h100-07", shape="hgx-h100", hung=("/usr/bin/nvidia-smi",)),),
    "unprivileged": (Machine(name="h100-03", shape="hgx-h100", uid=TENANT),),
    "vm-pcie": (Machine(name="l40s-vm-1", shape="vm-l40s", image=Image(slurm=False)),),
}  # fmt: skip


def hosts(example: str) -> list[VirtualHost]:
    """The hosts of one example."""
    return [build(machine) for machine in EXAMPLES[example]]


def variant(machine: Machine, **changes: object) -> Machine:
    """The same machine with some fields changed."""
    return msgspec.structs.replace(machine, **changes)
