"""The lab's first process: starts the hosts, starts again who rebooted, and answers the control socket.

It is PID 1 of its own namespaces: when it ends, for whatever reason, the kernel ends everything in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import AssayError
from assay.lab import drivers, emulation, kernel, layer, network, node
from assay.lab.actions import REBOOT, healed
from assay.lab.emulation import Picture
from assay.lab.hardware.state import State
from assay.lab.requests import Requests
from assay.lab.scenarios import fits, scenario
from assay.lab.site import SCRIPTS, Site, say
from assay.lab.spec import CONTROL, Host, Role, Spec, hosts

_NAMESPACES = kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWNET
_CONTROL_S, _LOOK_S, _KMSG_S = 90.0, 0.01, 10.0
_TMPFS = "mode=755,size=75%"


class Machine:
    """A host and what is known of its present life. `zero` = CLOCK_BOOTTIME at which its clock was 0."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.pid, self.pidfd, self.boots = 0, -1, 0
        self.again_at: float | None = None
        self.trouble = ""
        self.shown: Picture | None = None
        self.cut: frozenset[str] = frozenset()
        self.rates: dict[str, str] = {}

    @property
    def power(self) -> str:
        """on, off or booting."""
        return "on" if self.pid else "booting" if self.again_at is not None else "off"


