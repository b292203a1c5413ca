"""Field outputs of host tools: CPU and NUMA, modules, mounts, drives, compilers. Read in place, never copied."""

import pathlib
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from assay.facts import cpu, cpu_tools, modules, mounts, nvme, smart, toolchain
from field_facts import FIELD, pair, same, snake

FOLDERS = ("cpu-numa", "modules", "mounts", "smart-nvme", "toolchain")
if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG: dict[tuple[str, str], str] = {}
View = dict[str, Any]


def _per_node(nodes: Any) -> View:
    view: View = {f"node{n.id}": {"cpus": n.cpus, "size_mb": n.memory_mib, "free_mb": n.free_mib} for n in nodes}
    for node in nodes:
        view |= {
            f"node{node.id}_cpus": node.cpus, f"node{node.id}_size_mb": node.memory_mib,
            f"node{node.id}_free_mb": node.free_mib, f"distances_{node.id}": list(node.distances),
        }  # fmt: skip
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
        "shown_nodes": len(numa.nodes),
        "nodes_shown": len(numa.nodes),
        "node_ids": [n.id for n in numa.nodes],
        "cpus_per_node": [n.cpus for n in numa.nodes],
        "nodes_without_memory": [n.id for n in numa.nodes if n.memory_mib == 0],
        "nodes_without_cpus": [n.id for n in numa.nodes if n.cpus == 0],
        "hbm_nodes": [n.id for n in numa.memory_only],
        "sizes_mb": [n.memory_mib for n in numa.nodes],
        "size_mb": sum(n.memory_mib or 0 for n in numa.nodes),
        "distances": [list(n.distances) for n in numa.nodes],
        "max_distance": max((d for n in numa.nodes for d in n.distances), default=None),
        "total_mb": sum(n.memory_mib or 0 for n in numa.nodes),
        **_per_node(numa.nodes),
    }


def view_lscpu(text: str) -> View:
    found = cpu_tools.lscpu_json(text) if text.lstrip().startswith("{") else cpu_tools.lscpu(text)
    sized = {name.removesuffix("_s"): value for name, value in _lscpu_fields(found).items()}
    return {
        **sized,
        **_lscpu_fields(found),
        "cores": (found.cores_per_socket[0] * found.sockets) if found.cores_per_socket and found.sockets else None,
        "virtual": found.hypervisor is not None,
        "model_name": found.models[0] if found.models else None,
        "model_names": list(found.models),
        "smt": None if found.threads_per_core is None else found.threads_per_core > 1,
        "not_affected": sum(v == "Not affected" for v in found.vulnerabilities.values()),
        "vulnerable": [n for n, v in found.vulnerabilities.items() if v.startswith("Vulnerable")],
        "mitigated": [n for n, v in found.vulnerabilities.items() if v.startswith("Mitigation")],
        **{f"vulnerability_{snake(n)}": v for n, v in found.vulnerabilities.items()},
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


def _lscpu_fields(found: cpu_tools.Lscpu) -> View:
    return {snake(key.lower()): values[0] if len(values) == 1 else list(values) for key, values in found.fields.items()}


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
        "model_name": found.fields.get("model name"),
        "cpu_part": found.part,
        "cpu_implementer": found.implementer,
        "flags": sorted(found.flags),
    }


class ModuleView(dict[str, Any]):
    """Any module name is a fact: loaded or not."""

    def __missing__(self, name: str) -> Any:
        known = self["_modules"]
        base = next((m for m in sorted(known, key=len, reverse=True) if name.startswith(m + "_")), "")
        if not base or name.endswith("_loaded") or name in known:
            return name.removesuffix("_loaded") in known
        module = known[base]
        count, mib = len(module.used_by), round(module.size / 1048576)
        facts = {"size": module.size, "used_by_count": count, "size_mib": mib, "mib": mib}
        facts |= dict.fromkeys(("refcount", "references", "refs", "used"), module.references)
        facts |= {key: list(module.used_by) for key in ("used_by", "users", "holders")}
        return facts.get(name.removeprefix(base + "_"), False)


def view_lsmod(text: str) -> View:
    found = modules.lsmod(text)
    names = list(found.modules)
    return ModuleView(
        _modules=found.modules, modules=names, count=len(names), rows=len(names), lines=len(names), names=names,
        open_module=None, loaded=names,
    )  # fmt: skip


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
        "found": bool(found.fields),
        "in_tree": "intree" in found.fields,
        "out_of_tree": None if not found.fields else "intree" not in found.fields,
        "signed": "signature" in found.fields or "sig_id" in found.fields,
        "dkms": None if found.filename is None else "/dkms/" in found.filename,
        "parameters": len(found.fields.get("parm", ())),
        "parms": len(found.fields.get("parm", ())),
        "aliases": len(found.fields.get("alias", ())),
        "firmwares": len(found.fields.get("firmware", ())),
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
    human = dict(re.findall(r'"(size|used|avail)":\s*"([^"]+)"', text)[::-1])
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
        size=human.get("size"),
        used=human.get("used"),
        avail=human.get("avail"),
        available=human.get("avail"),
        used_mib=first.used_mib,
        available_mib=first.available_mib,
        root=first.root,
        subpath=first.root,
        sources=[m.source for m in found.mounts],
        targets=[m.target for m in found.mounts],
        types=sorted(found.by_type()),
        fstypes=sorted(found.by_type()),
        first={"source": first.source, "target": first.target, "fstype": first.fstype},
        rdma=any(m.option("proto") == "rdma" or m.option("rdma") is not None for m in found.mounts),
        hard=first.option("hard") is not None,
        rsize=first.option("rsize"),
        wsize=first.option("wsize"),
        nfs_version=first.option("vers"),
        noatime=first.option("noatime") is not None,
        server=first.source.partition(":")[0] if ":" in first.source else None,
        nids=[part for part in first.source.split(":") if "@" in part],
        lnets=list(dict.fromkeys(n for m in lustre for n in m.lnets)),
        read_only_mounts=[m.target for m in found.mounts if m.read_only],
        forced_read_only=[m.target for m in found.mounts if m.forced_ro],
        size_mib=first.size_mib,
        use=None if percent is None else f"{percent:.0f}%",
        use_percent=percent,
    )


