"""crictl: what the container runtime of a Kubernetes node tells the kubelet. Formats only, no source."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.text import json_object

_COLUMN = re.compile(r"\S+(?: \S+)*")
_PAIR = re.compile(r"^([A-Za-z]+): +(\S+)\s*$", re.MULTILINE)


class CriInfo(Struct, frozen=True):
    """`crictl info`. None where the runtime does not say."""

    runtime_ready: bool | None = None
    network_ready: bool | None = None
    messages: tuple[str, ...] = ()
    default_runtime: str | None = None
    runtimes: tuple[str, ...] | None = None
    enable_cdi: bool | None = None
    cdi_dirs: tuple[str, ...] | None = None
    systemd_cgroup: bool | None = None
    snapshotter: str | None = None
    sandbox_image: str | None = None


def cri_info(text: str) -> CriInfo:
    """`crictl info`, JSON; the configuration is left out by some versions."""
    info = json_object(text, "crictl info")
    conditions = {c.get("type"): c for c in (info.get("status") or {}).get("conditions") or ()}
    config = info.get("config") or {}
    if not conditions and not config:
        raise ValueError("not the JSON of crictl info")
    engine = config.get("containerd") or {}
    runtimes = engine.get("runtimes")
    directories = config.get("cdiSpecDirs")
    return CriInfo(
        runtime_ready=conditions.get("RuntimeReady", {}).get("status"),
        network_ready=conditions.get("NetworkReady", {}).get("status"),
        messages=tuple(c["message"] for c in conditions.values() if c.get("message")),
        default_runtime=engine.get("defaultRuntimeName"),
        runtimes=tuple(sorted(runtimes)) if runtimes is not None else None,
        enable_cdi=config.get("enableCDI"),
        cdi_dirs=tuple(directories) if directories is not None else None,
        systemd_cgroup=config.get("systemdCgroup"),
        snapshotter=engine.get("snapshotter"),
        sandbox_image=config.get("sandboxImage"),
    )


def cri_containers(text: str) -> list[dict[str, str]]:
    """`crictl ps -a`: one dict per container, keys as in the header, lower case, blanks as "_".

    Columns are found by the header's offsets; a cell that overflows its column pushes the rest, so such a row
    is cut at runs of two blanks instead.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if line.startswith("CONTAINER") and " STATE" in line), None)
    if start is None:
        raise ValueError("no header of crictl ps")
    heads = [(m.start(), m[0].lower().replace(" ", "_")) for m in _COLUMN.finditer(lines[start])]
    return [_row(line, heads) for line in lines[start + 1 :]]


def _row(line: str, heads: list[tuple[int, str]]) -> dict[str, str]:
    cells = re.split(r" {2,}", line.strip())
    if len(cells) == len(heads):
        return {name: cell for (_, name), cell in zip(heads, cells, strict=True)}
    ends = [*(at for at, _ in heads[1:]), len(line)]
    return {name: line[at:end].strip() for (at, name), end in zip(heads, ends, strict=True)}


def cri_version(text: str) -> dict[str, str]:
    """`crictl version`: keys lower case; "version" is that of the API, "runtimeversion" that of the runtime."""
    pairs = {key.lower(): value for key, value in _PAIR.findall(text)}
    if "runtimename" not in pairs:
        raise ValueError("not the text of crictl version")
    return pairs


FORMATS: dict[str, Callable[[str], Any]] = {
    "crictl info": cri_info,
    "crictl ps": cri_containers,
    "crictl ps -a": cri_containers,
    "crictl version": cri_version,
}
