"""Settings of Slurm that make a sound cluster useless."""

from __future__ import annotations

from assay.lab.scenario import program
from assay.lab.scenarios.provider import but

_BATCH_ONLY = """\
if job.script == nil and uid ~= 0 then
   slurm.log_user("interactive jobs are switched off on this cluster: use sbatch")
   return slurm.ERROR
end
"""

ALL = (
    but(
        "cpu-default-1",
        "A job that asks for eight GPUs gets one core unless it also asks for cores.",
        ("audit",),
        slurm={"DefCpuPerGPU": None},
    ),
    but(
        "realmemory-2048",
        "Every node is entered with 2048 MB of memory: jobs that name what they need are refused.",
        ("audit",),
        slurm={"DefMemPerCPU": None},
        node_lines={"gpu*": {"RealMemory": "2048"}},
    ),
    but(
        "prolog-hangs",
        "The prolog takes longer than MessageTimeout: whatever starts a job gives it up first.",
        ("audit",),
        slurm={"Prolog": "/etc/slurm/prolog", "PrologFlags": None},
        files={"*": {"/etc/slurm/prolog": program("prolog-hangs")}},
    ),
    but(
        "flat-topology",
        "Nine racks below one switch, as Slurm is told: jobs are spread over racks at random.",
        ("audit",),
        topology="flat",
        nodes=32,
    ),
    but(
        "no-srun-for-users",
        "Users may submit scripts only: whatever wants an interactive job is refused.",
        (),
        submit=_BATCH_ONLY,
    ),
)
