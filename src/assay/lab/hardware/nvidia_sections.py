"""One NVIDIA GPU as nested sections; text and XML of `nvidia-smi -q` are two ways to write them (driver 580, 590)."""

from __future__ import annotations

from assay.lab.hardware.layout import Device, gpu_uuid, number
from assay.lab.hardware.shapes import Gpu, Shape
from assay.lab.hardware.state import State

Section = tuple[str, str, "str | list[Section]"]
NA = "N/A"
_OLD = "Requested functionality has been deprecated"


def sections(host: str, shape: Shape, state: State, device: Device) -> list[Section]:
    """Everything that `nvidia-smi -q` says of one GPU, in its order."""
    gpu = shape.gpu
    if gpu is None:
        raise ValueError(f"{shape.name} has no GPU")
    i = device.index
    return [
        *_identity(host, shape, gpu, state, device),
        ("PCI", "pci", _pci(gpu, state, device)),
        ("Fan Speed", "fan_speed", NA),
        ("Performance State", "performance_state", "P0"),
        ("Clocks Event Reasons", "clocks_event_reasons", _reasons(state, i)),
        ("Clocks Event Reasons Counters", "clocks_event_reasons_counters", _counters()),
        ("Sparse Operation Mode", "sparse_operation_mode", "Disabled"),
        *_memory(gpu, state, i),
        ("Compute Mode", "compute_mode", "Default"),
        ("Utilization", "utilization", _utilization(state, i)),
        ("DRAM Encryption Mode", "dram_encryption_mode", _two("dram_encryption", NA)),
        ("ECC Mode", "ecc_mode", _two("ecc", "Enabled")),
        ("ECC Errors", "ecc_errors", _ecc(state, i)),
        ("Retired Pages", "retired_pages", _retired()),
        ("Remapped Rows", "remapped_rows", _remapped(gpu, state, i)),
        ("Temperature", "temperature", _temperature(gpu, state, i)),
        *_power(gpu, state, i),
        *_clocks(gpu, state, i),
        ("Fabric", "fabric", _fabric(shape, gpu)),
    ]


def _two(tag: str, value: str) -> list[Section]:
    return [("Current", f"current_{tag}", value), ("Pending", f"pending_{tag}", value)]


def _identity(host: str, shape: Shape, gpu: Gpu, state: State, device: Device) -> list[Section]:
    i = device.index
    board = gpu.margin_c is not None
    return [
        ("Product Name", "product_name", gpu.name),
        ("Product Brand", "product_brand", gpu.brand),
        ("Product Architecture", "product_architecture", gpu.architecture),
        ("Display Mode", "display_mode", _OLD),
        ("Display Attached", "display_attached", "No"),
        ("Display Active", "display_active", "Disabled"),
        ("Persistence Mode", "persistence_mode", "Enabled"),
        ("Addressing Mode", "addressing_mode", "ATS" if gpu.coherent else "HMM"),
        ("MIG Mode", "mig_mode", _two("mig", "Disabled" if board else NA)),
        ("MIG Devices", "mig_devices", "None"),
        ("Accounting Mode", "accounting_mode", "Disabled"),
        ("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"),
        ("Driver Model", "driver_model", _two("dm", NA)),
        *_numbers(host, shape, gpu, device),
        ("GPU Operation Mode", "gpu_operation_mode", _two("gom", NA)),
        ("GPU C2C Mode", "c2c_mode", "Enabled" if gpu.coherent else "Disabled" if board else NA),
        ("GPU Virtualization Mode", "gpu_virtualization_mode", [
            ("Virtualization Mode", "virtualization_mode", "Pass-Through" if shape.guest else "None"),
            ("Host VGPU Mode", "host_vgpu_mode", NA), ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NA),
        ]),
        ("GPU Recovery Action", "gpu_recovery_action", "Reset" if state.has(i, "remap-pending") else "None"),
        ("GSP Firmware Version", "gsp_firmware_version", state.driver),
        ("IBMNPU", "ibmnpu", [("Relaxed Ordering Mode", "relaxed_ordering_mode", NA)]),
    ]  # fmt: skip


def _numbers(host: str, shape: Shape, gpu: Gpu, device: Device) -> list[Section]:
    i = device.index
    return [
        ("Serial Number", "serial", f"165{int(number(host, 'serial', i)[:8], 16) % 10**10:010d}"),
        ("GPU UUID", "uuid", gpu_uuid(host, i)),
        ("GPU PDI", "pdi", f"0x{number(host, 'pdi', i)[:16]}"),
        ("Minor Number", "minor_number", str(i)),
        ("VBIOS Version", "vbios_version", gpu.vbios),
        ("MultiGPU Board", "multigpu_board", "No"),
        ("Board ID", "board_id", f"0x{device.address.split(':')[1]}00"),
        ("Board Part Number", "board_part_number", gpu.board_part),
        ("GPU Part Number", "gpu_part_number", gpu.part),
        ("FRU Part Number", "gpu_fru_part_number", NA),
        ("Platform Info", "platformInfo", _platform(host, shape, i)),
        ("Inforom Version", "inforom_version", [
            ("Image Version", "img_version", gpu.inforom), ("OEM Object", "oem_object", "2.1"),
            ("ECC Object", "ecc_object", "7.16"), ("Power Management Object", "pwr_object", NA),
        ]),
    ]  # fmt: skip


