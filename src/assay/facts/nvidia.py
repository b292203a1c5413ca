"""What is known of NVIDIA GPUs on a node: the facts that the nvidia_* modules fill."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from assay.model import Fact

SmiState = Literal[
    "nvml_init_failed", "gpu_lost", "gpu_unreadable", "no_devices", "no_driver", "not_run",
    "inforom_corrupted", "failed",
]  # fmt: skip


class SmiFailure(Struct, frozen=True, kw_only=True):
    """What nvidia-smi said instead of, or beside, an answer. `pci` = the GPU it names, as in sysfs."""

    state: SmiState = "failed"
    cause: str | None = None
    pci: str | None = None
    library_version: str | None = None
    scope_hint: Literal["container", "host"] | None = None
    message: str = ""


class EccCounts(Struct, frozen=True, kw_only=True):
    """ECC errors of one period. Ampere and later count SRAM/DRAM, Volta and Turing single/double bit."""

    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    single_bit: int | None = None
    double_bit: int | None = None

    @property
    def correctable(self) -> int | None:
        """All corrected errors, None when no counter is given."""
        return _total(self.sram_correctable, self.dram_correctable, self.single_bit)

    @property
    def uncorrectable(self) -> int | None:
        """All uncorrected errors, None when no counter is given."""
        return _total(self.sram_uncorrectable, self.dram_uncorrectable, self.double_bit)


def _total(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


class RemappedRows(Struct, frozen=True, kw_only=True):
    """Row remapping of HBM. `banks` = availability histogram: max, high, partial, low, none."""

    correctable: int | None = None
    uncorrectable: int | None = None
    pending: bool | None = None
    failure: bool | None = None
    banks: dict[str, int] = field(default_factory=dict)


class Fabric(Struct, frozen=True, kw_only=True):
    """NVLink fabric registration in the tool's words; "N/A" = it says there is none."""

    state: str | None = None
    status: str | None = None
    clique_id: int | None = None
    cluster_uuid: str | None = None
    health: str | None = None
    bandwidth: str | None = None
    route_recovery: str | None = None
    route_unhealthy: str | None = None
    access_timeout: str | None = None
    incorrect_configuration: str | None = None


class MigDevice(Struct, frozen=True, kw_only=True):
    """One MIG instance."""

    index: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    sm_count: int | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    sram_uncorrectable: int | None = None
    profile: str | None = None
    uuid: str | None = None


class GpuProcess(Struct, frozen=True, kw_only=True):
    """One process that holds a GPU. `kind` = C, G, M or combinations such as C+G."""

    pid: int | None = None
    name: str | None = None
    kind: str | None = None
    memory_mib: float | None = None
    gpu_instance: int | None = None
    gpu: int | None = None


class NvidiaGpu(Struct, frozen=True, kw_only=True):
    """One GPU as nvidia-smi describes it. `pci` is the name in sysfs, `bus_id` nvidia-smi's with an 8-digit domain."""

    pci: str = ""
    bus_id: str = ""
    name: str | None = None
    brand: str | None = None
    architecture: str | None = None
    uuid: str | None = None
    pdi: str | None = None
    serial: str | None = None
    minor: int | None = None
    module_id: int | None = None
    vbios: str | None = None
    board_part: str | None = None
    part_number: str | None = None
    gsp_firmware: str | None = None
    persistence: bool | None = None
    addressing_mode: str | None = None
    compute_mode: str | None = None
    virtualization: str | None = None
    host_vgpu_mode: str | None = None
    c2c: str | None = None
    license_product: str | None = None
    license_status: str | None = None
    cc_protected_mib: float | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    # memory errors
    ecc: bool | None = None
    ecc_pending: bool | None = None
    ecc_volatile: EccCounts | None = None
    ecc_aggregate: EccCounts | None = None
    sram_threshold_exceeded: bool | None = None
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None
    remapped: RemappedRows | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retired_pending: bool | None = None
    recovery_action: str | None = None
    reset_required: bool | None = None
    drain_and_reset: bool | None = None
    # clocks; `event_reasons` are the active ones, None when the tool gives none
    pstate: str | None = None
    event_reasons: tuple[str, ...] | None = None
    event_us: dict[str, int] = field(default_factory=dict)
    sm_mhz: float | None = None
    graphics_mhz: float | None = None
    memory_mhz: float | None = None
    sm_max_mhz: float | None = None
    graphics_max_mhz: float | None = None
    memory_max_mhz: float | None = None
    app_graphics_mhz: float | None = None
    app_memory_mhz: float | None = None
    app_default_graphics_mhz: float | None = None
    app_default_memory_mhz: float | None = None
    # power; `power_w` only where the tool prints one unqualified draw
    power_w: float | None = None
    power_average_w: float | None = None
    power_instant_w: float | None = None
    power_limit_w: float | None = None
    power_requested_w: float | None = None
    power_default_w: float | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    module_power_w: float | None = None
    # temperatures: absolute thresholds and margins (T.Limit, distance to the limit) are different scales
    temp_c: float | None = None
    margin_c: float | None = None
    memory_temp_c: float | None = None
    shutdown_c: float | None = None
    slowdown_c: float | None = None
    max_operating_c: float | None = None
    memory_max_c: float | None = None
    shutdown_margin_c: float | None = None
    slowdown_margin_c: float | None = None
    max_operating_margin_c: float | None = None
    memory_max_margin_c: float | None = None
    fan_pct: float | None = None
    util_gpu_pct: float | None = None
    util_memory_pct: float | None = None
    memory_total_mib: float | None = None
    memory_reserved_mib: float | None = None
    memory_used_mib: float | None = None
    memory_free_mib: float | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_gen_device_max: int | None = None
    pcie_gen_host_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    pcie_rollovers: int | None = None
    fabric: Fabric | None = None
    processes: tuple[GpuProcess, ...] | None = None
    lost: bool = False
    needs_reset: bool = False
    unreadable: tuple[str, ...] = ()

    @property
    def drawn_w(self) -> float | None:
        """The power it draws now: instantaneous where given, else the unqualified or the average draw."""
        draws = (self.power_instant_w, self.power_w, self.power_average_w)
        return next((w for w in draws if w is not None), None)


class NvidiaSmi(Fact, frozen=True):
    """`nvidia-smi -q`. `complete` = the output was not cut off; `attached` counts all GPUs, even those not printed."""

    driver_version: str | None = None
    cuda_version: str | None = None
    attached: int | None = None
    complete: bool = True
    gpus: tuple[NvidiaGpu, ...] = ()
    failure: SmiFailure | None = None


class NvidiaDriver(Fact, frozen=True):
    """The loaded kernel module. `params` = /proc/driver/nvidia/params; `options` = NVreg settings in modprobe.d."""

    version: str | None = None
    open: bool | None = None
    arch: str | None = None
    params: dict[str, int | str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


class NvidiaProcGpu(Struct, frozen=True, kw_only=True):
    """A GPU the kernel driver took over (/proc/driver/nvidia/gpus/*/information)."""

    pci: str = ""
    model: str | None = None
    uuid: str | None = None
    vbios: str | None = None
    minor: int | None = None
    excluded: bool | None = None
    firmware: str | None = None


class NvidiaDevices(Fact, frozen=True):
    """Device files: /dev/nvidiaN -> access of this user ("rw"), the others, and the driver's own list of GPUs."""

    nodes: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    gpus: tuple[NvidiaProcGpu, ...] = ()
