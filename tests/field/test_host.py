"""Field outputs of host tools: CPU and NUMA, modules, mounts, drives, compilers. Read in place, never copied."""

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from assay.facts import cpu, cpu_tools, modules, mounts, nvme, smart, toolchain

FIELD = pathlib.Path(__file__).resolve().parents[3] / "shared/field"
FOLDERS = ("cpu-numa", "modules", "mounts", "smart-nvme", "toolchain")
if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG: dict[tuple[str, str], str] = {}
View = dict[str, Any]


def _per_node(nodes: Any) -> View:
    view: View = {f"node{n.id}": {"cpus": n.cpus, "size_mb": n.memory_mib, "free_mb": n.free_mib} for n in nodes}
    for node in nodes:
        view |= {f"distance_{node.id}_{other}": d for other, d in enumerate(node.distances)}
    return view


def view_numactl(text: str) -> View:
    numa = cpu_tools.numactl(text)
    return {
        "nodes": numa.count,
        "numa_nodes": numa.count,
        "cpu_nodes": list(numa.cpu_nodes),
        "gpu_memory_nodes": [n.id for n in numa.memory_only],
        "memory_only_nodes": [n.id for n in numa.memory_only],
        "empty_nodes": list(numa.empty),
        "cpu_nodes_without_memory": list(numa.without_memory),
        "cpus": sum(n.cpus or 0 for n in numa.nodes),
        "total_mb": sum(n.memory_mib or 0 for n in numa.nodes),
        **_per_node(numa.nodes),
    }


def view_lscpu(text: str) -> View:
    found = cpu_tools.lscpu_json(text) if text.lstrip().startswith("{") else cpu_tools.lscpu(text)
    return {
        "arch": found.architecture,
        "architecture": found.architecture,
        "cpus": found.cpus,
        "vendor": found.vendor,
        "model": found.models[0] if found.models else None,
        "models": list(found.models),
        "sockets": found.sockets,
        "cores_per_socket": found.cores_per_socket[0] if len(set(found.cores_per_socket)) == 1 else None,
        "threads_per_core": found.threads_per_core,
        "max_mhz": list(found.max_mhz) if len(found.max_mhz) > 1 else next(iter(found.max_mhz), None),
        "min_mhz": list(found.min_mhz) if len(found.min_mhz) > 1 else next(iter(found.min_mhz), None),
        "hypervisor": found.hypervisor,
        "numa_nodes": found.numa_nodes,
        "nodes": found.numa_nodes,
        "cpu_nodes": list(found.cpu_nodes),
        "gpu_memory_nodes": list(found.nodes_without_cpus),
        "nodes_without_cpus": list(found.nodes_without_cpus),
        "vulnerabilities": len(found.vulnerabilities),
        "vulnerabilities_by_name": found.vulnerabilities,
        "lines": len(text.splitlines()),
        **{f"node{n}_cpus": cpus for n, cpus in found.numa.items()},
    }


def view_cpuinfo(text: str) -> View:
    found = cpu.cpuinfo(text)
    fields = {re.sub(r"\W+", "_", k.lower()): v for k, v in found.fields.items()}
    return {
        **fields,
        "processors": found.processors,
        "cpus": found.processors,
        "model": found.model,
        "vendor": found.vendor,
        "implementer": found.implementer,
        "part": found.part,
        "hypervisor": "hypervisor" in found.flags,
    }


class ModuleView(dict[str, Any]):
    """Any module name is a fact: loaded or not."""

    def __missing__(self, name: str) -> Any:
        base, _, what = name.rpartition("_")
        known = self["_modules"]
        if what in ("refcount", "references") and base in known:
            return known[base].references
        if what == "size" and base in known:
            return known[base].size
        if name.endswith("_used_by"):
            return list(known[name.removesuffix("_used_by")].used_by)
        return name.removesuffix("_loaded") in known


def view_lsmod(text: str) -> View:
    found = modules.lsmod(text)
    return ModuleView(_modules=found.modules, modules=len(found.modules), count=len(found.modules))


def view_modinfo(text: str) -> View:
    found = modules.modinfo(text)
    first = {k: v[0] if len(v) == 1 else list(v) for k, v in found.fields.items()}
    return {
        **first,
        "version": found.version,
        "kernel": found.kernel,
        "license": found.license,
        "open": found.open,
        "open_module": found.open,
        "compressed": None if found.filename is None else not found.filename.endswith(".ko"),
    }


class MountView(dict[str, Any]):
    """The name of any file system type is a fact: how many of it are mounted."""

    def __missing__(self, name: str) -> Any:
        return self["by_type"].get(name, 0)