def _platform(host: str, shape: Shape, i: int) -> list[Section]:
    rack = [f"18{number(host, 'rack')[:11]}", "14", "6", "1", "Switch Connected"] if shape.domain else [NA] * 5
    names = (
        ("Chassis Serial Number", "chassis_serial_number"), ("Slot Number", "slot_number"), ("Tray Index",
        "tray_index"),
        ("Host ID", "host_id"), ("Peer Type", "peer_type"),
    )  # fmt: skip
    return [
        *((label, tag, value) for (label, tag), value in zip(names, rack, strict=True)),
        ("Module Id", "module_id", str(i + 1)),
        ("GPU Fabric GUID", "gpu_fabric_guid", f"0x{number(host, 'guid', i)[:16]}" if shape.domain else NA),
    ]


def _pci(gpu: Gpu, state: State, device: Device) -> list[Section]:
    domain, bus, slot = device.address.replace(".", ":").split(":")[:3]
    generation = str(gpu.generation)
    busy = state.has(device.index, "busy")
    return [
        ("Bus", "pci_bus", f"0x{bus.upper()}"), ("Device", "pci_device", f"0x{slot}"),
        ("Domain", "pci_domain", f"0x{domain.upper()}"), ("Base Classcode", "pci_base_class", "0x3"),
        ("Sub Classcode", "pci_sub_class", "0x2"), ("Device Id", "pci_device_id", f"0x{gpu.device}10DE"),
        ("Bus Id", "pci_bus_id", smi_address(device)), ("Sub System Id", "pci_sub_system_id", f"0x{gpu.subsystem}10DE"),
        ("GPU Link Info", "pci_gpu_link_info", [
            ("PCIe Generation", "pcie_gen", [
                ("Max", "max_link_gen", generation), ("Current", "current_link_gen", generation),
                ("Device Current", "device_current_link_gen", generation),
                ("Device Max", "max_device_link_gen", generation), ("Host Max", "max_host_link_gen", generation),
            ]),
            ("Link Width", "link_widths", [
                ("Max", "max_link_width", f"{gpu.lanes}x"), ("Current", "current_link_width", f"{gpu.lanes}x"),
            ]),
        ]),
        ("Bridge Chip", "pci_bridge_chip", [("Type", "bridge_chip_type", NA), ("Firmware", "bridge_chip_fw", NA)]),
        ("Replays Since Reset", "replay_counter", "0"), ("Replay Number Rollovers", "replay_rollover_counter", "0"),
        ("Tx Throughput", "tx_util", "9412 KB/s" if busy else "446 KB/s"),
        ("Rx Throughput", "rx_util", "12087 KB/s" if busy else "562 KB/s"),
        ("Atomic Caps Outbound", "atomic_caps_outbound", NA), ("Atomic Caps Inbound", "atomic_caps_inbound", NA),
    ]  # fmt: skip


def smi_address(device: Device) -> str:
    """A PCI address as nvidia-smi writes it."""
    return f"0000{device.address.upper()}"


def _reasons(state: State, i: int) -> list[Section]:
    hot, idle = state.has(i, "throttle"), not (state.has(i, "throttle") or state.has(i, "busy"))
    names = {
        "Idle": ("gpu_idle", idle), "Applications Clocks Setting": ("applications_clocks_setting", False),
        "SW Power Cap": ("sw_power_cap", False), "HW Slowdown": ("hw_slowdown", hot),
        "HW Thermal Slowdown": ("hw_thermal_slowdown", hot), "HW Power Brake Slowdown": ("hw_power_brake_slowdown",
        False),
        "Sync Boost": ("sync_boost", False), "SW Thermal Slowdown": ("sw_thermal_slowdown", False),
        "Display Clock Setting": ("display_clocks_setting", False),
    }  # fmt: skip
    return [
        (label, f"clocks_event_reason_{tag}", "Active" if on else "Not Active") for label, (tag, on) in names.items()
    ]


