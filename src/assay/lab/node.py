"""One host of the lab as namespaces: started, and taken down by ending its first process."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from assay.errors import AssayError
from assay.lab import cgroups, emulation, kernel, layer, network, rootfs
from assay.lab.emulation import Picture
from assay.lab.hardware.state import State
from assay.lab.scenario import Scenario
from assay.lab.site import Site
from assay.lab.slurm_conf import named
from assay.lab.spec import Host, Spec

_NAMESPACES = kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWNET | kernel.NEWPID | kernel.NEWTIME
_INIT = f"/{layer.TOOLS}/init"
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}


class Plan(Struct, frozen=True):
    """What all hosts of a lab are started from."""

    spec: Spec
    scenario: Scenario
    site: Site
    database: Path | None = None


def prepare(host: Host, plan: Plan) -> None:
    """Give a host its directories and the files that no other has; once in its life."""
    own = plan.site.host(host.name)
    own.prepare()
    layer.put(own.upper / "etc/hostname", f"{host.name}\n")
    layer.put(own.upper / "etc/assay-emulated", f"lab {plan.spec.shape}\n")  # audits made from inside say so, too
    layer.put(own.upper / "etc/machine-id", machine_id(plan.spec.name, host.name) + "\n")
    for path, (content, mode, owner) in layer.private_files(host.name, plan.spec).items():
        layer.put(own.upper / path, content, mode, owner)
    for glob, files in plan.scenario.files.items():
        for path, file in files.items():
            if not path.startswith("/etc/slurm/") and named(host.name, glob, plan.spec):
                layer.put(own.upper / path[1:], file.now(), file.mode)
    own.state.write_text(emulation.state_text(State(uptime_s=float(plan.spec.uptime_s))), encoding="utf-8")


def machine_id(lab: str, host: str) -> str:
    """The same at every start, another for every host."""
    return hashlib.sha256(f"assay lab {lab} {host}".encode()).hexdigest()[:32]


def start(host: Host, plan: Plan, uptime_s: float, shown: Picture, template: Picture) -> int:
    """Boot a host whose clock says `uptime_s`; the process id of its init. Called by the supervisor."""
    own = plan.site.host(host.name)
    own.boot.write_text("", encoding="ascii")
    own.forget_hardware()

    def become() -> None:
        _become(host, plan, shown, template)

    number, said = os.pipe()
    wait, go = os.pipe()
    between = os.fork()
    if between == 0:  # new namespaces need a process of their own: its child is their first
        _guarded(lambda: _divide(host, plan, uptime_s, (said, wait), become))
    os.close(said)
    os.close(wait)
    os.waitpid(between, 0)
    pid = int(os.read(number, 32) or b"0")
    os.close(number)
    try:
        if not pid:
            raise AssayError(f"{host.name}: no namespaces could be made; the lab's log says why")
        network.plug_in(host, pid)
        os.write(go, b"g")
    finally:
        os.close(go)
    return pid


def _divide(host: Host, plan: Plan, uptime_s: float, pipes: tuple[int, int], become: Callable[[], None]) -> None:
    said, wait = pipes
    if plan.spec.constrain and host.role == "gpu":
        cgroups.join(plan.spec.name, host.name)
    kernel.unshare(_NAMESPACES)
    offset = int(uptime_s - time.clock_gettime(time.CLOCK_BOOTTIME))
    fd = os.open("/proc/self/timens_offsets", os.O_WRONLY)  # before the first fork, or never
    os.write(fd, f"boottime {offset} 0\n".encode())
    os.close(fd)
    pid = os.fork()
    if pid:
        os.write(said, str(pid).encode())
        os._exit(0)
    if os.read(wait, 1) != b"g":  # until its cables are plugged in
        os._exit(1)
    become()


def _become(host: Host, plan: Plan, shown: Picture, template: Picture) -> NoReturn:
    """Turn this process into the host's init."""
    os.setsid()
    kernel.set_hostname(host.name)
    kernel.mount("", "/", flags=kernel.REC | kernel.PRIVATE)
    network.set_up_interfaces(host)
    own = plan.site.host(host.name)
    rootfs.mount_root(host, plan.site, plan.database)
    rootfs.show_hardware(own, shown, template)
    if plan.spec.constrain and host.role == "gpu":
        cgroups.show(own.root / "sys/fs/cgroup")
    kernel.pivot(own.root)
    for capability in kernel.OF_THE_MACHINE:
        kernel.drop_capability(capability)
    os.mkfifo("/run/initctl", 0o600)
    log = os.open("/var/log/boot.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    null = os.open("/dev/null", os.O_RDWR)
    for fd, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(fd, target)
    os.closerange(3, 256)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.execve(_INIT, [_INIT, host.role], _ENVIRONMENT)  # noqa: S606 - argv, no shell


def _guarded(action: Callable[[], None]) -> NoReturn:
    """Run in a forked child: whatever happens, it ends here, and the supervisor's log says why."""
    try:
        action()
    except BaseException:  # noqa: BLE001 - nothing may run on in the child as if it were the supervisor
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(1)
