"""Nodes, links and mounts that are not what Slurm takes them for."""

from __future__ import annotations

from msgspec.structs import replace

from assay.lab.scenario import Trouble, program
from assay.lab.scenarios.monitoring import checked
from assay.lab.scenarios.provider import HEALTH, but, health, watched

_LOST = "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x00000010 0x00000000)"
_TRAYS = ("gpu03", "gpu07", "gpu11")

ALL = (
    replace(
        checked(
            "gpu-count-7",
            "One of eight GPUs left the bus without a word; Slurm goes on offering eight.",
            ("audit",),
            health(checks="kernel"),
        ),
        trouble=Trouble(states={"gpu02": {"gpus": {"5": ["off-bus"]}}}),
    ),
    but(
        "fabric-cut",
        "All rails and ib0 of a node are down while its management network is up: Slurm has it idle.",
        ("audit",),
        trouble=Trouble(
            states={"gpu03": {"rails_down": [0, 1, 2, 3, 4, 5, 6, 7]}},
            cut={"gpu03": ("ib0",)},
        ),
    ),
    but(
        "straggler",
        "The fabric port of a node lets a fraction of the others' bandwidth pass; nothing looks wrong.",
        ("bench",),
        trouble=Trouble(slow={"gpu03": {"ib0": "40mbit"}}),
    ),
    but(
        "local-scratch-posing-as-shared",
        "/shared of a node is a local file system of the same name: what jobs write there stays there.",
        ("audit",),
        files={"gpu03": {"/etc/rc.local": program("rc-local-scratch")}},
    ),
    but(
        "nvl72-3-of-18",
        "Three of the eighteen trays of an NVLink domain are out at once: the rack counts as down.",
        ("audit", "inject"),
        shape="gb300-nvl72",
        nodes=17,
        slurm=watched(5),
        files={"*": {HEALTH: health()}},
        trouble=Trouble(
            states={tray: {"gpus": {"0": ["lost"]}} for tray in _TRAYS},
            kernel_log=dict.fromkeys(_TRAYS, (f"<3>{_LOST}",)),
        ),
    ),
)
