"""The CUDA toolkit a user meets."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.nvidia import NvidiaSmi
from assay.facts.toolchain import CudaToolkits, Toolkit
from assay.model import Verdict
from assay.profiles.host import GpuArch, Host, older


def _met_first(toolkits: CudaToolkits) -> Toolkit | None:
    return toolkits.at(toolkits.first) or next(
        (t for t in toolkits.toolkits if t.path == "/usr/local/cuda/bin/nvcc"), None
    )


@check(
    "cuda.nvcc.gpu",
    category="orchestration",
    severity="high",
    criteria=("orch-sane-defaults", "orch-slurm-stack"),
    why="An nvcc older than the GPU cannot compile for it: extensions and kernels fail to build or do not start.",
    fix="Put the toolkit that knows the GPU first: export PATH=/usr/local/cuda/bin:$PATH in /etc/profile.d, "
    "and remove the distribution's nvidia-cuda-toolkit.",
)
def nvcc_for_gpu(toolkits: CudaToolkits, smi: NvidiaSmi, bar: Host) -> Verdict:
    """Holds the nvcc that a bare "nvcc" runs, else the one in /usr/local/cuda, against what the GPUs need.

    Fails below the first release whose code runs on the GPU, warns below the first one that names its architecture.
    """
    nvcc = _met_first(toolkits)
    if nvcc is None:
        return skip("no nvcc on PATH and none in /usr/local/cuda", "absent")
    known, stranger = bar.gpus.all_of(g.name for g in smi.gpus)
    if nvcc.release is None:
        return unknown(f"{nvcc.path} does not say its release: {nvcc.error}", "failed")
    if older(nvcc.release, nvcc.release) is None:
        return unknown(f"{nvcc.path} names an unfamiliar release {nvcc.release}", seen=nvcc.release)
    if stranger or not known:
        return unknown(f"no CUDA release is known to be needed for {stranger or 'these GPUs'}", "no-reference")
    faults = (_unfit(nvcc.path, nvcc.release, arch, bar) for arch in known)
    return next(filter(None, faults), ok(f"{nvcc.path} is CUDA {nvcc.release} and compiles for these GPUs"))


def _unfit(path: str, release: str, arch: GpuArch, bar: Host) -> Verdict | None:
    words = f"{path} is CUDA {release}; {arch.sm} needs {arch.cuda}"
    if older(release, arch.runs):
        return fail(words, seen=release, expected=arch.cuda, bar=bar.gpus.bar(arch.cuda))
    if older(release, arch.cuda):
        return warn(words, seen=release, expected=arch.cuda, bar=bar.gpus.bar(arch.cuda))
    if arch.last and older(arch.last, release):
        return fail(f"{path} is CUDA {release}; support of {arch.sm} ended with {arch.last}", seen=release)
    return None


@check(
    "cuda.nvcc.path",
    category="orchestration",
    severity="medium",
    criteria=("exp-slurm-nvcc", "orch-sane-defaults"),
    why="With no nvcc on PATH, or another than /usr/local/cuda holds, users build against a toolkit they did not mean.",
    fix="Add /usr/local/cuda/bin to PATH in /etc/profile.d/cuda.sh for login and batch shells.",
)
def nvcc_on_path(toolkits: CudaToolkits, gpus: GpuPresence) -> Verdict:
    """Compares the nvcc that PATH of this session finds with the one in /usr/local/cuda."""
    if not gpus.nvidia:
        return skip("no NVIDIA GPU")
    if not toolkits.toolkits and not toolkits.first:
        return warn("CUDA is installed without nvcc: " + ", ".join(sorted(toolkits.sdk)), seen=toolkits.sdk)
    if toolkits.first is None:
        return warn(f"nvcc is not on PATH of this session; there is {toolkits.toolkits[0].path}", seen=None)
    usual = toolkits.at("/usr/local/cuda/bin/nvcc")
    return _compared(toolkits.at(toolkits.first), usual) if usual else ok(f"nvcc is {toolkits.first}")


def _compared(first: Toolkit | None, usual: Toolkit) -> Verdict:
    if first is None or first.release is None or usual.release is None:
        return unknown("nvcc on PATH or in /usr/local/cuda does not say its release", "failed")
    if first.release != usual.release:
        words = f"PATH finds {first.path} (CUDA {first.release}) before /usr/local/cuda (CUDA {usual.release})"
        return warn(words, seen=first.release, expected=usual.release)
    return ok(f"nvcc on PATH is CUDA {first.release}, as in /usr/local/cuda", seen=first.release)
