"""How a lab stands, for people and programs."""

from __future__ import annotations

import re
from typing import Any

from assay.lab import cgroups
from assay.lab.control import Lab
from assay.lab.spec import CONTROL, Spec, spare

_STATE = re.compile(r"^NodeName=(\S+) .*? State=(\S+)(?:.*? Reason=(.*?) \[)?", re.MULTILINE)
_ASK_S = 10.0


def status(name: str) -> dict[str, Any]:
    """Settings, hosts, and what Slurm says of each node ("" where it could not be asked)."""
    lab = Lab(name)
    found = lab.ask("status")
    states = slurm_states(lab) if found["hosts"][CONTROL]["power"] == "on" else {}
    for host, about in found["hosts"].items():
        about["slurm"], about["reason"] = states.get(host, ("", ""))
    spec = found["spec"]
    del found["ok"]
    constrained = spec["constrain"] or f"none: {cgroups.why_not()}"
    return {"name": name, "emulated": True, "device_constraint": constrained, **found}


def slurm_states(lab: Lab) -> dict[str, tuple[str, str]]:
    """Node -> (state, reason) as the controller has them."""
    done = lab.run(CONTROL, ["scontrol", "--oneliner", "show", "node"], timeout_s=_ASK_S)
    return parsed(done.stdout)


def parsed(text: str) -> dict[str, tuple[str, str]]:
    """Node -> (state, reason) in the output of `scontrol --oneliner show node`."""
    return {name: (state, reason) for name, state, reason in _STATE.findall(text)}


def text(found: dict[str, Any]) -> str:
    """The same as a table."""
    about = found["spec"]
    spec = Spec(nodes=about["nodes"])
    kind = [about["shape"], about["scenario"], "accounting" if about["accounting"] else "no accounting"]
    kind += ["Slurm's own time-outs"] if about["slow_defaults"] else []
    trouble = [f"trouble: {found['trouble']}"] if found["trouble"] else []
    lines = [
        f"lab {found['name']!r}: {', '.join(kind)}; hardware emulated",
        f"jobs are kept to their GPUs by: {found['device_constraint']}",
        *trouble,
        "",
        f"{'host':<8} {'role':<8} {'address':<12} {'power':<8} {'boots':>5}  slurm",
    ]
    for host, one in found["hosts"].items():
        role = "spare" if one["role"] == "gpu" and host == spare(spec) else one["role"]
        note = "; ".join(filter(None, (one["reason"], one["trouble"])))
        slurm = one["slurm"] + (f" ({note})" if note else "")
        lines.append(f"{host:<8} {role:<8} {one['address']:<12} {one['power']:<8} {one['boots']:>5}  {slurm}".rstrip())
    return "\n".join(lines)
