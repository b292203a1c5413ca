"""AMD accelerators: amd-smi, rocm-smi, rocminfo, the amdgpu driver and its device files."""

from __future__ import annotations

import json
from typing import Any

from assay.lab.hardware.layout import Device, number, of
from assay.lab.hardware.shapes import Gpu, Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts
from assay.lab.virtual import Output

_BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "PCIE_BIF", "HDP", "XGMI_WAFL", "MPIO")
_REASONS = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal", "gfx_clk_below_host_limit_thermal")
Values = dict[str, Any]


def _unit(value: float, unit: str) -> Values:
    return {"value": value, "unit": unit}


class AmdSmi:
    """amd-smi of one machine at one moment (ROCm 7)."""

    def __init__(self, host: str, shape: Shape, state: State, found: tuple[Device, ...]) -> None:
        if shape.gpu is None:
            raise ValueError(f"{shape.name} has no GPU")
        self.host, self.state, self.gpus = host, state, of("gpu", found)
        self.gpu: Gpu = shape.gpu

    def answer(self, arguments: tuple[str, ...]) -> Output:
        """The output of `amd-smi` with these arguments."""
        ways = {
            ("static", "--json"): self.static, ("metric", "--json"): self.metric, ("list", "--json"): self.listed,
            ("xgmi", "-l", "--json"): self.xgmi,
        }  # fmt: skip
        if arguments == ("version",):
            tool = f"AMDSMI Tool: 26.4.0 | AMDSMI Library version: 26.4.0 | ROCm version: {self.state.rocm}"
            return Output(f"{tool} | amdgpu version: {self.state.amdgpu} | hsmp version: N/A\n")
        if arguments not in ways:
            raise LookupError(f"amd-smi {' '.join(arguments)}")
        return Output(json.dumps(ways[arguments](), indent=1) + "\n")

    def serial(self, i: int) -> str:
        """The serial number that the chip carries, hexadecimal."""
        return number(self.host, "asic", i)[:16].upper()

    def static(self) -> Values:
        """`amd-smi static --json`."""
        return {"gpu_data": [self._static(d) for d in self.gpus]}

    def _static(self, d: Device) -> Values:
        g, na = self.gpu, "N/A"
        limits = {
            "max_power_limit": _unit(g.power_w, "W"),
            "socket_power_limit": _unit(g.power_w, "W"),
            "min_power_limit": _unit(0, "W"),
        }
        return {
            "gpu": d.index,
            "asic": {
                "market_name": g.name, "vendor_id": "0x1002", "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
                "device_id": f"0x{g.device}", "rev_id": "0x00", "asic_serial": f"0x{self.serial(d.index)}",
                "oam_id": d.index, "num_compute_units": g.units, "target_graphics_version": g.gfx,
            },
            "bus": {
                "bdf": d.address, "max_pcie_width": g.lanes, "max_pcie_speed": _unit(32, "GT/s"),
                "pcie_interface_version": "Gen 5", "slot_type": "OAM",
            },
            "ifwi": {"name": "AMD MI355X", "build_date": "2026/05/12 09:00", "part_number": g.vbios,
            "version": "00148341"},
            "limit": {
                "ppt0": limits, "ppt1": na, "slowdown_edge_temperature": na,
                "slowdown_hotspot_temperature": _unit(g.slowdown_c or 100, "C"),
                "slowdown_vram_temperature": _unit(105, "C"), "shutdown_edge_temperature": na,
                "shutdown_hotspot_temperature": _unit(115, "C"), "shutdown_vram_temperature": _unit(115, "C"),
            },
            "driver": {"name": "amdgpu", "version": self.state.amdgpu},
            "board": {
                "model_number": "102-G36221-00", "product_serial": f"69242{number(self.host, 'board', d.index)[:7]}",
                "fru_id": "113-AMDG362210100-003", "product_name": f"{g.name} OAM", "manufacturer_name": "AMD",
            },
            "ras": {
                "eeprom_version": "0x30000", "bad_page_threshold": 128, "ecc_block_state": dict.fromkeys(_BLOCKS,
                "ENABLED"),
            },
            "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS1", "partition_id": 0},
            "numa": {"node": d.numa, "affinity": d.numa},
            "vram": {"type": "HBM3E", "vendor": na, "size": _unit(g.memory_mib, "MB"), "bit_width": 8192,
            "max_bandwidth": na},
        }  # fmt: skip

    def metric(self) -> Values:
        """`amd-smi metric --json`."""
        return {"gpu_data": [self._metric(d) for d in self.gpus]}

    def _metric(self, d: Device) -> Values:
        g, i, na = self.gpu, d.index, "N/A"
        busy = self.state.has(i, "busy")
        heat = g.idle_c + (30 if busy else i % 3) + (32 if self.state.has(i, "hot") else 0)
        lost = 1 if self.state.has(i, "ecc") else 0
        clean = {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}
        core = {
            "clk": _unit(g.sm_mhz if busy else g.idle_mhz, "MHz"),
            "min_clk": _unit(500, "MHz"),
            "max_clk": _unit(g.sm_mhz, "MHz"),
        }
        held = "ACTIVE" if self.state.has(i, "throttle") else "NOT ACTIVE"
        reasons = {f"{r}_violation_status": held if r == "socket_thermal" else "NOT ACTIVE" for r in _REASONS}
        used = g.memory_mib * 9 // 10 if busy else 284
        return {
            "gpu": i,
            "usage": {"gfx_activity": _unit(97 if busy else 0, "%"), "umc_activity": _unit(40 if busy else 0, "%"),
            "mm_activity": na},
            "power": {
                "socket_power": _unit(round(g.power_w * 0.9 if busy else g.idle_w + i % 4), "W"), "gfx_voltage": na,
                "soc_voltage": na, "mem_voltage": na, "throttle_status": na, "power_management": "ENABLED",
            },
            "clock": {**{f"gfx_{n}": core for n in range(8)}, "mem_0": {"clk": _unit(g.memory_mhz, "MHz")}},
            "temperature": {"edge": na, "hotspot": _unit(heat, "C"), "mem": _unit(heat - 8, "C")},
            "pcie": {
                "width": g.lanes, "speed": _unit(32, "GT/s"), "bandwidth": _unit(0, "Mb/s"), "replay_count": 0,
                "l0_to_recovery_count": 3, "replay_roll_over_count": 0, "nak_sent_count": 0, "nak_received_count": 0,
            },
            "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": lost, "total_deferred_count": 0},
            "ecc_blocks": {name: clean | ({"uncorrectable_count": lost} if name == "UMC" else {}) for name in _BLOCKS},
            "mem_usage": {
                "total_vram": _unit(g.memory_mib, "MB"), "used_vram": _unit(used, "MB"),
                "free_vram": _unit(g.memory_mib - used, "MB"),
            },
            "throttle": {"accumulation_counter": 812733, **reasons},
        }  # fmt: skip

    def listed(self) -> Values:
        """`amd-smi list --json`."""
        rows = [
            {
                "gpu": d.index,
                "bdf": d.address,
                "uuid": self._uuid(d.index),
                "kfd_id": 20000 + d.index,
                "node_id": d.index + 2,
                "partition_id": 0,
            }
            for d in self.gpus
        ]
        return {"gpu_data": rows}

    def _uuid(self, i: int) -> str:
        text = self.serial(i).lower()
        return f"{text[:2]}ff{self.gpu.device}-0000-1000-80{text[2:4]}-{text[4:16]}"

    def xgmi(self) -> Values:
        """`amd-smi xgmi -l --json`."""
        states = [["X" if d.index == other.index else "U" for other in self.gpus] for d in self.gpus]
        rows = [{"gpu": d.index, "bdf": d.address, "link_status": states[n]} for n, d in enumerate(self.gpus)]
        return {"link_status": rows}

    def rocminfo(self, cpu: str, sockets: int, cores: int) -> str:
        """`rocminfo`, the lines that matter."""
        bar, text = "*" * 7, f"ROCk module version {self.state.amdgpu} is loaded\n"
        text += "=====================\nHSA System Attributes\n=====================\nRuntime Version:         1.18\n"
        text += "Runtime Ext Version:     1.15\nSystem Timestamp Freq.:  100.000000MHz\n\n==========\nHSA Agents\n"
        "==========\n"
        for n in range(sockets):
            text += f"{bar}\nAgent {n + 1}\n{bar}\n" + _lines(
                {
                    "Name": cpu,
                    "Uuid": "CPU-XX",
                    "Marketing Name": cpu,
                    "Node": n,
                    "Device Type": "CPU",
                    "BDFID": 0,
                    "Compute Unit": cores,
                }
            )
        for d in self.gpus:
            _, bus, slot = d.address.split(":")
            text += f"{bar}\nAgent {sockets + d.index + 1}\n{bar}\n" + _lines({
                "Name": self.gpu.gfx, "Uuid": f"GPU-{self.serial(d.index).lower()}", "Marketing Name": self.gpu.name,
                "Node": sockets + d.index, "Device Type": "GPU", "Max Clock Freq. (MHz)": self.gpu.sm_mhz,
                "BDFID": (int(bus, 16) << 8) + (int(slot[:2], 16) << 3), "Compute Unit": self.gpu.units,
                "Wavefront Size": "64(0x40)",
            })  # fmt: skip
            text += "  ISA Info:\n    ISA 1\n      Name:                    "
            f"amdgcn-amd-amdhsa--{self.gpu.gfx}:sramecc+:xnack-\n"
        return text + "*** Done ***\n"

    def rocm_smi(self) -> str:
        """`rocm-smi ... --json` with the columns that were asked for."""
        cards = {f"card{d.index}": self._card(d) for d in self.gpus}
        return json.dumps({**cards, "system": {"Driver version": self.state.amdgpu}}) + "\n"

    def _card(self, d: Device) -> Values:
        g = self.gpu
        return {
            "Device Name": g.name, "Device ID": f"0x{g.device}", "Unique ID": f"0x{self.serial(d.index).lower()}",
            "VBIOS version": g.vbios, "Temperature (Sensor junction) (C)": f"{g.idle_c + d.index % 3}.0",
            "Temperature (Sensor memory) (C)": f"{g.idle_c - 8}.0",
            "Current Socket Graphics Package Power (W)": f"{g.idle_w + d.index % 4}", "GPU use (%)": "0",
            "VRAM Total Memory (B)": str(g.memory_mib << 20), "VRAM Total Used Memory (B)": str(284 << 20),
            "PCIe Replay Count": "0", "Serial Number": f"69242{number(self.host, 'board', d.index)[:7]}",
            "PCI Bus": d.address.upper(), "Card Series": g.name,
        }  # fmt: skip


