"""CPU time of `assay --help` and `--version`: median, minimum and maximum of 21 starts."""

import os
import statistics
import subprocess
import sys


def cpu_ms(argv: list[str]) -> float:
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return 1000 * (usage.ru_utime + usage.ru_stime)


for verb in ("--version", "--help"):
    times = [cpu_ms([sys.executable, "-m", "assay", verb]) for _ in range(21)]
    print(f"assay {verb}: CPU {statistics.median(times):.0f} ms (min {min(times):.0f}, max {max(times):.0f}, n=21)")
