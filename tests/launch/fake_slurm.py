"""Programs of a pretended Slurm: one file under many names, its mood and its records beside it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from assay.slurm.hostlist import expand

HERE = Path(__file__).parent
NAME = Path(sys.argv[0]).name
ARGS = sys.argv[1:]
MOOD = (HERE / "mood").read_text().split()
WORDS = {
    "busy": "srun: error: Unable to allocate resources: Requested nodes are busy",
    "down": "srun: error: Unable to allocate resources: Unable to contact slurm controller (connect failure)",
    "refused": "srun: error: lua: interactive jobs are not taken\nsrun: error: Unable to allocate resources: "
    "Access/permission denied",
    "account": "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
}


def note(**more: object) -> None:
    with (HERE / "calls").open("a") as file:
        file.write(json.dumps({"name": NAME, "args": ARGS, **more}) + "\n")


def option(key: str) -> str:
    return next((a.partition("=")[2] for a in ARGS if a.startswith(f"--{key}=")), "")


def srun() -> int:
    note()
    inner = bool(os.environ.get("FAKE_JOB"))
    if not inner and (said := next((WORDS[m] for m in MOOD if m in WORDS), "")):
        sys.stderr.write(said + "\n")
        return 1
    program = sys.stdin.buffer.read()
    nodes = expand(option("nodelist") or os.environ.get("FAKE_JOB", ""))
    tasks = {node: start(node, program) for node in nodes}
    if "hang" in MOOD:
        signal.signal(signal.SIGTERM, lambda *_: (note(ended=True), os._exit(143)))
        time.sleep(60)
    outputs = []
    for rank, (node, task) in enumerate(tasks.items()):
        out = task.communicate()[0] if task else b""
        if node.startswith("cut"):
            out = b"\n".join(out.split(b"\n")[:4])
        if node.startswith(("cut", "nopython")):
            sys.stderr.write(f"slurmstepd-{node}: error: execve(): python3: No such file or directory\n" * (not task))
            sys.stderr.write(f"srun: error: {node}: task {rank}: Exited with exit code 2\n")
        outputs.append(out.split(b"\n"))
    mix(outputs)
    if "forgets" in MOOD:
        sys.stderr.write("srun: error: Unable to contact slurm controller (connect failure)\n")
    return 0


def start(node: str, program: bytes) -> "subprocess.Popen[bytes] | None":
    if node.startswith("nopython"):
        return None
    env = os.environ | {"SLURMD_NODENAME": node}
    task = subprocess.Popen([sys.executable, "-I", "-S", "-B", "-"], stdin=-1, stdout=-1, env=env)
    assert task.stdin
    task.stdin.write(program)
    task.stdin.close()
    task.stdin = None
    return task


def mix(outputs: "list[list[bytes]]") -> None:
    """Lines of all tasks by turns, as srun writes them; a piece of a long line sticks to somebody else's."""
    out = sys.stdout.buffer
    if "noisy" in MOOD:
        out.write(b"motd " + b"x" * 5000)
    while any(outputs):
        for lines in outputs:
            if lines and (line := lines.pop(0)):
                out.write(line + b"\n")
    out.flush()


def sbatch() -> int:
    note()
    if "nobatch" in MOOD:
        sys.stderr.write("sbatch: error: Batch job submission failed: Access/permission denied\n")
        return 1
    script = Path(ARGS[-1])
    nodes = next(x.partition("=")[2] for x in script.read_text().splitlines() if x.startswith("#SBATCH --nodelist="))
    with open(option("output"), "wb") as out, open(option("error"), "wb") as err:  # noqa: PTH123
        env = os.environ | {"FAKE_JOB": nodes}
        job = subprocess.Popen(["sh", str(script)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)
    (HERE / "job").write_text(str(job.pid))
    sys.stdout.write("77;c1\n")
    return 0


def squeue() -> int:
    pid = (HERE / "job").read_text() if (HERE / "job").exists() else ""
    try:
        running = bool(pid) and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        running = False
    if running:
        sys.stdout.write("RUNNING|None\n")
    return 0


def scancel() -> int:
    note()
    return 0


if __name__ == "__main__":
    sys.exit(globals()[NAME]())
