"""What is set up for NCCL and RCCL: configuration, libraries, network plugins, topology files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from assay.facts.source import source
from assay.model import Env, Fact, Files, Links, Probe, RawFact, Stat

_LIB_DIRS = (
    "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/local/lib", "/usr/local/lib64", "/usr/local/nccl*/lib",
    "/usr/local/cuda*/lib64", "/opt/nccl*/lib", "/opt/nccl*/build/lib",
    "/opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/nccl/lib", "/opt/rocm*/lib", "/opt/rccl*/lib",
    "/usr/local/lib/python3*/dist-packages/nvidia/nccl/lib", "/opt/conda/lib/python3*/site-packages/nvidia/nccl/lib",
)  # fmt: skip
_PLUGIN_DIRS = (
    "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/local/lib", "/opt/amazon/ofi-nccl/lib*",
    "/opt/amazon/ofi-nccl/lib/*-linux-gnu", "/opt/amazon/aws-ofi-nccl/lib*", "/opt/aws-ofi-nccl*/lib*",
    "/opt/hpcx*/nccl_rdma_sharp_plugin/lib", "/opt/hpcx*/nccl_spectrum-x_plugin/lib",
    "/opt/mellanox/nccl_rdma_sharp_plugin/lib", "/usr/local/gib/lib64", "/usr/local/tcpx/lib64",
    "/usr/local/fastrak/lib64",
    "/var/lib/tcpx/lib64", "/var/lib/tcpxo/lib64", "/var/lib/fastrak/lib64", "/home/kubernetes/bin/gib/lib64",
    "/home/kubernetes/bin/nvidia/lib64", "/opt/rocm*/lib",
)  # fmt: skip
_TOPOLOGY = ("/etc/nccl/*.xml", "/opt/microsoft/*.xml", "/var/run/nvidia-topologyd/*.xml", "/opt/*/nccl/*.xml")
_HPCX = ("/opt/hpcx*", "/opt/mellanox/hpcx*", "/opt/nvidia/hpcx*", "/opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/*/hpcx")
_WHEELS = (
    "/usr/local/lib/python3*/dist-packages/nvidia_nccl_cu*.dist-info",
    "/opt/conda/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info",
)
_LIBRARY = re.compile(r"lib(n|r)ccl\.so(?:\.(\d+(?:\.\d+)*))?$")
_VERSION = re.compile(r"lib(?:n|r)ccl\.so\.(\d+\.\d+(?:\.\d+)*)$")
_WHEEL = re.compile(r"^(.*/)nvidia_nccl_cu\d+-([\d.]+)\.dist-info$")


class NcclLibrary(Struct, frozen=True, kw_only=True):
    """One library file. `version` is what its file name (or wheel) tells; None = the name does not tell."""

    path: str
    kind: str = "nccl"
    version: str | None = None


class NcclSetup(Fact, frozen=True):
    """Configuration and libraries. `conf` = the system-wide file, `env` = this shell; `has_conf` False = there is none.

    `plugins` are libraries NCCL can load (net, tuner, profiler), by path; `hpcx` are HPC-X installations.
    """

    has_conf: bool = False
    conf: dict[str, str] = field(default_factory=dict)
    odd_lines: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    libraries: tuple[NcclLibrary, ...] = ()
    plugins: tuple[str, ...] = ()
    topology_files: tuple[str, ...] = ()
    hpcx: tuple[str, ...] = ()

    def setting(self, name: str) -> str | None:
        """The value that counts: the environment wins over the file."""
        return self.env.get(name, self.conf.get(name))

    def where(self, name: str) -> str:
        """Where the value that counts comes from."""
        return "environment" if name in self.env else "nccl.conf"


def _each(directories: Iterable[str], *names: str) -> tuple[str, ...]:
    return tuple(f"{d}/{n}" for d in directories for n in names)


@source(
    Probe(
        "nccl.config",
        (
            Files("conf", ("/etc/nccl.conf",)),
            Env("env", ("NCCL_*", "RCCL_*", "UCX_*", "FI_*")),
            Links("links", _each(_LIB_DIRS, "libnccl.so*", "librccl.so*")),
            Stat("files", _each(_LIB_DIRS, "libnccl.so*", "librccl.so*")),
            Stat("plugins", _each(_PLUGIN_DIRS, "libnccl-*.so*", "librccl-*.so*")),
            Stat("wheels", _WHEELS),
            Stat("topology", _TOPOLOGY),
            Stat("hpcx", _HPCX),
        ),
    ),
    sees_missing=True,
)
def nccl_config(raw: RawFact) -> NcclSetup:
    """Nothing found is a fact too: it means that nothing is set up in the usual places."""
    if not raw.reads:
        raise ValueError("the probe has no answer")
    conf, odd = nccl_conf(raw.out("conf"))
    return NcclSetup(
        has_conf=bool(raw.files("conf")),
        conf=conf,
        odd_lines=odd,
        env=raw.files("env"),
        libraries=_libraries(raw.files("files"), raw.files("links"), raw.files("wheels")),
        plugins=tuple(sorted(raw.files("plugins"))),
        topology_files=tuple(sorted(raw.files("topology"))),
        hpcx=tuple(sorted(raw.files("hpcx"))),
    )


def nccl_conf(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """NAME=value lines and the lines that are none; "#" begins a comment, as in NCCL's own reader."""
    values: dict[str, str] = {}
    odd: list[str] = []
    for line in text.splitlines():
        key, equals, value = line.partition("#")[0].strip().partition("=")
        if equals and key.strip().isidentifier():
            values[key.strip()] = value.strip()
        elif key:
            odd.append(line.strip()[:80])
    return values, tuple(odd)


def _libraries(
    files: Mapping[str, str], links: Mapping[str, str], wheels: Mapping[str, str]
) -> tuple[NcclLibrary, ...]:
    """Files that are no links; a library that is only there as a link keeps its place."""
    of_wheel = {m[1]: m[2] for m in map(_WHEEL.match, wheels) if m}
    found: list[NcclLibrary] = []
    for path in sorted(files):
        m = _LIBRARY.search(path)
        if not m or path in links:
            continue
        version = _VERSION.search(path)
        wheel = next((v for place, v in of_wheel.items() if path.startswith(place + "nvidia/")), None)
        kind = "nccl" if m[1] == "n" else "rccl"
        found.append(NcclLibrary(path=path, kind=kind, version=version[1] if version else wheel))
    return tuple(found)
