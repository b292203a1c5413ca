"""The software that Slurm jobs rely on: MPI, modules, containers."""

from __future__ import annotations

from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, missing, ok, skip, some, unknown, warn
from assay.facts.containers import HpcContainers
from assay.facts.docker import DockerEngine, DockerHost
from assay.facts.gpu_presence import GpuPresence
from assay.facts.modules_env import ModuleSystem
from assay.facts.nccl import NcclSetup
from assay.facts.slurm_login import SrunOptions
from assay.facts.slurm_session import SlurmSession
from assay.model import Missing, Verdict
from assay.slurm.config import SlurmConfig


@check(
    "slurm.mpi.pmix",
    category="orchestration",
    severity="medium",
    criteria=("orch-mpi-pmix", "orch-slurm-stack"),
    why="Without PMIx srun cannot start MPI ranks: every rank believes that it is alone, or users fall back to ssh.",
    fix="Install PMIx and the Slurm built with it (slurm-wlm-pmix, or --with-pmix); MpiDefault=pmix in slurm.conf.",
)
def pmix(srun: SrunOptions, config: SlurmConfig | Missing) -> Verdict:
    """Passes when srun lists a PMIx plugin, and says whether users must name it; warns for PMI2 alone."""
    if not any(name.startswith("pmix") for name in (*srun.mpi, *srun.pmix)):
        return warn(f"srun has no PMIx; it offers {some(srun.mpi)}", seen=list(srun.mpi))
    default = None if isinstance(config, Missing) else config.value("MpiDefault") or "none"
    with_name = "" if default is None or default.startswith("pmix") else f"; the default is {default}: --mpi=pmix"
    return ok(f"srun offers {some(srun.pmix or ('pmix',))}{with_name}", seen=list(srun.mpi))


@check(
    "slurm.mpi.found",
    category="orchestration",
    severity="low",
    criteria=("exp-slurm-mpi",),
    why="An MPI hidden in /opt costs every user an hour, and some build one without support for the fabric.",
    fix="Put HPC-X or Open MPI on PATH, or give it a module (module use /opt/hpcx/modulefiles).",
)
def mpi_found(_job: SlurmSession, mpi: ModuleSystem, nccl: NcclSetup) -> Verdict:
    """Looks on the nodes for HPC-X and for module files of an MPI; warns when HPC-X has no module."""
    words = ("hpcx", "hpc-x", "openmpi", "ompi", "mpich", "mpi", "intelmpi", "mvapich")
    named = [n for n in mpi.names if n.lower().startswith(words)]
    if named:
        return ok(f"modules: {some(named)}", seen=named)
    if nccl.hpcx:
        return warn(f"{some(nccl.hpcx)} is there, and no module in the usual places names it", seen=list(nccl.hpcx))
    return unknown("neither HPC-X nor a module of an MPI in the usual places", "too-little")


@check(
    "slurm.modules",
    category="orchestration",
    severity="medium",
    criteria=("orch-slurm-modules", "orch-slurm-stack"),
    why="Without modules users hunt for compilers, CUDA and MPI, and jobs run with whatever stands first on PATH.",
    fix="apt install lmod (dnf install Lmod); put module files where MODULEPATH points, the same on every node.",
)
def modules(_job: SlurmSession, system: ModuleSystem) -> Verdict:
    """Passes with Lmod or Environment Modules in login shells and module files besides its own; warns for less."""
    name = {"lmod": "Lmod", "tcl": "Environment Modules"}.get(system.kind)
    if name is None:
        return warn("no module system on the nodes")
    if not system.shell:
        return warn(f"{name} is installed, and login shells do not load it")
    if system.names:
        return ok(f"{name} with {len(system.names)} modules", seen=list(system.names[:16]))
    return warn(
        f"{name} without a module file in the usual places; MODULEPATH {some(system.modulepath) or 'is not set'}"
    )


@check(
    "slurm.pyxis",
    category="orchestration",
    severity="medium",
    criteria=("orch-pyxis", "exp-slurm-pyxis", "orch-slurm-stack"),
    why="Without Pyxis a job cannot start from a container image, which is how most training is shipped.",
    fix="Install enroot and Pyxis on every node and the login node; required /usr/lib/slurm/spank_pyxis.so in "
    "plugstack.conf; restart slurmd.",
)
def pyxis(srun: SrunOptions) -> Verdict:
    """Passes when srun on the login node takes --container-image, which only a loaded Pyxis adds; starts nothing."""
    if srun.pyxis:
        return ok("srun takes --container-image: Pyxis is loaded")
    return warn("srun has no --container-image: Pyxis is not loaded", seen=list(srun.plugin_options))


