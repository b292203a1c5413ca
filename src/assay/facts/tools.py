"""Programs a user of a GPU host expects: profilers, and clients of object storage."""

from __future__ import annotations

from msgspec import field

from assay.facts.source import source
from assay.model import Env, Fact, Files, Missing, Probe, RawFact, Stat, Which

_PROFILERS = (
    "ncu", "nsys", "perf", "gdrcopy_copybw", "gdrcopy_sanity", "nvbandwidth", "rocprof", "rocprofv3", "omniperf",
    "py-spy", "bpftrace",
)  # fmt: skip
_CLIENTS = (
    "aws", "s5cmd", "s3cmd", "rclone", "mc", "gsutil", "gcloud", "azcopy", "oci", "mount-s3", "s3fs", "goofys",
    "gcsfuse", "blobfuse2",
)  # fmt: skip


class ProfilingTools(Fact, frozen=True):
    """Profilers by name with their paths. `perf_runs` is False for a wrapper without the tool of the running kernel."""

    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    perf_runs: bool | None = None


class StorageClients(Fact, frozen=True):
    """Clients of object storage by name, and the endpoints this session was given."""

    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    endpoints: dict[str, str] = field(default_factory=dict)


@source(
    Probe(
        "tools.profiling",
        (
            Which(
                "which",
                _PROFILERS,
                also=(
                    "/usr/local/cuda*/bin/ncu",
                    "/usr/local/cuda*/bin/nsys",
                    "/opt/nvidia/nsight-compute/*/ncu",
                    "/opt/nvidia/nsight-systems/*/bin/nsys",
                    "/opt/rocm*/bin/rocprof*",
                ),
            ),
            Files("release", ("/proc/sys/kernel/osrelease",)),
            Files("perf", ("/usr/bin/perf",), cap=64),
            Stat("kernel_perf", ("/usr/lib/linux-tools/*/perf", "/usr/lib/linux-*tools-*/perf")),
        ),
    ),
    sees_missing=True,
)
def tools_profiling(raw: RawFact) -> ProfilingTools | Missing:
    """Ubuntu's /usr/bin/perf is a script that needs a tool of the same name for the running kernel."""
    if raw.read("which").state == "error":
        return Missing("failed", "could not look for programs")
    paths = _paths(raw)
    release = raw.out("release").strip()
    kernels = {path.split("/")[-2].split("tools-")[-1] for path in raw.files("kernel_perf")}
    wrapper = raw.files("perf").get("/usr/bin/perf", "").startswith("#!")
    runs = None if "perf" not in paths else not wrapper or not release or release in kernels
    return ProfilingTools(paths=paths, perf_runs=runs)


@source(
    Probe(
        "tools.object-storage",
        (Which("which", _CLIENTS), Env("endpoints", ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT*"))),
    ),
    sees_missing=True,
)
def tools_object_storage(raw: RawFact) -> StorageClients | Missing:
    """Looks for programs only; no endpoint is spoken to."""
    if raw.read("which").state == "error":
        return Missing("failed", "could not look for programs")
    return StorageClients(paths=_paths(raw), endpoints=raw.files("endpoints"))


def _paths(raw: RawFact) -> dict[str, tuple[str, ...]]:
    paths: dict[str, list[str]] = {}
    for path, name in raw.files("which").items():
        paths.setdefault(name, []).append(path)
    return {name: tuple(found) for name, found in paths.items()}
