"""An audit changes nothing and sends nothing: every system call of it is looked at."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NETWORK = {"connect", "sendto", "sendmsg", "bind"}
CHANGING = {
    "adjtimex", "bpf", "clock_settime", "delete_module", "finit_module", "init_module", "kexec_load", "mount", "reboot",
    "sethostname", "setdomainname", "settimeofday", "swapoff", "swapon", "umount2",
}  # fmt: skip
WRITING = {
    "chmod", "chown", "creat", "fchmodat", "fchownat", "link", "linkat", "mkdir", "mkdirat", "mknod", "mknodat", "open",
    "openat", "rename", "renameat", "renameat2", "rmdir", "symlink", "symlinkat", "truncate", "unlink", "unlinkat",
}  # fmt: skip
MOVING = (
    "quota/syncs", "random/", "fs/dentry-state", "fs/inode", "fs/file-nr", "kernel/ns_last_pid", "kernel/pty/nr",
    "fs/aio-nr", "net/netfilter",
)  # fmt: skip
CALL = re.compile(r"^\d+\s+(\w+)\((.*)")


def changes(trace: str, allowed: tuple[str, ...]) -> list[str]:
    """Traced calls that succeeded in changing something outside `allowed`."""
    found = []
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call or " = -1 " in line or call[1] in NETWORK:
            continue
        reading = call[1] in ("open", "openat") and not re.search("O_WRONLY|O_RDWR|O_CREAT", line)
        if not reading and not any(f'"{path}' in line for path in allowed):
            found.append(line)
    return found


def snapshot() -> dict[str, str]:
    """Mounts, modules and kernel settings, without the counters that change by themselves."""
    state = {p: Path(p).read_text() for p in ("/proc/self/mounts", "/proc/modules") if Path(p).exists()}
    for path in Path("/proc/sys").rglob("*"):
        if path.is_file() and not any(m in str(path) for m in MOVING):
            try:
                state[str(path)] = path.read_text(errors="replace")
            except OSError:
                continue
    return state


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="strace is not installed")
def test_an_audit_changes_nothing_and_sends_nothing(tmp_path: Path) -> None:
    runs, trace = tmp_path / "runs", tmp_path / "trace"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ASSAY_RUNS": str(runs), "PYTHONDONTWRITEBYTECODE": "1"}
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={','.join(sorted(NETWORK | CHANGING | WRITING))}"]
    before = snapshot()
    done = subprocess.run(
        [*traced, sys.executable, "-m", "assay", "audit", "local", "--fail-on", "never"],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 3), done.stderr
    assert snapshot() == before
    text = trace.read_text()
    assert [line for line in text.splitlines() if "AF_INET" in line] == []
    assert changes(text, (str(runs), "/dev/null", "/dev/tty", "/proc/self/")) == []
    assert changes('7 unlink("/etc/passwd") = 0', (str(runs),)), "the test itself must see a change"