class Supervisor:
    """State of a running lab."""

    def __init__(self, plan: node.Plan, helpers: Mapping[int, str]) -> None:
        self.plan = plan
        self.machines = {host.name: Machine(host) for host in hosts(plan.spec)}
        self.waiting = [host.name for host in hosts(plan.spec)]
        self.trouble = ""
        self.control_until = time.monotonic() + _CONTROL_S
        self.selector = selectors.DefaultSelector()
        self.kernel_logs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.templates: dict[bool, Picture] = {}
        self.helpers = dict(helpers)
        self.next_scenario = ""

    # ---- hosts ----

    def boot(self, name: str) -> None:
        """Start a host that is off; its kernel log starts anew."""
        machine, spec = self.machines[name], self.plan.spec
        uptime = 0.0 if machine.boots else float(spec.uptime_s)
        zero = time.clock_gettime(time.CLOCK_BOOTTIME) - uptime
        self.tell_kernel_log(name, zero=zero, text=f"<5>Linux version {os.uname().release} (emulated machine {name})")
        machine.again_at, machine.trouble = None, ""
        try:
            if machine.boots:
                self.heal(name)
            shown = self.hardware(machine)
            machine.pid = node.start(machine.host, self.plan, uptime, shown, self.template(machine.host.role))
            machine.pidfd = os.pidfd_open(machine.pid)
        except (AssayError, OSError) as e:
            machine.trouble = str(e)
            self.trouble = self.trouble or f"{name} did not start: {e}"
            return
        machine.boots += 1
        self.plug_in_badly(machine)

    def plug_in_badly(self, machine: Machine) -> None:
        """What is wrong with a host's cables outlives its reboots."""
        for interface in machine.cut:
            network.set_link(machine.host, interface, up=False)
        for interface, rate in machine.rates.items():
            network.set_rate(machine.host, interface, rate)

    def start_over(self, name: str) -> None:
        """Switch all hosts off; `step` starts them with another scenario once they are."""
        fits(self.plan.spec, scenario(name))
        self.next_scenario = name
        for host in self.machines:
            self.power_off(host)

    def begin_anew(self, name: str) -> None:
        """A lab as if just made, of hosts that are all off."""
        spec = msgspec.structs.replace(self.plan.spec, scenario=name)
        self.plan = msgspec.structs.replace(self.plan, spec=spec, scenario=scenario(name))
        self.next_scenario, self.trouble = "", ""
        layer.share(self.plan.site, spec, self.plan.scenario)
        for host, machine in self.machines.items():
            self.machines[host] = Machine(machine.host)
            self.plan.site.host(host).forget()
            node.prepare(machine.host, self.plan)
        self.waiting = list(self.machines)
        self.control_until = time.monotonic() + _CONTROL_S

    def heal(self, name: str) -> None:
        """What a reboot cures of a host's hardware."""
        own = self.plan.site.host(name)
        state = emulation.state_of(own.state.read_text(encoding="utf-8"))
        own.state.write_text(emulation.state_text(healed(state, REBOOT)), encoding="utf-8")

    def hardware(self, machine: Machine) -> Picture:
        """What a host's hardware shows in the state that it is in."""
        own = self.plan.site.host(machine.host.name)
        state = emulation.state_of(own.state.read_text(encoding="utf-8"))
        machine.shown = emulation.picture(machine.host, self.plan.spec, state)
        return machine.shown

    def template(self, role: Role) -> Picture:
        """What hosts of a role have in common, written where they can share it."""
        gpu = role == "gpu"
        if gpu not in self.templates:
            self.templates[gpu] = emulation.template(role, self.plan.spec, self.plan.site.template(role) / "sys")
        return self.templates[gpu]

    def set_state(self, name: str, fields: dict[str, Any]) -> None:
        """Change fields of the state of a host's hardware; it shows at once."""
        machine, own = self.machines[name], self.plan.site.host(name)
        state = msgspec.to_builtins(emulation.state_of(own.state.read_text(encoding="utf-8")))
        changed = msgspec.convert(state | fields, State, strict=False)
        before = machine.shown
        own.state.write_text(emulation.state_text(changed), encoding="utf-8")
        after = self.hardware(machine)
        if machine.pid and before:
            emulation.change(before, after, machine.pid, own.proc)

    def power_off(self, name: str) -> None:
        """Cut a host's power."""
        machine = self.machines[name]
        machine.again_at = None
        if machine.pid:
            signal.pidfd_send_signal(machine.pidfd, signal.SIGKILL)

    def reap(self) -> None:
        """Take the exit codes of ended processes; a host whose init got SIGHUP called reboot(2)."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self.helpers:
                self.trouble = self.trouble or f"the process of the {self.helpers[pid]} ended"
            for machine in self.machines.values():
                if machine.pid == pid:
                    self.went_off(machine, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)

    def went_off(self, machine: Machine, number: int) -> None:
        """A host's first process ended by signal `number`."""
        os.close(machine.pidfd)
        machine.pid, machine.pidfd = 0, -1
        if number == signal.SIGHUP:
            machine.again_at = time.monotonic() + self.plan.spec.reboot_s
        elif number not in {signal.SIGINT, signal.SIGKILL}:
            machine.trouble = "its init ended; the lab's log says why"
            self.trouble = self.trouble or f"{machine.host.name}: {machine.trouble}"
        say(f"{machine.host.name} is off (signal {number})")

    def tell_kernel_log(self, name: str, **order: float | str) -> None:
        """Have the kernel log of a host cleared or added to, from outside."""
        self.kernel_logs.sendto(json.dumps({"node": name, **order}).encode(), f"{self.plan.site.kernel_logs}.sock")

    # ---- the start, one step at a time ----

    def told(self, name: str) -> str:
        """What a host's init says of its boot."""
        try:
            return self.plan.site.host(name).boot.read_text(encoding="utf-8")
        except OSError:
            return ""

    def step(self) -> float | None:
        """Do what is due; seconds until there is more to do, None when only events count."""
        if self.next_scenario:
            if any(machine.pid for machine in self.machines.values()):
                return None
            self.begin_anew(self.next_scenario)
        if self.waiting and not self.trouble:
            return self.start_next()
        now = time.monotonic()
        for name, machine in self.machines.items():
            if machine.again_at is not None and machine.again_at <= now:
                self.boot(name)
        due = [machine.again_at for machine in self.machines.values() if machine.again_at is not None]
        return max(min(due) - now, 0) if due else None

    def start_next(self) -> float:
        """Nodes start once the controller listens, so that they register at once."""
        name = self.waiting[0]
        if self.machines[name].host.role == "gpu" and "ready" not in self.told(CONTROL).split():
            if "failed" in self.told(CONTROL) or time.monotonic() > self.control_until:
                self.trouble = f"{CONTROL}: {self.told(CONTROL).strip() or 'its daemons did not start in time'}"
            return _LOOK_S
        self.boot(self.waiting.pop(0))
        return 0

    def run(self, listening: socket.socket, leash: int) -> None:
        """Serve until killed, or until who started the lab is gone before it was up."""
        wake, wakened = os.pipe()
        os.set_blocking(wakened, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
        requests = Requests(self)
        for fd in (wake, leash, listening.fileno()):
            self.selector.register(fd, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select(self.step()):
                if key.fd == leash:
                    if os.read(leash, 1) != b"k":
                        return
                    self.selector.unregister(leash)
                elif key.fd == wake:
                    os.read(wake, 4096)
                else:
                    requests.serve(listening)
            self.reap()


def supervise(spec_plan: node.Plan, image: Path, leash: int) -> None:
    """Make the namespaces and everything in them, then serve. Called as PID 1 of a new process namespace."""
    plan, site = spec_plan, spec_plan.site
    kernel.unshare(_NAMESPACES)
    kernel.mount("", "/", flags=kernel.REC | kernel.SLAVE)
    kernel.mount("proc", "/proc", "proc")
    kernel.mount("tmpfs", site.private, "tmpfs", 0, _TMPFS)
    for directory in (site.layer, site.slurm, site.shared):
        directory.mkdir()
    kernel.mount("shared", site.shared, "tmpfs", 0, "mode=1777,size=50%")
    layer.build(site, plan.spec, plan.scenario, image)
    for host in hosts(plan.spec):
        node.prepare(host, plan)
    network.make_bridges()
    helpers = {_kernel_logs(site, plan.spec): "kernel logs", drivers.start(plan): "emulated drivers"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        with contextlib.suppress(FileNotFoundError):
            site.control.unlink()
        listening.bind(str(site.control))
        listening.listen(64)
        Supervisor(plan, helpers).run(listening, leash)


def _kernel_logs(site: Site, spec: Spec) -> int:
    """Start the process that keeps the kernel logs and wait until they are mounted; its process id."""
    program = SCRIPTS.parent / "kmsg.py"
    argv = [sys.executable, "-IS", str(program), str(site.kernel_logs), *(host.name for host in hosts(spec))]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with selectors.DefaultSelector() as selector:
        stream = process.stdout
        if stream is None or not (selector.register(stream, selectors.EVENT_READ) and selector.select(_KMSG_S)):
            raise AssayError("the kernel logs did not start in time")
        if stream.readline() != b"ready\n":
            raise AssayError("the kernel logs did not start")
    process.returncode = 0  # the supervisor reaps it with all others
    return process.pid
