"""Python and PyTorch as a user finds them on a fresh host."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, missing, ok, skip, unknown, warn
from assay.facts.gpu_presence import GpuPresence
from assay.facts.nvidia import NvidiaSmi
from assay.facts.python_env import PythonEnv, Torch
from assay.model import Missing, Verdict
from assay.profiles.host import Host, older


@check(
    "image.python",
    category="lifecycle",
    severity="medium",
    criteria=("exp-sa-image-ready",),
    why="Without a current python, pip and venv the first hour on a host goes into installing them.",
    fix="apt-get install python3-venv python3-pip, or install uv.",
)
def python(env: PythonEnv | Missing, bar: Host) -> Verdict:
    """Passes when python3 on PATH is current and both a venv and pip (or uv) can be had from it."""
    if isinstance(env, Missing):
        return fail(env.reason) if env.kind == "absent" else missing(env)
    if not env.version:
        return unknown("python3 does not say its version", "failed")
    old = older(env.version, bar.python.value)
    if old is None:
        return unknown(f"python3 {env.version} is no known version", seen=env.version)
    if old:
        return warn(f"python3 is {env.version}", seen=env.version, bar=bar.python.bar())
    lacking = [n for n, there in (("venv", env.venv), ("pip", env.pip or "uv" in env.tools)) if there is False]
    if lacking:
        return warn(f"python3 {env.version} without {' and '.join(lacking)}", seen=lacking)
    return ok(f"python3 {env.version} with venv and pip", seen=env.version)


@check(
    "image.torch",
    category="lifecycle",
    severity="low",
    criteria=("exp-sa-image-ready",),
    why="An old PyTorch on the image lacks kernels for new GPUs and two years of fixes, and users take it for granted.",
    fix="pip install --upgrade torch, in a venv or in the image.",
)
def torch_current(env: PythonEnv, gpus: GpuPresence, bar: Host) -> Verdict:
    """Holds the newest PyTorch found on a GPU host against the oldest release that counts as current."""
    if not gpus.any:
        return skip("no GPU")
    if not env.torches:
        return skip("no PyTorch in the usual places of this host", "absent")
    best = next((t for t in env.torches if older(t.version, bar.torch.value) is False), env.torches[0])
    old = older(best.version, bar.torch.value)
    if old is None:
        return unknown(f"PyTorch {best.version} is no known version", seen=best.version)
    if old:
        return warn(f"PyTorch {best.version} ({best.path})", seen=best.version, bar=bar.torch.bar())
    return ok(f"PyTorch {best.version}", seen=best.version)


@check(
    "torch.gpu",
    category="lifecycle",
    severity="high",
    criteria=("exp-sa-torch-gpu",),
    why="A PyTorch built for another driver, another vendor or no GPU at all sees none of the GPUs paid for.",
    fix="Install the build that fits: pip install torch --index-url of the CUDA or ROCm version of the driver.",
)
def torch_gpu(env: PythonEnv, gpus: GpuPresence, smi: NvidiaSmi | Missing, bar: Host) -> Verdict:
    """Reads what PyTorch was built for, without importing it, and holds that against the driver and the GPUs.

    The first PyTorch found counts, that of python3 on PATH before others. Whether it sees every GPU takes a run.
    """
    if not gpus.any:
        return skip("no GPU")
    if not env.torches:
        return skip("no PyTorch in the usual places of this host", "absent")
    torch = env.torches[0]
    wanted = "AMD" if gpus.amd and not gpus.nvidia else "NVIDIA"
    if torch.cpu_only:
        return fail(f"PyTorch {torch.version} is built without GPU support ({torch.path})", seen=torch.version)
    built = torch.hip if wanted == "AMD" else torch.cuda
    if built is None:
        return fail(f"PyTorch {torch.version} is built for other GPUs than {wanted}", seen=torch.version)
    if wanted == "AMD":
        return ok(f"PyTorch {torch.version} is built for ROCm {built}", seen=built)
    return missing(smi) if isinstance(smi, Missing) else _cuda_build(torch, built, smi, bar)


def _cuda_build(torch: Torch, cuda: str, smi: NvidiaSmi, bar: Host) -> Verdict:
    words = f"PyTorch {torch.version} is built for CUDA {cuda}"
    major = cuda.partition(".")[0]
    if not smi.cuda_version or older(smi.cuda_version, major) is None:
        return unknown("nvidia-smi does not say which CUDA the driver serves", "too-little")
    if older(smi.cuda_version, major):
        return fail(f"{words}, the driver serves up to {smi.cuda_version}", seen=cuda, expected=smi.cuda_version)
    if older(cuda, major) is None:
        return unknown(f"{words}, which is no known release", seen=cuda)
    known, stranger = bar.gpus.all_of(g.name for g in smi.gpus)
    if stranger or not known:
        return unknown(f"no CUDA release is known to be needed for {stranger or 'these GPUs'}", "no-reference")
    for arch in known:
        if older(cuda, arch.runs) or (arch.last and older(arch.last, cuda)):
            return fail(f"{words}, which has no code for {arch.sm}", seen=cuda, bar=bar.gpus.bar(arch.runs))
    return ok(f"{words} and fits the driver ({smi.cuda_version})", seen=cuda)
