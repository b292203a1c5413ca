"""The tree of one GPU in `nvidia-smi -q` -> NvidiaGpu."""

from __future__ import annotations

from typing import Any

from assay.facts.nvidia import EccCounts, Fabric, GpuProcess, MigDevice, NvidiaGpu, RemappedRows
from assay.facts.nvidia_smi_tree import Tree, at, flag, many, number, own, said, whole
from assay.facts.pci_address import smi_name, sysfs_name


def gpu_of(tree: Tree) -> NvidiaGpu:
    """One GPU from its part of the tree."""
    bus_id = tree.get("id") or own(at(tree, "pci", "bus_id")) or ""
    values: dict[str, Any] = {"pci": sysfs_name(bus_id), "bus_id": smi_name(bus_id)}
    for part in (_identity, _modes, _memory_health, _clocks, _power, _temperatures, _load, _pcie):
        values.update(part(tree))
    words = _error_words(tree, "")
    return NvidiaGpu(
        **values,
        lost=any(word == "gpu is lost" for _, word in words),
        needs_reset=any(word == "gpu requires reset" for _, word in words),
        unreadable=tuple(name for name, word in words if word == "unknown error"),
    )


def _error_words(tree: Tree, where: str) -> list[tuple[str, str]]:
    """Fields that hold an error in place of a value, with the error in lower case."""
    found: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += _error_words(value, f"{where}{name}.")
        elif isinstance(value, str) and (word := value.strip("[]").lower()) in _ERROR_WORDS:
            found.append((where + name, word))
    return found


_ERROR_WORDS = frozenset({"gpu is lost", "gpu requires reset", "unknown error"})


def _identity(gpu: Tree) -> dict[str, Any]:
    module = whole(gpu, "module_id")
    return {
        "name": said(gpu, "product_name"),
        "brand": said(gpu, "product_brand"),
        "architecture": said(gpu, "product_architecture"),
        "uuid": said(gpu, "gpu_uuid"),
        "pdi": said(gpu, "gpu_pdi"),
        "serial": said(gpu, "serial_number"),
        "minor": whole(gpu, "minor_number"),
        "module_id": whole(gpu, "platform_info", "module_id") if module is None else module,
        "vbios": said(gpu, "vbios_version"),
        "board_part": said(gpu, "board_part_number"),
        "part_number": said(gpu, "gpu_part_number"),
        "gsp_firmware": said(gpu, "gsp_firmware_version"),
        "license_product": said(gpu, "vgpu_software_licensed_product", "product_name"),
        "license_status": said(gpu, "vgpu_software_licensed_product", "license_status"),
    }


def _modes(gpu: Tree) -> dict[str, Any]:
    return {
        "persistence": flag(gpu, "persistence_mode"),
        "addressing_mode": said(gpu, "addressing_mode"),
        "compute_mode": said(gpu, "compute_mode"),
        "virtualization": said(gpu, "gpu_virtualization_mode", "virtualization_mode"),
        "host_vgpu_mode": said(gpu, "gpu_virtualization_mode", "host_vgpu_mode"),
        "c2c": said(gpu, "gpu_c2c_mode"),
        "mig": flag(gpu, "mig_mode", "current"),
        "mig_pending": flag(gpu, "mig_mode", "pending"),
        "mig_devices": tuple(_mig_device(mig) for mig in many(gpu.get("mig_device"))),
        "recovery_action": said(gpu, "gpu_recovery_action"),
        "reset_required": flag(gpu, "gpu_reset_status", "reset_required"),
        "drain_and_reset": flag(gpu, "gpu_reset_status", "drain_and_reset_recommended"),
    }


def _mig_device(mig: Tree) -> MigDevice:
    return MigDevice(
        index=whole(mig, "index"),
        gpu_instance=whole(mig, "gpu_instance_id"),
        compute_instance=whole(mig, "compute_instance_id"),
        sm_count=whole(mig, "device_attributes", "shared", "multiprocessor_count"),
        memory_total_mib=number(at(mig, "fb_memory_usage", "total")),
        memory_used_mib=number(at(mig, "fb_memory_usage", "used")),
        sram_uncorrectable=whole(mig, "ecc_errors", "volatile", "sram_uncorrectable"),
    )