@check(
    "slurm.pyxis.nodes",
    category="orchestration",
    severity="high",
    criteria=("orch-pyxis", "exp-slurm-pyxis"),
    why="A node without the plugin ignores the image or fails the job, depending on the others.",
    fix="Install the same Pyxis and enroot on every node; systemctl restart slurmd.",
)
def pyxis_everywhere(hpc: Fleet[HpcContainers], _jobs: Fleet[SlurmSession]) -> Verdict:
    """Fails when some nodes have Pyxis with enroot and others lack either; skips when no node has Pyxis."""
    if not any(found.pyxis for found in hpc.values()):
        return skip("no node has the library of Pyxis in the usual places")
    whole = {node for node, found in hpc.items() if found.pyxis and found.enroot}
    lacking = [node for node in (*hpc, *hpc.missing) if node not in whole]
    if lacking:
        return fail(f"Pyxis or enroot is missing on {some(lacking)}", seen=lacking)
    return ok(f"Pyxis and enroot on {len(whole)} nodes")


@check(
    "slurm.enroot",
    category="orchestration",
    severity="medium",
    criteria=("orch-enroot", "exp-slurm-enroot"),
    why="Enroot unpacks the images that Pyxis runs; without it containers need a daemon or root.",
    fix="Install enroot and libnvidia-container-tools on every node (github.com/NVIDIA/enroot).",
)
def enroot(_job: SlurmSession, gpus: GpuPresence, hpc: HpcContainers | Missing) -> Verdict:
    """Passes when enroot answers with its version; importing an image needs a job of its own."""
    return _there(gpus, hpc, "enroot", None if isinstance(hpc, Missing) else hpc.enroot)


@check(
    "slurm.apptainer",
    category="orchestration",
    severity="low",
    criteria=("orch-apptainer", "exp-slurm-apptainer"),
    why="Much scientific software is shipped as Apptainer images.",
    fix="apt install apptainer, or the packages of github.com/apptainer/apptainer.",
)
def apptainer(_job: SlurmSession, gpus: GpuPresence, hpc: HpcContainers | Missing) -> Verdict:
    """Passes when Apptainer or Singularity answers with its version."""
    return _there(gpus, hpc, "Apptainer or Singularity", None if isinstance(hpc, Missing) else hpc.apptainer)


def _there(gpus: GpuPresence, hpc: HpcContainers | Missing, name: str, version: str | None) -> Verdict:
    if not gpus.any:
        return skip("no GPU")
    if isinstance(hpc, Missing) and hpc.kind != "absent":
        return unknown(f"container tools: {hpc.reason}", "failed")
    return ok(f"{name} {version}", seen=version) if version else warn(f"no {name} on the node")


@check(
    "slurm.docker",
    category="orchestration",
    severity="medium",
    criteria=("orch-docker-workers", "exp-slurm-docker"),
    why="Users bring Docker images and expect docker run --gpus all to work on a worker.",
    fix="Install docker-ce and nvidia-container-toolkit on the workers; nvidia-ctk runtime configure --runtime=docker.",
)
def docker(
    _job: SlurmSession, gpus: GpuPresence, engine: DockerEngine | Missing, host: DockerHost | Missing
) -> Verdict:
    """Passes when Docker answers and has the vendor's runtime or devices; no container is started."""
    if not gpus.any:
        return skip("no GPU")
    if isinstance(engine, Missing):
        return _no_engine(engine, host)
    name = f"Docker {engine.server_version}" if engine.server_version else "Docker"
    if not gpus.nvidia or "nvidia" in (engine.runtimes or ()) or _cdi(engine):
        return ok(f"{name} with a way to the GPUs", seen=engine.server_version)
    return warn(f"{name} has neither the nvidia runtime nor its devices", seen=list(engine.runtimes or ()))


def _cdi(engine: DockerEngine) -> bool:
    return any(name.startswith("nvidia.com/") for name in engine.cdi_devices or ())


def _no_engine(engine: Missing, host: DockerHost | Missing) -> Verdict:
    if engine.kind != "absent":
        return unknown(f"Docker: {engine.reason}", "failed") if engine.kind != "denied" else missing(engine)
    if isinstance(host, DockerHost) and host.client_version:
        return warn(f"Docker {host.client_version} is installed and its engine does not run")
    return warn("no Docker on the node")
