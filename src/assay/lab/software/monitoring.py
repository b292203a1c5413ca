"""Exporters, health programmes, DCGM and log shipping of an invented host."""

from __future__ import annotations

import msgspec

from assay.lab.hardware.layout import Device, gpu_uuid, of
from assay.lab.hardware.nvidia_sections import smi_address
from assay.lab.hardware.shapes import Shape
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.software.services import Service, Socket, Timer
from assay.lab.virtual import Output

_DAY_US = 86_400_000_000
_COUNTERS = (
    "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
)  # fmt: skip
_AMD_FIELDS = (
    "GPU_GFX_ACTIVITY", "GPU_PROF_OCCUPANCY_PERCENT", "GPU_PROF_TENSOR_ACTIVE_PERCENT", "PCIE_REPLAY_COUNT",
    "GPU_ECC_CORRECT_TOTAL", "GPU_ECC_UNCORRECT_TOTAL", "PCIE_BANDWIDTH", "GPU_XGMI_LINK_RX", "GPU_HEALTH",
    "GPU_JUNCTION_TEMPERATURE", "GPU_PACKAGE_POWER",
)  # fmt: skip
_SUITE = """\
#!/bin/bash
set -eu
dcgmi diag -r 3 -j
nvbandwidth -t host_to_device_memcpy_ce,device_to_host_memcpy_ce
gpu_burn 900
all_reduce_perf -b 8G -e 8G -g 8
all_reduce_perf -b 8G -e 8G -g 4
NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 all_reduce_perf -b 1G -e 8G -g 8
ib_write_bw -d mlx5_0 --report_gbits "$PEER"
cuda_memtest --num_passes 3
torchrun --nproc-per-node 8 /opt/reference/train.py --steps 200
"""
_AMD_SUITE = """\
#!/bin/bash
set -eu
/opt/rocm/bin/rvs -c gst_single.conf
rocm-bandwidth-test -b
all_reduce_perf -b 8G -e 8G -g 8
all_reduce_perf -b 8G -e 8G -g 4
NCCL_P2P_DISABLE=1 all_reduce_perf -b 1G -e 8G -g 8
ib_write_bw -d mlx5_0 --report_gbits "$PEER"
gpu_memtest --passes 3
torchrun --nproc-per-node 8 /opt/reference/train.py --steps 200
"""
_PASSIVE = """\
#!/bin/bash
check_gpu_count
check_xid
check_ecc_errors
check_pcie_width
check_ib_link
check_thermal
check_stalled_collective
"""
_WATCHES = (
    "PCIe",
    "NVLINK",
    "PMU",
    "MCU",
    "Memory",
    "SM",
    "InfoROM",
    "Thermal",
    "Power",
    "NvSwitch NF",
    "NvSwitch F",
    "Driver",
)


def is_nvidia(shape: Shape) -> bool:
    """True for a machine with NVIDIA GPUs."""
    return shape.gpu is not None and shape.gpu.vendor == "10de"


_NODE = Service(
    unit="prometheus-node-exporter", about="Prometheus exporter for machine metrics", process="prometheus-node",
    arguments="/usr/bin/prometheus-node-exporter --web.listen-address={wide}:9100",
)  # fmt: skip
_ENGINE = Service(
    unit="nvidia-dcgm", about="NVIDIA DCGM service", process="nv-hostengine",
    arguments="/usr/bin/nv-hostengine -n --service-account nvidia-dcgm",
)  # fmt: skip
_DCGM = Service(
    unit="nvidia-dcgm-exporter", about="NVIDIA DCGM exporter", process="dcgm-exporter",
    arguments="/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/site.csv -a {wide}:9400",
)  # fmt: skip
_AMD = Service(
    unit="amd-metrics-exporter", about="AMD device metrics exporter", process="amd-metrics-exp",
    arguments="/usr/bin/amd-metrics-exporter",
)  # fmt: skip
_GPUD = Service(unit="gpud", about="gpud health daemon", process="gpud", arguments="/usr/local/bin/gpud run")
_ALLOY = Service(
    unit="alloy", about="Grafana Alloy", process="alloy", arguments="/usr/bin/alloy run /etc/alloy/config.alloy"
)  # fmt: skip


def units(shape: Shape, image: Image) -> tuple[list[Service], list[Socket]]:
    """What monitors this host, and on which sockets."""
    wide = "0.0.0.0" if image.exporters_open else "127.0.0.1"  # noqa: S104 - written, not bound
    found, sockets = [_NODE], [Socket("prometheus-node", 9100, wide)]
    if is_nvidia(shape):
        found += [_ENGINE, _DCGM]
        sockets += [Socket("nv-hostengine", 5555), Socket("dcgm-exporter", 9400, wide)]
    elif shape.gpu:
        found.append(_AMD)
        sockets.append(Socket("amd-metrics-exp", 5000, wide))
    if image.log_shipper:
        found += [_GPUD, _ALLOY] if shape.gpu else [_ALLOY]
        sockets.append(Socket("alloy", 12345))
    return [msgspec.structs.replace(s, arguments=s.arguments.format(wide=wide)) for s in found], sockets


def timers(shape: Shape, image: Image, now: float) -> list[Timer]:
    """Health programmes that systemd starts."""
    if not shape.gpu:
        return []
    at = int(now * 1e6)
    last = at - int(image.last_suite_days * _DAY_US)
    suite = Timer(unit="gpu-weekly", last=last, next=last + 7 * _DAY_US)
    return (
        [suite, Timer(unit="node-health", last=at - 180_000_000, next=at + 120_000_000)]
        if image.log_shipper
        else [suite]
    )


