"""The Prometheus text format as GPU and node exporters print it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

# DCGM's blanks: not found, not supported, no permission... in the top of the 64-bit and of the 32-bit range.
_BLANK_64 = 9223372036854775792.0
_BLANK_32 = range(2147483632, 2147483637)
_BLANK_FP = 140737488355328.0
_LABEL = re.compile(r'([a-zA-Z_][\w.:]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*')
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
# 1.x names of dcgm-exporter.
OLD_NAMES = {
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_memory_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_memory_temp": "DCGM_FI_DEV_MEMORY_TEMP",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_total_energy_consumption": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "dcgm_pcie_tx_throughput": "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
    "dcgm_pcie_rx_throughput": "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    "dcgm_pcie_replay_counter": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_mem_copy_utilization": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "dcgm_enc_utilization": "DCGM_FI_DEV_ENC_UTIL",
    "dcgm_dec_utilization": "DCGM_FI_DEV_DEC_UTIL",
    "dcgm_xid_errors": "DCGM_FI_DEV_XID_ERRORS",
    "dcgm_power_violation": "DCGM_FI_DEV_POWER_VIOLATION",
    "dcgm_thermal_violation": "DCGM_FI_DEV_THERMAL_VIOLATION",
    "dcgm_fb_free": "DCGM_FI_DEV_FB_FREE",
    "dcgm_fb_used": "DCGM_FI_DEV_FB_USED",
    "dcgm_ecc_sbe_volatile_total": "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "dcgm_ecc_dbe_volatile_total": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "dcgm_ecc_sbe_aggregate_total": "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "dcgm_ecc_dbe_aggregate_total": "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    "dcgm_retired_pages_sbe": "DCGM_FI_DEV_RETIRED_SBE",
    "dcgm_retired_pages_dbe": "DCGM_FI_DEV_RETIRED_DBE",
    "dcgm_retired_pages_pending": "DCGM_FI_DEV_RETIRED_PENDING",
    "dcgm_nvlink_bandwidth_total": "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "dcgm_nvlink_flit_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_data_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_replay_error_count_total": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_recovery_error_count_total": "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
}


class Sample(Struct, frozen=True, kw_only=True):
    """One series. `name` = today's name, `printed` = the one in the text; `value` None = the exporter's blank."""

    name: str
    printed: str
    labels: dict[str, str] = field(default_factory=dict)
    value: float | None = None
    at_ms: int | None = None

    @property
    def attributed(self) -> bool:
        """True when it names the pod that uses the GPU; empty labels do not."""
        return bool(self.labels.get("pod") or self.labels.get("exported_pod"))


class Exposition(Struct, frozen=True, kw_only=True):
    """Samples in order, type and help by printed name, and the lines that are not of this format."""

    samples: tuple[Sample, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    help: dict[str, str] = field(default_factory=dict)
    bad_lines: int = 0

    def named(self, name: str) -> tuple[Sample, ...]:
        """All series of one metric, by today's name."""
        return tuple(s for s in self.samples if s.name == name)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that any series names: UUID, or index where there is none. MIG slices of a GPU count once."""
        seen = {s.labels.get("UUID") or s.labels.get("gpu", "") for s in self.samples}
        return tuple(sorted(seen - {""}))


def exposition(text: str) -> Exposition:
    """Prometheus text. Blanks of DCGM become None: they are not measurements."""
    samples: list[Sample] = []
    types: dict[str, str] = {}
    helps: dict[str, str] = {}
    bad = 0
    for line in text.splitlines():
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) > 3 and words[1] in {"TYPE", "HELP"}:
                (types if words[1] == "TYPE" else helps)[words[2]] = words[3]
        elif line.strip():
            sample = _sample(line.strip())
            samples += [sample] if sample else []
            bad += sample is None
    if not samples and not types:
        raise ValueError("no metric in it")
    return Exposition(samples=tuple(samples), types=types, help=helps, bad_lines=bad)


def _sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if not name:
        return None
    labels: dict[str, str] = {}
    at = name.end()
    if line[at : at + 1] == "{":
        at += 1 + (line[at + 1 : at + 2] == " ")
        while line[at : at + 1] not in {"}", ""}:
            label = _LABEL.match(line, at)
            if not label:
                return None
            labels[label[1]] = _ESCAPE.sub(lambda m: _ESCAPES[m[0]], label[2])
            at = label.end()
        at += 1
    words = line[at:].split("#", 1)[0].split()
    return _with_value(name[0], labels, words)


def _with_value(printed: str, labels: dict[str, str], words: list[str]) -> Sample | None:
    if not 1 <= len(words) <= 2:
        return None
    try:
        value = float(words[0])
        at = int(float(words[1])) if len(words) > 1 else None
    except (ValueError, OverflowError):
        return None
    name = OLD_NAMES.get(printed, printed)
    return Sample(name=name, printed=printed, labels=labels, value=None if _blank(name, value) else value, at_ms=at)


def _blank(name: str, value: float) -> bool:
    """Only DCGM uses the top of the integer ranges for "no value"; elsewhere such a number is a number."""
    if not name.startswith(("DCGM_", "dcgm_")):
        return False
    return value >= _BLANK_64 or value in _BLANK_32 or value == _BLANK_FP


FORMATS: dict[str, Callable[[str], Any]] = {"prometheus metrics": exposition}