def _counters() -> list[Section]:
    names = {
        "SW Power Capping": "sw_power_cap", "Sync Boost": "sync_boost", "SW Thermal Slowdown": "sw_therm_slowdown",
        "HW Thermal Slowdown": "hw_therm_slowdown", "HW Power Braking": "hw_power_brake",
    }  # fmt: skip
    return [(label, f"clocks_event_reasons_counters_{tag}", "0 us") for label, tag in names.items()]


def _memory(gpu: Gpu, state: State, i: int) -> list[Section]:
    used = gpu.memory_mib * 9 // 10 if state.has(i, "busy") else 0
    rows = (
        ("FB Memory Usage", "fb_memory_usage", gpu.memory_mib, gpu.reserved_mib, used),
        ("BAR1 Memory Usage", "bar1_memory_usage", gpu.bar1_mib, None, 1),
        ("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", 0, None, 0),
    )
    found: list[Section] = []
    for label, tag, total, reserved, taken in rows:
        body: list[Section] = [("Total", "total", f"{total} MiB")]
        if reserved is not None:
            body.append(("Reserved", "reserved", f"{reserved} MiB"))
        body += [("Used", "used", f"{taken} MiB"), ("Free", "free", f"{total - (reserved or 0) - taken} MiB")]
        found.append((label, tag, body))
    return found


def _utilization(state: State, i: int) -> list[Section]:
    load = ("98 %", "41 %") if state.has(i, "busy") else ("0 %", "0 %")
    names = ("GPU", "gpu_util", load[0]), ("Memory", "memory_util", load[1])
    return [*names, *((n, f"{n.lower()}_util", "0 %") for n in ("Encoder", "Decoder", "JPEG", "OFA"))]


def _ecc(state: State, i: int) -> list[Section]:
    bad = "2" if state.has(i, "ecc") else "0"
    counts = (
        ("SRAM Correctable", "sram_correctable", "0"), ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "0"),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "0"), ("DRAM Correctable", "dram_correctable", "0"),
        ("DRAM Uncorrectable", "dram_uncorrectable", bad),
    )  # fmt: skip
    sources = ("L2", "SM", "Microcontroller", "PCIE", "Other")
    return [
        ("Volatile", "volatile", list(counts)),
        ("Aggregate", "aggregate", [*counts, ("SRAM Threshold Exceeded", "sram_threshold_exceeded", "No")]),
        (
            "Aggregate Uncorrectable SRAM Sources",
            "aggregate_uncorrectable_sram_sources",
            [(f"SRAM {name}", f"sram_{name.lower()}", "0") for name in sources],
        ),
        ("Channel Repair Pending", "channel_repair_pending", "No"),
        ("TPC Repair Pending", "tpc_repair_pending", "No"),
        ("Unrepairable Memory", "unrepairable_memory", "No"),
    ]


def _retired() -> list[Section]:
    lists = [("Count", "retired_count", NA), ("List", "retired_pagelist", NA)]
    return [
        ("Single Bit ECC", "multiple_single_bit_retirement", [*lists]),
        ("Double Bit ECC", "double_bit_retirement", [*lists]),
        ("Pending Page Blacklist", "pending_blacklist", NA),
        ("Pending Retirement", "pending_retirement", NA),
    ]


def _remapped(gpu: Gpu, state: State, i: int) -> list[Section]:
    waiting = state.has(i, "remap-pending")
    rows = {"Max": gpu.banks - waiting, "High": int(waiting), "Partial": 0, "Low": 0, "None": 0}
    return [
        ("Correctable Error", "remapped_row_corr", "0"),
        ("Uncorrectable Error", "remapped_row_unc", str(int(waiting))),
        ("Pending", "remapped_row_pending", "Yes" if waiting else "No"),
        ("Remapping Failure Occurred", "remapped_row_failure", "No"),
        ("Bank Remap Availability Histogram", "row_remapper_histogram", [
            (label, f"row_remapper_histogram_{label.lower()}", f"{n} bank(s)") for label, n in rows.items()
        ]),
    ]  # fmt: skip