def health(host: str, shape: Shape, image: Image, found: tuple[Device, ...]) -> Parts:
    """Counter lists, scripts, timers' units, Slurm's programmes, DCGM's answers, log settings."""
    parts = Parts()
    parts.files["/etc/systemd/journald.conf"] = "[Journal]\n#Storage=auto\nSystemMaxUse=8G\n"
    parts.directory("/var/log/journal", "/run/systemd/journal")
    parts.files["/etc/rsyslog.conf"] = 'module(load="imuxsock")\n'
    parts.files["/etc/crontab"] = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n"
    parts.modes["/var/spool/cron/crontabs"] = "d 1730 0 104 0:0"
    for name in ("kern.log", "syslog"):
        parts.modes[f"/var/log/{name}"] = "f 0640 104 4 0:0"
    if image.slurm:
        _slurm(parts, shape, image)
    if shape.gpu:
        _programmes(parts, shape, image)
    if is_nvidia(shape):
        _dcgm(parts, host, shape, image, found)
    return parts


def _slurm(parts: Parts, shape: Shape, image: Image) -> None:
    lines = "ClusterName=cluster\nSlurmctldHost=ctl01\nProctrackType=proctrack/cgroup\n"
    "TaskPlugin=task/cgroup,task/affinity\n"
    if shape.gpu and image.log_shipper:
        lines += "Prolog=/etc/slurm/prolog.sh\nEpilog=/etc/slurm/epilog.sh\n"
        test = "dcgmi diag -r 1" if is_nvidia(shape) else "/opt/rocm/bin/rvs -c pebb_single.conf"
        for name in ("prolog", "epilog"):
            parts.files[f"/etc/slurm/{name}.sh"] = f"#!/bin/bash\n{test} || exit 1\n"
            parts.modes[f"/etc/slurm/{name}.sh"] = "f 0755 0 0 0:0"
    parts.files["/etc/slurm/slurm.conf"] = lines


def _programmes(parts: Parts, shape: Shape, image: Image) -> None:
    names = {"gpu-weekly": ("Sun 02:00", _SUITE if is_nvidia(shape) else _AMD_SUITE)}
    if image.log_shipper:
        names["node-health"] = ("*:0/5", _PASSIVE)
    for name, (when, script) in names.items():
        parts.files[f"/etc/systemd/system/{name}.timer"] = (
            f"[Timer]\nOnCalendar={when}\n[Install]\nWantedBy=timers.target\n"
        )
        parts.files[f"/etc/systemd/system/{name}.service"] = (
            f"[Service]\nType=oneshot\nExecStart=/usr/local/sbin/{name}\n"
        )
        parts.files[f"/usr/local/sbin/{name}"] = script
        parts.modes[f"/usr/local/sbin/{name}"] = "f 0755 0 0 0:0"
    if not is_nvidia(shape):
        fields = ", ".join(f'"{field}"' for field in _AMD_FIELDS)
        parts.files["/etc/metrics/config.json"] = f'{{"ServerPort": 5000, "GPUConfig": {{"Fields": [{fields}]}}}}\n'


def _dcgm(parts: Parts, host: str, shape: Shape, image: Image, found: tuple[Device, ...]) -> None:
    rows = "".join(f"{name}, gauge, as DCGM names it\n" for name in _COUNTERS)
    parts.files["/etc/dcgm-exporter/site.csv"] = f"# Format: field, type, help\n{rows}"
    parts.files["/etc/dcgm-exporter/default-counters.csv"] = f"# Format: field, type, help\n{rows}"
    line = "+--------+----------------------------------------------------------------------+\n"
    gpus = of("gpu", found)
    body = "".join(
        f"| {d.index:<6} | Name: {shape.gpu.name if shape.gpu else '':<63}|\n|        | PCI Bus ID: "
        f"{smi_address(d):<57}|\n"
        f"|        | Device UUID: {gpu_uuid(host, d.index):<56}|\n{line}"
        for d in gpus
    )
    listed = f"{len(gpus)} GPUs found.\n{line}| GPU ID | Device Information{' ' * 51}|\n{line}{body}"
    switches = of("nvswitch", found)
    listed += f"{len(switches)} NvSwitches found.\n+-----------+\n| Switch ID |\n+-----------+\n"
    listed += "".join(f"| {8 + s.index:<9} |\n+-----------+\n" for s in switches) + "0 CPUs found.\n"
    watches = (
        "Health monitor systems report\n+------------------+---------------------------------------------------+\n"
    )
    on = image.log_shipper
    watches += "".join(f"| {name:<16} | {'On' if on else 'Off':<49} |\n" for name in _WATCHES)
    watches += "+------------------+---------------------------------------------------+\n"
    build = f"Version : {image.dcgm}\nBuild ID : 21\nBuild Date : 2026-07-20\nBuild Type : Release\nCPU Arch : "
    f"{shape.cpu.arch}\n"
    parts.program(
        "/usr/bin/dcgmi",
        {
            "discovery -l": listed, "health -g 0 -f": watches, "--version": f"\ndcgmi  version: {image.dcgm}\n\n",
            "-v": Output(f"{build}\nHostengine build info:\n{build}"),
        },
    )  # fmt: skip
