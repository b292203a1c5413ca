"""AMD GPUs as amd-smi tells of them (`list`, `static`, `metric`, `xgmi`), one fact per node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from assay.facts.amd_smi_formats import (
    bad_pages,
    blocks,
    csv_rows,
    failure,
    firmware,
    monitor,
    number,
    overview,
    partitions,
    processes,
    topology,
    unit,
    version,
    whole,
    word,
    xgmi,
)
from assay.facts.source import source
from assay.model import Exec, Fact, Missing, Probe, RawFact

_MIB = {"B": 1 / (1 << 20), "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0, "MIB": 1.0, "GIB": 1024.0}
_SECTIONS = frozenset({"asic", "bus", "vram", "usage", "power", "temperature", "ecc", "bdf"})
_CLOCK = re.compile(r"gfx_\d+")


class RasCount(Struct, frozen=True):
    """Error counts since the driver was loaded. `deferred` = found in memory, not consumed."""

    correctable: int | None = None
    uncorrectable: int | None = None
    deferred: int | None = None


class AmdGpu(Struct, frozen=True, kw_only=True):
    """One device in amd-smi's list: a GPU, or a partition of one (same `bdf`, other `partition`)."""

    index: int | None = None
    partition: int | None = None
    bdf: str = ""
    uuid: str = ""
    serial: str = ""
    product: str = ""
    device_id: str = ""
    gfx: str = ""
    vbios: str = ""
    oam: int | None = None
    compute_units: int | None = None
    numa: int | None = None
    compute_partition: str = ""
    memory_partition: str = ""
    vram_type: str = ""
    vram_total_mib: float | None = None
    vram_used_mib: float | None = None
    gfx_util_pct: float | None = None
    mem_util_pct: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    edge_c: float | None = None
    hotspot_c: float | None = None
    memory_c: float | None = None
    slowdown_hotspot_c: float | None = None
    slowdown_memory_c: float | None = None
    gfx_mhz: tuple[float, ...] = ()
    gfx_max_mhz: float | None = None
    mem_mhz: float | None = None
    throttled: bool | None = None
    violations: tuple[str, ...] = ()
    ras: RasCount | None = None
    ras_blocks: dict[str, RasCount] = msgspec.field(default_factory=dict)
    bad_page_threshold: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_gts: float | None = None
    pcie_gts_max: float | None = None
    pcie_replays: int | None = None
    xgmi: tuple[str, ...] = ()


class AmdGpus(Fact, frozen=True):
    """All AMD GPUs of a node. `driver_version` is amdgpu's own number, "" for the one in the kernel.

    `hung` = the commands of amd-smi that did not answer in time.
    """

    tool_version: str = ""
    rocm_version: str = ""
    driver_version: str = ""
    gpus: tuple[AmdGpu, ...] = ()
    hung: tuple[str, ...] = ()


def gpus_of(static: str, metric: str = "", listed: str = "", links: str = "") -> tuple[AmdGpu, ...]:
    """Join the answers of the commands by GPU number; an empty answer adds nothing."""
    parts = [_by_gpu(text) for text in (static, metric, listed)]
    status = _links(links)
    order = dict.fromkeys(index for part in parts for index in part)
    return tuple(gpu(i, *(part.get(i, {}) for part in (*parts, status))) for i in order)


def _links(text: str) -> dict[int, dict[str, Any]]:
    """Link states by GPU; none from a version whose `xgmi` cannot tell them."""
    try:
        return xgmi(text) if text.strip() else {}
    except ValueError:
        return {}


def _by_gpu(text: str) -> dict[int, dict[str, Any]]:
    if not text.strip():
        return {}
    found = blocks(text)
    if numbered := {b["gpu"]: b for b in found if isinstance(b.get("gpu"), int)}:
        return numbered
    if not any(_SECTIONS & b.keys() for b in found):
        raise ValueError("no section of amd-smi in the text")
    return dict(enumerate(found))