def _lines(values: Values) -> str:
    return "".join(f"  {name + ':':<25}{value}\n" for name, value in values.items())


def driver(host: str, shape: Shape, state: State, found: tuple[Device, ...]) -> Parts:
    """The amdgpu module, /dev/kfd, /dev/dri and the cards in sysfs."""
    parts = Parts()
    parts.files["/sys/module/amdgpu/version"] = f"{state.amdgpu}\n"
    parts.node("/dev/kfd", "0666", "237:0", gid=993)
    smi = AmdSmi(host, shape, state, found)
    for d in of("gpu", found):
        home, card = f"/sys/{d.path}", f"card{d.index + 1}"
        parts.node(f"/dev/dri/renderD{128 + d.index}", "0666", f"226:{128 + d.index}", gid=993)
        parts.links[f"/sys/class/drm/{card}"] = f"../../{d.path}/drm/{card}"
        parts.links[f"{home}/drm/{card}/device"] = f"../../../{d.address}"
        values = {
            "current_compute_partition": "SPX",
            "current_memory_partition": "NPS1",
            "unique_id": smi.serial(d.index).lower(),
        }
        parts.put(home, {**values, "pcie_replay_count": 0})
        for block in ("umc", "sdma", "gfx", "mmhub", "pcie_bif", "xgmi_wafl"):
            parts.files[f"{home}/ras/{block}_err_count"] = "ue: 0\nce: 0\nde: 0\n"
        parts.files[f"{home}/ras/gpu_vram_bad_pages"] = ""
    return parts
