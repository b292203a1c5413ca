"""Wait until a lab's hosts have started and Slurm has every node idle; then what a scenario lets befall them."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from assay.errors import AssayError
from assay.lab.control import Lab
from assay.lab.scenario import Scenario
from assay.lab.slurm_conf import named
from assay.lab.spec import CONTROL, Spec, gpu_nodes, hosts

_START_S, _PER_NODE_S, _AFTER_S = 60.0, 1.0, 60.0
_LOOK_S = 0.05
_STATE = re.compile(r"^NodeName=(\S+) .*? State=(\S+)", re.MULTILINE)
_LOG_LINES = 12

T = TypeVar("T")


class Readiness:
    """A lab that is starting. `over` = True once its processes have ended, `log` = the end of its own log."""

    def __init__(self, lab: Lab, spec: Spec, over: Callable[[], bool], log: Callable[[], str]) -> None:
        self.lab, self.spec, self.over, self.log = lab, spec, over, log
        self.until = time.monotonic() + _START_S + _PER_NODE_S * spec.nodes

    def wait(self) -> None:
        """Until every node is idle."""
        while not self.lab.supervisor():
            self._pause("the supervisor did not start")
        while not (status := self.lab.ask("status"))["started"]:
            if status["trouble"]:
                raise AssayError(f"the lab did not start: {status['trouble']}", hint=self._logs(CONTROL))
            self._pause("the hosts did not start in time")
        while missing := self._not_idle():
            self._failed_daemon()
            self._pause(f"not idle in time: {', '.join(missing[:8])}", missing[0])

    def _not_idle(self) -> list[str]:
        done = self.lab.run(CONTROL, ["scontrol", "--oneliner", "show", "node"])
        states = dict(_STATE.findall(done.stdout))
        return [
            f"{name} ({states.get(name, 'unknown')})" for name in gpu_nodes(self.spec) if states.get(name) != "IDLE"
        ]

    def _failed_daemon(self) -> None:
        for name, host in self.lab.ask("status")["hosts"].items():
            failed = [line for line in host["boot"] if line.startswith("failed")]
            if failed or host["trouble"]:
                raise AssayError(f"{name}: {(failed or [host['trouble']])[0]}", hint=self._logs(name))

    def _pause(self, late: str, host: str = CONTROL) -> None:
        if self.over():
            raise AssayError("the lab ended while it started", hint=self.log())
        if time.monotonic() > self.until:
            raise AssayError(late, hint=self._logs(host.partition(" ")[0]) or self.log())
        time.sleep(_LOOK_S)

    def _logs(self, host: str) -> str:
        """The ends of a host's logs and of the lab's own."""
        with contextlib.suppress(AssayError):
            logs = self.lab.ask("log", host)["logs"]
            return "\n".join([*(f"{name}:\n{end(text)}" for name, text in logs.items() if text), self.log()])
        return self.log()


def end(text: str) -> str:
    """Its last lines, indented."""
    return "\n".join(f"    {line}" for line in text.splitlines()[-_LOG_LINES:])


def befall(lab: Lab, spec: Spec, scenario: Scenario) -> None:
    """Let a scenario's trouble come over a lab whose nodes are idle."""
    trouble = scenario.trouble
    for host, fields in _each(trouble.states, spec):
        lab.ask("state", host, fields=dict(fields))
    for host, interfaces in _each(trouble.cut, spec):
        for interface in interfaces:
            lab.ask("link", host, interface=interface, up=False)
    for host, rates in _each(trouble.slow, spec):
        for interface, rate in rates.items():
            lab.ask("rate", host, interface=interface, rate=rate)
    for host, records in _each(trouble.kernel_log, spec):
        for record in records:
            lab.ask("kmsg", host, text=record)
    for host, argv in scenario.after:
        _after(lab, host, argv)


def _each(by_glob: Mapping[str, T], spec: Spec) -> Iterator[tuple[str, T]]:
    for glob, value in by_glob.items():
        for host in hosts(spec):
            if named(host.name, glob, spec):
                yield host.name, value


def _after(lab: Lab, host: str, argv: tuple[str, ...]) -> None:
    done = lab.run(host, argv, timeout_s=_AFTER_S)
    if done.returncode:
        raise AssayError(f"{host}: {' '.join(argv)} failed ({done.returncode})", hint=done.stderr.strip()[-500:])