def gpu(
    index: int, static: dict[str, Any], metric: dict[str, Any], listed: dict[str, Any], links: dict[str, Any]
) -> AmdGpu:
    """One GPU from its blocks; sections that were not asked for stay unsaid."""
    values: dict[str, Any] = {"index": index, "xgmi": links.get("status", ())}
    values |= _identity(static, listed) | _limits(static) | _memory(static, metric) | _load(metric) | _faults(metric)
    return msgspec.convert(values, AmdGpu)


def _section(block: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((block[n] for n in names if isinstance(block.get(n), dict)), {})


def _identity(static: dict[str, Any], listed: dict[str, Any]) -> dict[str, Any]:
    asic, board, bus = _section(static, "asic"), _section(static, "board"), _section(static, "bus")
    image, part = _section(static, "vbios", "ifwi"), _section(static, "partition")
    return {
        "bdf": (word(bus.get("bdf")) or word(listed.get("bdf"))).lower(),
        "uuid": word(listed.get("uuid")) or word(asic.get("uuid")),
        "serial": word(asic.get("asic_serial")) or word(board.get("product_serial")),
        "product": word(asic.get("market_name")) or word(board.get("product_name")),
        "device_id": word(asic.get("device_id")).lower(),
        "gfx": word(asic.get("target_graphics_version")),
        "vbios": word(image.get("part_number")) or word(image.get("version")) or word(image.get("name")),
        "oam": whole(asic.get("oam_id")),
        "compute_units": whole(asic.get("num_compute_units")),
        "numa": whole(_section(static, "numa").get("node")),
        "partition": whole(part.get("partition_id", listed.get("partition_id"))),
        "compute_partition": word(part.get("accelerator_partition")) or word(part.get("compute_partition")),
        "memory_partition": word(part.get("memory_partition")),
    }


def _limits(static: dict[str, Any]) -> dict[str, Any]:
    limit, bus = _section(static, "limit"), _section(static, "bus")
    cap = _section(limit, "ppt0")
    powers = (cap.get("socket_power_limit"), limit.get("socket_power"), limit.get("max_power"))
    return {
        "power_cap_w": next((n for n in map(number, powers) if n), None),
        "slowdown_hotspot_c": number(limit.get("slowdown_hotspot_temperature")),
        "slowdown_memory_c": number(limit.get("slowdown_vram_temperature")),
        "pcie_width_max": whole(bus.get("max_pcie_width")),
        "pcie_gts_max": number(bus.get("max_pcie_speed")),
        "bad_page_threshold": whole(_section(static, "ras").get("bad_page_threshold")),
    }


def _memory(static: dict[str, Any], metric: dict[str, Any]) -> dict[str, Any]:
    vram, usage = _section(static, "vram"), _section(metric, "mem_usage")
    return {
        "vram_type": word(vram.get("type")),
        "vram_total_mib": _mib(usage.get("total_vram")) or _mib(vram.get("size")),
        "vram_used_mib": _mib(usage.get("used_vram")),
    }


def _mib(value: Any) -> float | None:
    """amd-smi says MB and counts 2**20 bytes."""
    n = number(value)
    return None if n is None else n * _MIB.get(unit(value).upper() or "MB", 1.0)


def _load(metric: dict[str, Any]) -> dict[str, Any]:
    usage, power, temperature = (_section(metric, n) for n in ("usage", "power", "temperature"))
    pcie, clock = _section(metric, "pcie"), _section(metric, "clock")
    cores = [_section(clock, name) for name in clock if _CLOCK.fullmatch(name)]
    clocks = tuple(n for n in (number(core.get("clk")) for core in cores) if n is not None)
    return {
        "gfx_util_pct": number(usage.get("gfx_activity")),
        "mem_util_pct": number(usage.get("umc_activity")),
        "power_w": number(power.get("socket_power", power.get("average_socket_power"))),
        "edge_c": number(temperature.get("edge")),
        "hotspot_c": number(temperature.get("hotspot")),
        "memory_c": number(temperature.get("mem")),
        "gfx_mhz": clocks,
        "gfx_max_mhz": next((n for n in (number(core.get("max_clk")) for core in cores) if n), None),
        "mem_mhz": number(_section(clock, "mem_0").get("clk")),
        "pcie_width": whole(pcie.get("width")),
        "pcie_gts": number(pcie.get("speed")),
        "pcie_replays": whole(pcie.get("replay_count")),
    }


def _faults(metric: dict[str, Any]) -> dict[str, Any]:
    total = _section(metric, "ecc")
    state = word(_section(metric, "power").get("throttle_status")).upper()
    throttle = _section(metric, "throttle")
    ends = "_violation_status"
    told = {k.removesuffix(ends): str(v).upper() for k, v in throttle.items() if k.endswith(ends)}
    quiet = False if "NOT ACTIVE" in told.values() and "ACTIVE" not in told.values() else None
    return {
        "throttled": {"THROTTLED": True, "UNTHROTTLED": False}.get(state, quiet),
        "violations": tuple(k for k, v in told.items() if v == "ACTIVE"),
        "ras": _ras(total, "total_") if total else None,
        "ras_blocks": {k.lower(): _ras(v) for k, v in _section(metric, "ecc_blocks").items() if isinstance(v, dict)},
    }


def _ras(block: dict[str, Any], prefix: str = "") -> RasCount:
    names = ("correctable", "uncorrectable", "deferred")
    return RasCount(*(whole(block.get(f"{prefix}{name}_count")) for name in names))


def _answer(raw: RawFact, key: str) -> str:
    """What a command printed when it printed an answer; "" when it failed."""
    read = raw.read(key)
    return read.out if read.state == "ok" and not failure(read.out) else ""


@source(
    Probe(
        "amd.smi",
        (
            Exec("static", ("amd-smi", "static", "--json")),
            Exec("metric", ("amd-smi", "metric", "--json")),
            Exec("list", ("amd-smi", "list", "--json")),
            Exec("xgmi", ("amd-smi", "xgmi", "-l", "--json")),
            Exec("version", ("amd-smi", "version")),
        ),
    )
)
def amd_smi(raw: RawFact) -> AmdGpus | Missing:
    """Every GPU that amd-smi lists, joined over its commands."""
    said = version(raw.out("version"))
    static, metric, listed = (_answer(raw, key) for key in ("static", "metric", "list"))
    links = _answer(raw, "xgmi")
    if not (static.strip() or metric.strip() or listed.strip()):
        if any(read.state == "timed-out" for read in raw.reads):
            return Missing("timed-out", "amd-smi did not answer in time")
        words = (failure(read.out) or failure(read.err) or read.err.strip() for read in raw.reads)
        return Missing("failed", f"amd-smi: {next(filter(None, words), 'no answer')}"[:300])
    driver = next((_driver(block) for block in blocks(static)), "") if static.strip() else ""
    return AmdGpus(
        tool_version=said.get("tool", ""),
        rocm_version=said.get("rocm", ""),
        driver_version=driver or said.get("driver", ""),
        gpus=gpus_of(static, metric, listed, links),
        hung=tuple(read.key for read in raw.reads if read.state == "timed-out"),
    )


def _driver(block: dict[str, Any]) -> str:
    """The number of amdgpu itself; the driver of the kernel reports the kernel's version in its place."""
    driver = _section(block, "driver")
    version = word(driver.get("version")) or word(driver.get("driver_version"))
    return "" if version.startswith("Linux") else version


def _static(text: str) -> AmdGpus:
    return AmdGpus(gpus=gpus_of(text), driver_version=next((_driver(block) for block in blocks(text)), ""))


FORMATS: dict[str, Callable[[str], Any]] = {
    "amd-smi": overview,
    "amd-smi static": _static,
    "amd-smi metric": lambda text: AmdGpus(gpus=gpus_of("", text)),
    "amd-smi list": lambda text: AmdGpus(gpus=gpus_of("", "", text)),
    "amd-smi monitor": monitor,
    "amd-smi firmware": firmware,
    "amd-smi process": processes,
    "amd-smi bad-pages": bad_pages,
    "amd-smi partition": partitions,
    "amd-smi --csv": csv_rows,
    "amd-smi topology": topology,
    "amd-smi xgmi": xgmi,
    "amd-smi version": version,
}
