"""Run a command on a host of the lab with this process's terminal, input and output.

As a program: `python -m assay.lab.enter LAB HOST USER ARGV...`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from assay.errors import AssayError, UsageError
from assay.lab import kernel
from assay.lab.cgroups import CONTROLLERS
from assay.lab.control import Lab

_NAMESPACES = (
    kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWNET | kernel.NEWPID | kernel.NEWTIME | kernel.NEWCGROUP
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_FOUND, _NOT_RUN, _SIGNALLED = 127, 126, 128


def run(pidfd: int, argv: Sequence[str], user: str) -> int:
    """Exit code of argv, run in the namespaces of a host by a process that ends with this one.

    This process itself moves into the host: it is of no use for anything else afterwards.
    """
    if not argv:
        raise UsageError("no command", hint="assay lab exec NODE -- COMMAND")
    kernel.setns(pidfd, _NAMESPACES)
    _join_groups()
    for capability in kernel.OF_THE_MACHINE:
        kernel.drop_capability(capability)
    pid = os.fork()
    if pid == 0:
        _exec(argv, user)
    for number in (signal.SIGINT, signal.SIGQUIT):  # meant for the command, which gets them too
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: os.kill(pid, n))
    _, status = os.waitpid(pid, 0)
    return _SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _join_groups() -> None:
    """Become a member of the host's control groups, where it has some."""
    for controller in CONTROLLERS:
        with contextlib.suppress(OSError), open(f"/sys/fs/cgroup/{controller}/cgroup.procs", "w") as f:  # noqa: PTH123
            f.write("0")


def _exec(argv: Sequence[str], user: str) -> NoReturn:
    code = _NOT_RUN
    try:
        env = _become(user)
        os.execvpe(argv[0], list(argv), env)  # noqa: S606 - argv, no shell
    except FileNotFoundError:
        code = _NOT_FOUND
        sys.stderr.write(f"{argv[0]}: not found\n")
    except (OSError, KeyError) as e:
        sys.stderr.write(f"{argv[0]}: {e}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _become(user: str) -> dict[str, str]:
    """Take on a user of the host; the environment of a login."""
    about = pwd.getpwnam(user)
    os.initgroups(user, about.pw_gid)
    os.setgid(about.pw_gid)
    os.setuid(about.pw_uid)
    kernel.end_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.chdir(about.pw_dir)
    env = {name: os.environ[name] for name in ("TERM",) if name in os.environ}
    return env | {
        "PATH": _PATH, "HOME": about.pw_dir, "USER": user, "LOGNAME": user, "SHELL": about.pw_shell, "LANG": "C.UTF-8",
    }  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Exit code of the command."""
    lab, host, user, *command = argv
    try:
        return run(Lab(lab).enter(host), command, user)
    except AssayError as e:
        sys.stderr.write(f"assay: {e.message}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
