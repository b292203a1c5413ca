"""Fabric Manager and IMEX: what NVLink fabrics need beside the driver."""

from __future__ import annotations

from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts

_LOG = """\
[Oct 10 2026 08:51:02] [INFO] [tid 2201] Fabric Manager version {driver} is running
[Oct 10 2026 08:51:02] [INFO] [tid 2201] Logging level = 4
[Oct 10 2026 08:51:04] [INFO] [tid 2201] Connected to 1 node.
[Oct 10 2026 08:51:14] [INFO] [tid 2201] Successfully configured all the available GPUs and NVSwitches.
"""
_TRAYS = 18


def fabric_manager(state: State) -> Parts:
    """nv-fabricmanager and its log."""
    parts = Parts()
    parts.program("/usr/bin/nv-fabricmanager", {"--version": f"Fabric Manager version is : {state.driver}\n"})
    parts.files["/var/log/fabricmanager.log"] = _LOG.format(driver=state.driver)
    parts.modes["/var/log/fabricmanager.log"] = "f 0640 0 0 0:0"
    return parts


def imex(shape: Shape, state: State) -> Parts:
    """nvidia-imex on a tray of a rack of 18."""
    parts = Parts()
    if not shape.domain:
        return parts
    addresses = [f"10.203.4.{11 + i}" for i in range(_TRAYS)]
    parts.program("/usr/bin/nvidia-imex", {"--version": f"IMEX version is: {state.driver}\n"})
    nodes = "".join(
        f"Node #{i:<4}- {a:<16}- READY                - Version: {state.driver}\n" for i, a in enumerate(addresses)
    )
    head = "      ".join(("", *map(str, range(_TRAYS))))
    rows = "".join(f"{i:>8}   {'     '.join(['C'] * _TRAYS)}\n" for i in range(_TRAYS))
    text = (
        "Connectivity Table Legend:\nI - Invalid - Node wasn't reachable, no connection status available\n"
        "N - Never Connected\nR - Recovering - Connection was lost, but clean up has not yet been triggered.\n"
        "D - Disconnected - Connection was lost, and clean up has been triggered.\n"
        "A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.\n"
        "!V! - Version mismatch, communication disabled.\n!M! - Node map mismatch, communication disabled.\n"
        "C - Connected - Ready for operation\n\n11/2/2026 09:00:00.580\nNodes:\n"
        f"{nodes}\n Nodes From\\To{head}\n{rows}\nDomain State: UP\n"
    )
    parts.program("/usr/bin/nvidia-imex-ctl", {"-q": "READY\n", "-N": text})
    parts.files["/etc/nvidia-imex/nodes_config.cfg"] = "".join(f"{a}\n" for a in addresses)
    return parts
