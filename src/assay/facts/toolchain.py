"""Compilers: every CUDA toolkit on the host, GCC, MPI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from assay.facts.shapes import shaped
from assay.facts.source import source
from assay.model import Env, Exec, Fact, Files, Links, Missing, Probe, RawFact, Which

_RELEASE = re.compile(r"^[ \t]*Cuda compilation tools, release (\d+\.\d+), V([\d.]+)", re.MULTILINE)
_NOT_FOUND = re.compile(r"\bnot found\b|No such file or directory|is not recognized", re.IGNORECASE)
_GCC = re.compile(r"^[ \t]*(?:gcc|g\+\+|cc|[\w-]*-gcc)\S* \(.*\) (\d+(?:\.\d+)+)", re.MULTILINE)
_OPEN_MPI = re.compile(r"\(Open ?MPI\) (\d+\.\d+\.\d+\w*)|(?:OpenRTE|PRRTE)\) (\d+\.\d+\.\d+\w*)", re.IGNORECASE)
_OTHER_MPI = re.compile(
    r"(Intel\(R\) MPI Library|HYDRA build details|MVAPICH)[^\n]*?(?:Version:?\s+|$)([\d.]+)?", re.MULTILINE
)
_HYDRA = re.compile(r"^[ \t]*Version:\s+([\d.]+)", re.MULTILINE)
_KEYED = re.compile(r"^ {0,26}(\S[^:]*?): (.*)$")
_LIST = re.compile(r"^ {20,}(\S.*)$")


class Toolkit(Struct, frozen=True, kw_only=True):
    """One nvcc: release "12.8", version "12.8.93"; `error` when it does not run."""

    path: str
    release: str | None = None
    version: str | None = None
    error: str = ""


class CudaToolkits(Fact, frozen=True):
    """Every nvcc found. `first` = the one a bare "nvcc" runs here, None when PATH has none; `sdk` = version.json."""

    toolkits: tuple[Toolkit, ...] = ()
    first: str | None = None
    default: str | None = None
    sdk: dict[str, str] = field(default_factory=dict)

    def at(self, path: str | None) -> Toolkit | None:
        """The nvcc of this path."""
        return next((t for t in self.toolkits if t.path == path), None)


class Compilers(Fact, frozen=True):
    """GCC and MPI as found on PATH; None where they are not there or say nothing we know."""

    gcc: str | None = None
    mpi: str | None = None
    mpi_version: str | None = None
    mpi_path: str | None = None


class CudaVersions(Struct, frozen=True, kw_only=True):
    """version.json of a toolkit. `bundled_driver` was shipped with it and need not be the one loaded."""

    cuda: str | None = None
    nvcc: str | None = None
    bundled_driver: str | None = None
    components: dict[str, str] = field(default_factory=dict)


class OmpiInfo(Struct, frozen=True, kw_only=True):
    """ompi_info: how Open MPI was built. None = neither the configure line nor a component tells."""

    version: str
    prefix: str | None = None
    ucx: bool | None = None
    ofi: bool | None = None
    cuda_built: bool | None = None
    slurm: bool | None = None
    thread_multiple: bool | None = None
    components: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


@source(
    Probe(
        "cuda.toolkits",
        (
            Exec(
                "nvcc",
                ("{}", "--version"),
                timeout_s=5.0,
                each=(
                    "/usr/local/cuda*/bin/nvcc",
                    "/usr/bin/nvcc",
                    "/opt/cuda*/bin/nvcc",
                    "/opt/nvidia/hpc_sdk/*/*/compilers/bin/nvcc",
                ),
            ),
            Exec("bare", ("nvcc", "--version"), timeout_s=5.0),
            Which("which", ("nvcc",)),
            Env("path", ("PATH",)),
            Files("json", ("/usr/local/cuda*/version.json",)),
            Links("links", ("/usr/local/cuda", "/etc/alternatives/cuda")),
        ),
    ),
    sees_missing=True,
)
def cuda_toolkits(raw: RawFact) -> CudaToolkits | Missing:
    """Every nvcc asked for its release; version.json also shows a toolkit whose nvcc is not installed."""
    toolkits = tuple(_toolkit(read.argv[0], read.out, read.err) for read in raw.every("nvcc") if read.argv[0] != "{}")
    sdk = {path.rsplit("/", 1)[0]: v for path, text in raw.files("json").items() if (v := _cuda_of(text))}
    found = raw.files("which")
    if not toolkits and not sdk and not found:
        return Missing("absent", "no CUDA toolkit in /usr/local, /usr/bin, /opt or on PATH")
    links = raw.files("links")
    target = links.get("/usr/local/cuda")
    if target == "/etc/alternatives/cuda":
        target = links.get("/etc/alternatives/cuda", target)
    first, bare = _first(found, raw.files("path")), raw.read("bare")
    if first and bare.state == "ok" and first not in {t.path for t in toolkits}:
        toolkits = (*toolkits, _toolkit(first, bare.out, bare.err))
    return CudaToolkits(toolkits=toolkits, first=first, default=target, sdk=sdk)


def _toolkit(path: str, out: str, err: str) -> Toolkit:
    found = _RELEASE.search(out)
    if found:
        return Toolkit(path=path, release=found[1], version=found[2])
    return Toolkit(path=path, error=(err.strip() or out.strip() or "no answer").splitlines()[-1][:200])


def _first(found: dict[str, str], env: dict[str, str]) -> str | None:
    folders = (folder.rstrip("/") for folder in env.get("PATH", "").split(":") if folder)
    return next((p for folder in folders if (p := f"{folder}/nvcc") in found), None)


def _cuda_of(text: str) -> str | None:
    try:
        return cuda_versions(text).cuda
    except ValueError:
        return None


@source(
    Probe(
        "host.compilers",
        (
            Exec("gcc", ("gcc", "--version"), timeout_s=5.0),
            Exec("mpirun", ("mpirun", "--version"), timeout_s=5.0),
            Which("which", ("mpirun",), also=("/opt/hpcx/ompi/bin/mpirun", "/usr/mpi/gcc/openmpi-*/bin/mpirun")),
        ),
    ),
    sees_missing=True,
)
def host_compilers(raw: RawFact) -> Compilers | Missing:
    """The first line each prints about itself."""
    gcc = _GCC.search(raw.out("gcc"))
    name, version = mpirun(raw.out("mpirun"))
    path = next(iter(raw.files("which")), None)
    if not gcc and not name and not path:
        return Missing("absent", "neither gcc nor mpirun on PATH")
    return Compilers(gcc=gcc[1] if gcc else None, mpi=name, mpi_version=version, mpi_path=path)


def mpirun(text: str) -> tuple[str | None, str | None]:
    """Name and version of the MPI behind `mpirun --version`."""
    if found := _OPEN_MPI.search(text):
        return "Open MPI", found[1] or found[2]
    found = _OTHER_MPI.search(text)
    if not found:
        return None, None
    if found[1].startswith("HYDRA"):
        version = _HYDRA.search(text)
        return "MPICH", version[1] if version else None
    return ("Intel MPI" if found[1].startswith("Intel") else "MVAPICH"), found[2]


def nvcc_version(text: str) -> Toolkit | None:
    """`nvcc --version`; None when the text is a shell saying that there is no nvcc."""
    if found := _RELEASE.search(text):
        return Toolkit(path="nvcc", release=found[1], version=found[2].rstrip("."))
    if _NOT_FOUND.search(text):
        return None
    raise ValueError("not the output of nvcc --version")


@shaped("version.json of a CUDA toolkit")
def cuda_versions(text: str) -> CudaVersions:
    """version.json of a CUDA toolkit (11.1 and later)."""
    match json.loads(text):
        case {"cuda": {"version": _}} as document:
            parts = ((name, part.get("version")) for name, part in document.items() if isinstance(part, dict))
        case _:
            raise ValueError("not the version.json of a CUDA toolkit")
    components = {name: version for name, version in parts if isinstance(version, str)}
    return CudaVersions(
        cuda=components.get("cuda"),
        nvcc=components.get("cuda_nvcc"),
        bundled_driver=components.get("nvidia_driver"),
        components=components,
    )


def ompi_info(text: str) -> OmpiInfo:
    """`ompi_info`: right-aligned keys, wrapped values. The list of MPI extensions does not tell what was built."""
    fields: dict[str, str] = {}
    components: dict[str, list[str]] = {}
    for key, value in _ompi_pairs(text):
        if key.startswith("MCA "):
            components.setdefault(key[4:], []).append(value.split(" ", 1)[0])
        fields.setdefault(key, value)
    if "Open MPI" not in fields:
        raise ValueError("not the output of ompi_info")
    words = frozenset(fields.get("Configure command line", "").replace("'", " ").split())
    present = frozenset(name for names in components.values() for name in names)
    threads = fields.get("Thread support", "")
    return OmpiInfo(
        version=fields["Open MPI"],
        prefix=fields.get("Prefix"),
        ucx=_built("ucx", words, "ucx" in present),
        ofi=_built("ofi", words, "ofi" in present),
        cuda_built=_built("cuda", words, "cuda" in present or "smcuda" in present),
        slurm=_built("slurm", words, "slurm" in present),
        thread_multiple="MPI_THREAD_MULTIPLE: yes" in threads if "MPI_THREAD_MULTIPLE" in threads else None,
        components={kind: tuple(names) for kind, names in components.items()},
        fields=fields,
    )


def _ompi_pairs(text: str) -> Iterator[tuple[str, str]]:
    key, value = "", ""
    for line in text.splitlines():
        found = _KEYED.match(line)
        if found:
            if key:
                yield key, value
            key, value = found[1], found[2].strip()
        elif key and (more := _LIST.match(line)):
            value = f"{value} {more[1].strip()}"
    if key:
        yield key, value


def _built(name: str, words: frozenset[str], component: bool) -> bool | None:  # noqa: FBT001 - one fact of three
    if component:
        return True
    if f"--without-{name}" in words or f"--with-{name}=no" in words:
        return False
    asked = any(w == f"--with-{name}" or w.startswith(f"--with-{name}=") for w in words)
    return True if asked else None


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvcc --version": nvcc_version,
    "version.json": cuda_versions,
    "ompi_info": ompi_info,
    "mpirun --version": mpirun,
}