def _temperature(gpu: Gpu, state: State, i: int) -> list[Section]:
    up = 56 if state.has(i, "hot") or state.has(i, "throttle") else 32 if state.has(i, "busy") else i % 3
    now: Section = ("GPU Current Temp", "gpu_temp", f"{gpu.idle_c + up} C")
    if gpu.margin_c is None:
        limit = gpu.slowdown_c or 93
        return [
            now,
            ("GPU T.Limit Temp", "gpu_temp_tlimit", NA),
            ("GPU Shutdown Temp", "gpu_temp_max_threshold", f"{limit + 5} C"),
            ("GPU Slowdown Temp", "gpu_temp_slow_threshold", f"{limit} C"),
            ("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold", f"{limit - 4} C"),
            ("GPU Target Temperature", "gpu_target_temperature", NA),
            ("Memory Current Temp", "memory_temp", NA),
            ("Memory Max Operating Temp", "gpu_temp_max_mem_threshold", NA),
        ]
    return [
        now,
        ("GPU T.Limit Temp", "gpu_temp_tlimit", f"{gpu.margin_c - up} C"),
        ("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "-8 C"),
        ("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "-2 C"),
        ("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "0 C"),
        ("GPU Target Temperature", "gpu_target_temperature", NA),
        ("Memory Current Temp", "memory_temp", f"{gpu.idle_c + 9 + up // 2} C"),
        ("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "0 C"),
    ]


def _power(gpu: Gpu, state: State, i: int) -> list[Section]:
    drawn = gpu.power_w * 0.93 if state.has(i, "busy") else gpu.idle_w + 0.83 * (i % 4)
    limits = {
        "Current": gpu.power_w, "Requested": gpu.power_w, "Default": gpu.power_w, "Min": gpu.min_power_w,
        "Max": gpu.power_w,
    }  # fmt: skip
    own = [(f"{name} Power Limit", f"{name.lower()}_power_limit", f"{w:.2f} W") for name, w in limits.items()]
    none = [(f"{name} Power Limit", f"{name.lower()}_power_limit", NA) for name in limits]
    draw = ("Average Power Draw", "average_power_draw"), ("Instantaneous Power Draw", "instant_power_draw")
    module = f"{drawn * 1.36:.2f} W" if gpu.coherent else NA
    return [
        ("GPU Power Readings", "gpu_power_readings", [
            (*draw[0], f"{drawn:.2f} W"), (*draw[1], f"{drawn + 0.4:.2f} W"), *own,
        ]),
        ("GPU Memory Power Readings", "gpu_memory_power_readings", [
            (*draw[0], f"{drawn * 0.36:.2f} W"), (*draw[1], NA),
        ]),
        ("Module Power Readings", "module_power_readings", [(*draw[0], module), (*draw[1], module), *none]),
        ("Power Smoothing", "power_smoothing", NA),
        ("Workload Power Profiles", "power_profiles", [
            ("Requested Profiles", "power_profile_requested_profiles", NA),
            ("Enforced Profiles", "power_profile_enforced_profiles", NA),
        ]),
    ]  # fmt: skip


def _clocks(gpu: Gpu, state: State, i: int) -> list[Section]:
    sm = gpu.sm_mhz if state.has(i, "busy") else 1155 if state.has(i, "throttle") else gpu.idle_mhz
    old: list[Section] = [("Graphics", "graphics_clock", _OLD), ("Memory", "mem_clock", _OLD)]
    return [
        ("Clocks", "clocks", _four(sm, gpu.memory_mhz, gpu.video_mhz)),
        ("Applications Clocks", "applications_clocks", [*old]),
        ("Default Applications Clocks", "default_applications_clocks", [*old]),
        ("Deferred Clocks", "deferred_clocks", [("Memory", "mem_clock", NA)]),
        ("Max Clocks", "max_clocks", _four(gpu.sm_mhz, gpu.memory_mhz, gpu.video_mhz)),
        ("Clock Policy", "clock_policy", [("Auto Boost", "auto_boost", NA), ("Auto Boost Default",
        "auto_boost_default", NA)]),
    ]  # fmt: skip


def _four(sm: int, memory: int, video: int) -> list[Section]:
    return [
        ("Graphics", "graphics_clock", f"{sm} MHz"), ("SM", "sm_clock", f"{sm} MHz"),
        ("Memory", "mem_clock", f"{memory} MHz"), ("Video", "video_clock", f"{video} MHz"),
    ]  # fmt: skip


def _fabric(shape: Shape, gpu: Gpu) -> list[Section]:
    joined = bool(gpu.links)
    cluster = "7d3b1c52-9a40-4f6e-8b17-2f0c5ad9e611" if shape.domain else "00000000-0000-0000-0000-000000000000"
    health = [NA] * 6
    if shape.domain or gpu.generation > 5:
        health = ["Healthy", "Full", "False", "False", "False", "None"]
    names = {
        "Summary": "summary", "Bandwidth": "bandwidth", "Route Recovery in progress": "route_recovery_in_progress",
        "Route Unhealthy": "route_unhealthy", "Access Timeout Recovery": "access_timeout_recovery",
        "Incorrect Configuration": "incorrect_configuration",
    }  # fmt: skip
    return [
        ("State", "state", "Completed" if joined else NA),
        ("Status", "status", "Success" if joined else NA),
        ("CliqueId", "cliqueId", ("32766" if shape.domain else "0") if joined else NA),
        ("ClusterUUID", "clusterUuid", cluster if joined else NA),
        ("Health", "health", [(n, t, v if joined else NA) for (n, t), v in zip(names.items(), health, strict=True)]),
    ]
