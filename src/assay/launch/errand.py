"""What is asked through Slurm, and what its login node is asked on the way."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Generator, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from assay.errors import LaunchError, NoVerdict
from assay.launch.answer import Answer
from assay.launch.fleet_wire import FleetWire
from assay.launch.payload import payload
from assay.launch.prefix import login
from assay.launch.slurm_script import Group
from assay.model import Job, Probe, Target

IDLE_S = 30.0  # in which Slurm has to hand over nodes that are idle
START_S = 120.0  # prologs and starting the tasks
END_S = 15.0  # relay and ssh around all that
TIDY_S = 15.0  # for tasks that wrote something
SHORT_S = 60.0  # submitting and cancelling


class Errand(Struct, frozen=True):
    """What to ask which nodes. `wait_s` = how long nodes that are busy may take to become free."""

    target: Target
    probes: tuple[Probe, ...]
    aliases: Mapping[str, str]
    controller: str = "slurmctld"
    wait_s: float = 0.0

    @property
    def tidy_s(self) -> float:
        """What tasks need to tidy up when the job is given up: a collector leaves nothing."""
        return 0.0

    def queue_s(self, group: Group) -> float:
        """How long a job may wait for its nodes."""
        return max(self.wait_s, IDLE_S) if group.wait else IDLE_S

    def wire(self, group: Group, method: Literal["srun", "sbatch"]) -> FleetWire:
        """A new job for a group, and who listens to it."""
        name = f"assay-{secrets.token_hex(6)}"
        return FleetWire(Job(name=name, method=method, nodes=group.nodes), self.probes, self.aliases, group)

    def program(self) -> bytes:
        """The collector, as every task gets it."""
        limit_s = self.target.timeout_s
        return payload(self.probes, deadline_s=max(limit_s - 2, limit_s * 0.8), framed=True)


def after(errand: Errand, wires: Iterable[FleetWire]) -> Generator[Answer, None, list[FleetWire]]:
    """The wires whose job was refused; NoVerdict when slurmctld was lost."""
    refused: list[FleetWire] = []
    for wire in wires:
        if wire.lost:
            raise lost(errand, wire.lost)
        if wire.trouble and wire.trouble.kind == "busy":
            yield from wire.refused()
        elif wire.trouble:
            refused.append(wire)
    return refused


def lost(errand: Errand, words: str) -> NoVerdict:
    """What to say when slurmctld stops answering."""
    return NoVerdict(f"{errand.controller} does not answer: {words}", hint="what was read is kept")


def ask_login(target: Target, program: bytes, timeout_s: float = SHORT_S) -> subprocess.CompletedProcess[bytes]:
    """Run a short program on the login node. Exit status 124 when it took too long."""
    argv = login(target)
    try:
        return subprocess.run(
            argv, input=program, capture_output=True, check=False, timeout=timeout_s,
            start_new_session=True, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    except OSError as e:
        raise LaunchError(f"{argv[0]} cannot be started: {e.strerror}") from e
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, b"", f"no answer within {timeout_s:g} s".encode())