def view_findmnt(text: str) -> View:
    return _mounts(mounts.findmnt_json(text), text)


def view_mount(text: str) -> View:
    read = mounts.mount_lines if " type " in text else mounts.proc_mounts
    return _mounts(read(text), text)


def view_mountinfo(text: str) -> View:
    return _mounts(mounts.mountinfo(text), text)


def _smart(log: smart.SmartLog) -> View:
    kelvin = None if log.temperature_c is None else log.temperature_c + 273
    ata = {snake(name.lower()): value for name, value in log.attributes.items()}
    sectors = {
        "reallocated_sectors": log.attributes.get("Reallocated_Sector_Ct"), "wear": log.percent_used,
        "pending_sectors": log.attributes.get("Current_Pending_Sector"), "grown_defect_list": log.grown_defects,
        "offline_uncorrectable": log.attributes.get("Offline_Uncorrectable"),
        "total_uncorrected_errors": log.uncorrected_errors, "error": log.error or None, "message": log.error or None,
        "crc_errors": log.attributes.get("UDMA_CRC_Error_Count"), "failing": list(log.failed_attributes),
        "model_name": log.model, "temperature": log.temperature_c, "serial_number": log.serial,
        "firmware_version": log.firmware, "type": log.protocol and log.protocol.lower(), "capacity_gb": log.size_gb,
        "size_bytes": log.size_gb and round(log.size_gb * 1e9), "error_log_entries": log.num_err_log_entries,
        "spare": log.available_spare, "spare_threshold": log.available_spare_threshold, "smart_passed": log.passed,
        "smart_status_passed": log.passed, "exit_bits": [b for b in range(8) if (log.exit_status or 0) >> b & 1],
        "critical_warning_bits": [b for b in range(8) if (log.critical_warning or 0) >> b & 1], "worn": log.worn,
    }  # fmt: skip
    return {
        **ata,
        **sectors,
        **msgspec.structs.asdict(log),
        "temperature_k": kelvin,
        "avail_spare": log.available_spare,
        "spare_thresh": log.available_spare_threshold,
        "percentage_used": log.percent_used,
        "spare_below_threshold": log.worn,
    }


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
        "models": [d.model for d in drives],
        "firmwares": sorted({d.firmware for d in drives}),
        "firmware_versions": sorted({d.firmware for d in drives}),
        "paths": [f"/dev/{n}" for d in drives for n in d.namespaces],
        "names": [d.name for d in drives],
        "addresses": [d.address for d in drives],
        "address": first.address or None,
        "first": first.name,
        "subsystems": len(drives),
    }


def view_nvcc(text: str) -> View:
    found = toolchain.nvcc_version(text)
    return {
        "found": found is not None,
        "available": found is not None,
        "cuda": found.release if found else None,
        "nvcc": found.version if found else None,
        "release": found.release if found else None,
        "version": found.version if found else None,
    }


def view_version_json(text: str) -> View:
    found = toolchain.cuda_versions(text)
    return {
        **found.components, "cuda": found.cuda, "nvcc": found.nvcc, "bundled_driver": found.bundled_driver,
        "components": len(found.components), "version": found.cuda,
    }  # fmt: skip


def view_ompi(text: str) -> View:
    found = toolchain.ompi_info(text)
    every = {snake(key.lower()): value for key, value in found.fields.items()}
    mca = {key.replace(" ", "_"): list(names) for key, names in found.components.items()}
    return {
        **every, **mca, **msgspec.structs.asdict(found), "cuda": found.cuda_built, "cuda_extension": "cuda" in
        found.fields.get("MPI extensions", ""), "pml": list(found.components.get("pml", ())),
        "btl": list(found.components.get("btl", ())), "verbs": "openib" in found.components.get("btl", ()),
    }  # fmt: skip


def view_mpirun(text: str) -> View:
    name, version = toolchain.mpirun(text)
    return {"mpi": name, "name": name, "product": name, "version": version, "found": name is not None}


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
    (r"^mpirun|^mpiexec", view_mpirun),
)
CASES = [p for folder in FOLDERS for p in sorted((FIELD / folder).glob("*")) if ".expected." not in p.name]


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_field_output(path: pathlib.Path) -> None:
    text, expected = pair(path.with_name(f"{path.stem}.expected.json"))
    view = next((v for pattern, v in VIEWS if re.search(pattern, expected["tool"])), None)
    assert view, f"no parser for {expected['tool']!r}"
    got = view(text)
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in got or isinstance(got, (ModuleView, MountView)), f"the view does not know {name!r}"
        assert same(got[name], want), (name, got[name], want)