def _memory_health(gpu: Tree) -> dict[str, Any]:
    errors = at(gpu, "ecc_errors")
    exceeded = flag(errors, "aggregate", "sram_threshold_exceeded")
    return {
        "ecc": flag(gpu, "ecc_mode", "current"),
        "ecc_pending": flag(gpu, "ecc_mode", "pending"),
        "ecc_volatile": _ecc(at(errors, "volatile")),
        "ecc_aggregate": _ecc(at(errors, "aggregate")),
        "sram_threshold_exceeded": exceeded,
        "channel_repair_pending": flag(errors, "channel_repair_pending"),
        "tpc_repair_pending": flag(errors, "tpc_repair_pending"),
        "unrepairable_memory": flag(errors, "unrepairable_memory"),
        "remapped": _remapped(at(gpu, "remapped_rows")),
        "retired_single": whole(gpu, "retired_pages", "single_bit_ecc"),
        "retired_double": whole(gpu, "retired_pages", "double_bit_ecc"),
        "retired_pending": _pending_retirement(at(gpu, "retired_pages")),
    }


def _pending_retirement(pages: Any) -> bool | None:
    """XML says it twice (pending_blacklist, pending_retirement): either counts."""
    known = [f for f in (flag(pages, "pending_page_blacklist"), flag(pages, "pending_retirement")) if f is not None]
    return any(known) if known else None


def _ecc(period: Any) -> EccCounts | None:
    if not isinstance(period, dict):
        return None
    parts = (
        whole(period, name)
        for name in ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_sec_ded")
    )
    uncorrectable = [part for part in parts if part is not None]
    counts = EccCounts(
        sram_correctable=whole(period, "sram_correctable"),
        sram_uncorrectable=sum(uncorrectable) if uncorrectable else None,
        dram_correctable=whole(period, "dram_correctable"),
        dram_uncorrectable=whole(period, "dram_uncorrectable"),
        single_bit=whole(period, "single_bit", "total"),
        double_bit=whole(period, "double_bit", "total"),
    )
    return None if counts == EccCounts() else counts


def _remapped(rows: Any) -> RemappedRows | None:
    if not isinstance(rows, dict):
        return None
    histogram = at(rows, "bank_remap_availability_histogram")
    banks = {name: whole(histogram, name) for name in ("max", "high", "partial", "low", "none")}
    found = RemappedRows(
        correctable=whole(rows, "correctable_error"),
        uncorrectable=whole(rows, "uncorrectable_error"),
        pending=flag(rows, "pending"),
        failure=flag(rows, "remapping_failure_occurred"),
        banks={name: count for name, count in banks.items() if count is not None},
    )
    return None if found == RemappedRows() else found


def _clocks(gpu: Tree) -> dict[str, Any]:
    application, default = at(gpu, "applications_clocks"), at(gpu, "default_applications_clocks")
    values: dict[str, Any] = {
        "pstate": said(gpu, "performance_state"),
        "event_reasons": _active(at(gpu, "clocks_event_reasons")),
        "event_us": _counters(at(gpu, "clocks_event_reasons_counters")),
        "app_graphics_mhz": number(at(application, "graphics")),
        "app_memory_mhz": number(at(application, "memory")),
        "app_default_graphics_mhz": number(at(default, "graphics")),
        "app_default_memory_mhz": number(at(default, "memory")),
    }
    for name in ("sm", "graphics", "memory"):
        values[f"{name}_mhz"] = number(at(gpu, "clocks", name))
        values[f"{name}_max_mhz"] = number(at(gpu, "max_clocks", name))
    return values


def _active(reasons: Any) -> tuple[str, ...] | None:
    """Names of the active reasons, nested ones too; None where the tool prints none or says N/A to all."""
    if not isinstance(reasons, dict):
        return None
    flat: dict[str, bool | None] = {}
    for name, value in reasons.items():
        flat[name] = flag(reasons, name)
        if isinstance(value, dict):
            flat.update({inner: flag(value, inner) for inner in value if inner})
    return tuple(name for name, on in flat.items() if on) if any(on is not None for on in flat.values()) else None


def _counters(tree: Any) -> dict[str, int]:
    known = {name: whole(tree, name) for name in tree} if isinstance(tree, dict) else {}
    return {name: value for name, value in known.items() if value is not None}


def _power(gpu: Tree) -> dict[str, Any]:
    power = at(gpu, "gpu_power_readings")
    limits = (
        power | at(power, "gpu_ceiling_power_limit")
        if isinstance(at(power, "gpu_ceiling_power_limit"), dict)
        else power
    )
    module = at(gpu, "module_power_readings")
    return {
        "power_w": number(at(power, "power_draw")),
        "power_average_w": number(at(power, "average_power_draw")),
        "power_instant_w": number(at(power, "instantaneous_power_draw")),
        "power_limit_w": _first(limits, "current_power_limit", "enforced_power_limit", "power_limit"),
        "power_requested_w": number(at(limits, "requested_power_limit")),
        "power_default_w": number(at(limits, "default_power_limit")),
        "power_min_w": number(at(limits, "min_power_limit")),
        "power_max_w": number(at(limits, "max_power_limit")),
        "module_power_w": _first(module, "instantaneous_power_draw", "power_draw", "average_power_draw"),
    }


