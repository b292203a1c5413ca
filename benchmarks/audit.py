"""`assay audit local` here: wall time, CPU, peak memory of CLI and collector; CPU of --help and --version."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from assay.facts.source import sources
from assay.launch.payload import payload

ASSAY = (sys.executable, "-m", "assay")
COLLECTOR = (sys.executable, "-I", "-S", "-B", "-")
TRIES, STARTS = 7, 21


class Cost(NamedTuple):
    """One process with everything it waited for; `mib` = the largest resident set among them."""

    wall_s: float
    cpu_ms: float
    mib: float


def cost(argv: tuple[str, ...], runs: Path, stdin: Path | None = None) -> Cost:
    begin = time.perf_counter()
    with (stdin or Path(os.devnull)).open("rb") as source:
        child = subprocess.Popen(
            argv,
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"ASSAY_RUNS": str(runs)},
        )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):  # 3 = no verdict, as on a machine without GPUs
        sys.exit(f"{' '.join(argv)}: exit status {child.returncode}")
    return Cost(time.perf_counter() - begin, 1000 * (usage.ru_utime + usage.ru_stime), usage.ru_maxrss / 1024)


def spread(values: list[float], unit: str, digits: int = 0) -> str:
    low, high = min(values), max(values)
    return (
        f"{statistics.median(values):.{digits}f} {unit} (min {low:.{digits}f}, max {high:.{digits}f}, n={len(values)})"
    )


def main() -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as directory:
        runs = Path(directory) / "runs"
        for verb in ("--version", "--help"):
            starts = [cost((*ASSAY, verb), runs) for _ in range(STARTS)]
            print(f"assay {verb}: CPU {spread([c.cpu_ms for c in starts], 'ms')}")
        audits = [
            cost((*ASSAY, "audit", "local", "--fresh", "--fail-on", "never", "--json"), runs) for _ in range(TRIES)
        ]
        print(f"assay audit local: wall {spread([c.wall_s for c in audits], 's', 2)}")
        print(f"assay audit local: CPU {spread([c.cpu_ms for c in audits], 'ms')}, collector and tools included")
        print(f"assay audit local: peak memory {spread([c.mib for c in audits], 'MiB', 1)}, the largest process")
        program = Path(directory) / "payload.py"
        program.write_bytes(payload([source.probe for source in sources().values()]))
        alone = [cost(COLLECTOR, runs, program) for _ in range(TRIES)]
        print(f"collector: wall {spread([c.wall_s for c in alone], 's', 2)}")
        print(f"collector: peak memory {spread([c.mib for c in alone], 'MiB', 1)}, its tools included")


if __name__ == "__main__":
    main()
