"""What is wrong with an emulated machine. The empty state is a healthy, idle one."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Fault = Literal["lost", "off-bus", "ecc", "remap-pending", "throttle", "hot", "busy"]


class State(Struct, frozen=True, kw_only=True):
    """Faults by GPU index, cards that are down, and what the machine has been doing.

    `lost` = the driver lost it, nvidia-smi says so; `off-bus` = gone from the PCI bus as well.
    """

    gpus: dict[int, frozenset[Fault]] = {}
    rails_down: frozenset[int] = frozenset()
    acs: bool = False
    uptime_s: float = 1_987_654.32
    driver: str = "580.178.04"
    cuda: str = "13.0"
    rocm: str = "7.14.0"
    amdgpu: str = "6.16.13"

    def has(self, gpu: int, fault: Fault) -> bool:
        """True when the GPU of this index has the fault."""
        return fault in self.gpus.get(gpu, frozenset())
