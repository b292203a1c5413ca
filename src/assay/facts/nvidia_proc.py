"""The NVIDIA kernel driver: /proc/driver/nvidia, its module options and its device files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from assay.facts.nvidia import NvidiaDevices, NvidiaDriver, NvidiaProcGpu
from assay.facts.pci_address import sysfs_name
from assay.facts.source import source, why_missing
from assay.facts.stat import path_states
from assay.facts.text import pairs
from assay.model import Files, Missing, Probe, RawFact, Stat

_VERSION = re.compile(
    r"NVRM version:\s*NVIDIA UNIX (Open Kernel Module for )?([\w-]+)(?: Kernel Module)?\s+(\d+(?:\.\d+)+)"
)
_PARAM = re.compile(r"^(\w+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_OPTIONS = re.compile(r"^[ \t]*options[ \t]+nvidia[ \t]+(.+)$", re.MULTILINE)
_OPTION = re.compile(r"NVreg_(\w+)=(\"[^\"]*\"|\S*)")
_CMDLINE = re.compile(r"\bnvidia\.NVreg_(\w+)=(\S*)")
_MINOR = re.compile(r"^/dev/nvidia\d+$")


@source(
    Probe(
        "nvidia.driver",
        (
            Files("version", ("/proc/driver/nvidia/version",)),
            Files("params", ("/proc/driver/nvidia/params",)),
            Files("modprobe", ("/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf", "/run/modprobe.d/*.conf")),
            Files("cmdline", ("/proc/cmdline",)),
        ),
    ),
    sees_missing=True,
)
def nvidia_driver(raw: RawFact) -> NvidiaDriver | Missing:
    """The loaded module; absent when no NVIDIA kernel module is loaded, whatever modprobe.d says."""
    if "NVRM" not in raw.out("version"):
        unloaded = "the NVIDIA kernel module is not loaded"
        return why_missing([raw.read("version")], unloaded) or Missing("absent", unloaded)
    driver = parse_version(raw.out("version"))
    texts = raw.files("modprobe")
    options = {name: value for path in sorted(texts) for name, value in modprobe_options(texts[path]).items()}
    return NvidiaDriver(
        version=driver.version,
        open=driver.open,
        arch=driver.arch,
        params=_params(raw.out("params")),
        options=options | {name: value.strip('"') for name, value in _CMDLINE.findall(raw.out("cmdline"))},
    )


def parse_version(text: str) -> NvidiaDriver:
    """/proc/driver/nvidia/version of the closed and of the open module, which order their words differently."""
    found = _VERSION.search(text)
    if not found:
        raise ValueError("no NVRM version line")
    return NvidiaDriver(version=found[3], open=bool(found[1]), arch=found[2])


def parse_params(text: str) -> dict[str, int | str]:
    """/proc/driver/nvidia/params: numbers as printed (decimal, -1 = 4294967295), texts without quotes."""
    params = _params(text)
    if not params:
        raise ValueError("no parameter lines")
    return params


def _params(text: str) -> dict[str, int | str]:
    return {name: int(v) if v.isdecimal() else v.strip('"') for name, v in _PARAM.findall(text)}


def modprobe_options(text: str) -> dict[str, str]:
    """NVreg options for the module `nvidia` in one file of modprobe.d; comment lines do not count."""
    lines = _OPTIONS.findall(text.replace("\\\n", " "))
    return {name: value.strip('"') for line in lines for name, value in _OPTION.findall(line)}


@source(
    Probe(
        "nvidia.devices",
        (
            Stat("nodes", ("/dev/nvidia*",)),
            Stat("caps", ("/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*")),
            Files("gpus", ("/proc/driver/nvidia/gpus/*/information",)),
        ),
    ),
    sees_missing=True,
)
def nvidia_devices(raw: RawFact) -> NvidiaDevices | Missing:
    """Device files and the driver's list of GPUs; absent where there is neither."""
    states = path_states(raw.files("nodes") | raw.files("caps"))
    gpus = tuple(proc_gpu(path.split("/")[-2], text) for path, text in sorted(raw.files("gpus").items()))
    if not states and not gpus:
        return why_missing(raw.reads, "no NVIDIA device files") or Missing("absent", "no NVIDIA device files")
    nodes = {state.path: state.access for state in states if _MINOR.match(state.path)}
    others = tuple(state.path for state in states if not _MINOR.match(state.path) and state.kind != "d")
    return NvidiaDevices(nodes=nodes, others=others, gpus=gpus)


def proc_gpu(bus_id: str, text: str) -> NvidiaProcGpu:
    """One /proc/driver/nvidia/gpus/*/information; question marks stand for what the GPU has not told yet."""
    known = pairs(text)
    minor = known.get("Device Minor", "")
    return NvidiaProcGpu(
        pci=sysfs_name(known.get("Bus Location") or bus_id),
        model=_told(known.get("Model")),
        uuid=_told(known.get("GPU UUID")),
        vbios=_told(known.get("Video BIOS")),
        minor=int(minor) if minor.isdecimal() else None,
        excluded={"Yes": True, "No": False}.get(known.get("GPU Excluded", "")),
        firmware=_told(known.get("GPU Firmware")),
    )


def _told(value: str | None) -> str | None:
    return None if not value or "??" in value or value in ("N/A", "Unknown") else value


def parse_information(text: str) -> NvidiaProcGpu:
    """One information file as a user may mail it."""
    gpu = proc_gpu("", text)
    if not gpu.pci:
        raise ValueError("no Bus Location line")
    return gpu


FORMATS: dict[str, Callable[[str], Any]] = {
    "cat /proc/driver/nvidia/version": parse_version,
    "cat /proc/driver/nvidia/params": parse_params,
    "cat /proc/driver/nvidia/gpus/*/information": parse_information,
}