def _mounts(found: mounts.Mounts, text: str) -> View:
    first = found.mounts[0]
    lustre = [m for m in found.mounts if m.fstype == "lustre"]
    percent = first.used_percent
    size = re.search(r'"size":\s*"([^"]+)"', text)
    return MountView(
        filesystems=len(found.mounts),
        mounts=len(found.mounts),
        distinct_mounts=len(found.mounts),
        by_type=found.by_type(),
        lustre_flock=all(m.option("flock") is not None for m in lustre),
        flock=all(m.option("flock") is not None for m in lustre),
        lnet="+".join(dict.fromkeys(n for m in lustre for n in m.lnets)),
        fstype=first.fstype,
        target=first.target,
        source=first.source,
        options=list(first.options),
        read_only=first.read_only,
        nconnect=int(first.option("nconnect") or 1),
        proto=first.option("proto"),
        vers=first.option("vers"),
        size=size[1] if size else None,
        size_mib=first.size_mib,
        use=None if percent is None else f"{percent:.0f}%",
        use_percent=percent,
    )


def view_findmnt(text: str) -> View:
    return _mounts(mounts.findmnt_json(text), text)


def view_mount(text: str) -> View:
    return _mounts(mounts.mount_lines(text), text)


def view_mountinfo(text: str) -> View:
    return _mounts(mounts.mountinfo(text), text)


def _smart(log: smart.SmartLog) -> View:
    kelvin = None if log.temperature_c is None else log.temperature_c + 273
    names = ("power_on_hours", "unsafe_shutdowns", "media_errors", "num_err_log_entries", "data_units_written")
    return {
        **msgspec.structs.asdict(log),
        "temperature_k": kelvin,
        "avail_spare": log.available_spare,
        "spare_thresh": log.available_spare_threshold,
        "percentage_used": log.percent_used,
        "spare_below_threshold": log.worn,
    } | {name: getattr(log, name) for name in names}


def view_smart_log(text: str) -> View:
    return _smart(smart.smart_log(text))


def view_smartctl(text: str) -> View:
    return _smart(smart.smartctl(text))


def view_nvme_list(text: str) -> View:
    drives = nvme.nvme_list_any(text).drives
    first = drives[0] if drives else nvme.NvmeDrive(name="")
    return {
        "devices": len(drives),
        "controllers": len(drives),
        "namespaces": sum(len(d.namespaces) for d in drives),
        "model": first.model,
        "firmware": first.firmware,
        "first_path": f"/dev/{first.namespaces[0]}" if first.namespaces else None,
        "transport": first.transport,
        "size_gb": first.size_gb,
    }


def view_nvcc(text: str) -> View:
    found = toolchain.nvcc_version(text)
    return {
        "found": found is not None,
        "release": found.release if found else None,
        "version": found.version if found else None,
    }


def view_version_json(text: str) -> View:
    found = toolchain.cuda_versions(text)
    return {**found.components, "cuda": found.cuda, "nvcc": found.nvcc, "bundled_driver": found.bundled_driver}


def view_ompi(text: str) -> View:
    found = toolchain.ompi_info(text)
    return {**msgspec.structs.asdict(found), "cuda": found.cuda_built, "prefix": found.prefix}


VIEWS: tuple[tuple[str, Callable[[str], View]], ...] = (
    (r"numactl", view_numactl),
    (r"lscpu", view_lscpu),
    (r"/proc/cpuinfo", view_cpuinfo),
    (r"^lsmod", view_lsmod),
    (r"^modinfo", view_modinfo),
    (r"^findmnt", view_findmnt),
    (r"mountinfo", view_mountinfo),
    (r"^mount\b|/proc/mounts", view_mount),
    (r"smart-log", view_smart_log),
    (r"^smartctl", view_smartctl),
    (r"^nvme list", view_nvme_list),
    (r"nvcc", view_nvcc),
    (r"version\.json", view_version_json),
    (r"ompi_info", view_ompi),
)
CASES = [p for folder in FOLDERS for p in sorted((FIELD / folder).glob("*")) if ".expected." not in p.name]


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: pathlib.Path) -> None:
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text(encoding="utf-8"))
    view = next((v for pattern, v in VIEWS if re.search(pattern, expected["tool"])), None)
    assert view, f"no parser for {expected['tool']!r}"
    got = view(path.read_text(encoding="utf-8"))
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in got or isinstance(got, (ModuleView, MountView)), f"the view does not know {name!r}"
        have = got[name]
        if isinstance(want, dict) and isinstance(have, dict):
            have = {k: have[k] for k in want}
        assert have == want or _quoted(want) == have, (name, have, want)


def _quoted(want: Any) -> Any:
    """A number that an old tool prints in quotes is the same number."""
    return int(want) if isinstance(want, str) and want.isdigit() else want