def _first(tree: Any, *names: str) -> float | None:
    """The first of several fields that has a number."""
    return next((value for name in names if (value := number(at(tree, name))) is not None), None)


def _temperatures(gpu: Tree) -> dict[str, Any]:
    temperature = at(gpu, "temperature")
    values: dict[str, Any] = {
        "temp_c": number(at(temperature, "gpu_current_temp")),
        "margin_c": number(at(temperature, "gpu_t_limit_temp")),
        "memory_temp_c": number(at(temperature, "memory_current_temp")),
        "memory_max_c": number(at(temperature, "memory_max_operating_temp")),
        "memory_max_margin_c": number(at(temperature, "memory_max_operating_t_limit_temp")),
        "fan_pct": number(at(gpu, "fan_speed")),
    }
    for name in ("shutdown", "slowdown", "max_operating"):
        values[f"{name}_c"] = number(at(temperature, f"gpu_{name}_temp"))
        values[f"{name}_margin_c"] = number(at(temperature, f"gpu_{name}_t_limit_temp"))
    return values


def _load(gpu: Tree) -> dict[str, Any]:
    memory = at(gpu, "fb_memory_usage")
    return {
        "util_gpu_pct": number(at(gpu, "utilization", "gpu")),
        "util_memory_pct": number(at(gpu, "utilization", "memory")),
        "memory_total_mib": number(at(memory, "total")),
        "memory_reserved_mib": number(at(memory, "reserved")),
        "memory_used_mib": number(at(memory, "used")),
        "memory_free_mib": number(at(memory, "free")),
        "cc_protected_mib": number(at(gpu, "conf_compute_protected_memory_usage", "total")),
        "fabric": _fabric(at(gpu, "fabric")),
        "processes": _processes(gpu.get("processes")),
    }


def _fabric(fabric: Any) -> Fabric | None:
    if not isinstance(fabric, dict):
        return None
    health = at(fabric, "health")
    return Fabric(
        state=own(at(fabric, "state")),
        status=own(at(fabric, "status")),
        clique_id=whole(fabric, "cliqueid"),
        cluster_uuid=said(fabric, "clusteruuid"),
        health=own(at(health, "summary")),
        bandwidth=own(at(health, "bandwidth")),
        route_recovery=own(at(health, "route_recovery_in_progress")),
        route_unhealthy=own(at(health, "route_unhealthy")),
        access_timeout=own(at(health, "access_timeout_recovery")),
        incorrect_configuration=own(at(health, "incorrect_configuration")),
    )


def _processes(node: Any) -> tuple[GpuProcess, ...] | None:
    """Processes in XML (one element each) or text (the pid is a heading, its MIG instance stands before it)."""
    if node in ("None", "", []):
        return ()
    if not isinstance(node, dict):
        return None
    if "process_info" in node:
        return tuple(
            _process(p, own(at(p, "process_id")), at(p, "gpu_instance_id")) for p in many(node["process_info"])
        )
    instances = many(node.get("gpu_instance_id"))
    heads = many(node.get("process_id"))
    return tuple(_process(p, own(p), instances[i] if i < len(instances) else None) for i, p in enumerate(heads))


def _process(tree: Any, pid: str | None, instance: Any) -> GpuProcess:
    return GpuProcess(
        pid=int(pid) if pid and pid.isdecimal() else None,
        name=said(tree, "name"),
        kind=said(tree, "type"),
        memory_mib=number(at(tree, "used_gpu_memory")),
        gpu_instance=whole({"id": instance}, "id"),
    )


def _pcie(gpu: Tree) -> dict[str, Any]:
    pci = at(gpu, "pci")
    generation, width = at(pci, "gpu_link_info", "pcie_generation"), at(pci, "gpu_link_info", "link_width")
    return {
        "pcie_gen": whole(generation, "current"),
        "pcie_gen_max": whole(generation, "max"),
        "pcie_gen_device_max": whole(generation, "device_max"),
        "pcie_gen_host_max": whole(generation, "host_max"),
        "pcie_width": whole(width, "current"),
        "pcie_width_max": whole(width, "max"),
        "pcie_replays": whole(pci, "replays_since_reset"),
        "pcie_rollovers": whole(pci, "replay_number_rollovers"),
    }
