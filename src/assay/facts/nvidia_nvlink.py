"""NVLink of every NVIDIA GPU: `nvidia-smi nvlink -s` (state), `-e` (error counters), `-info` (firmware)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.facts.source import source, why_missing
from assay.model import Exec, Fact, Missing, Probe, RawFact

NvLinkState = Literal["links", "none", "all-inactive", "mig", "unknown"]
Section = tuple[int, str, str, list[str]]

_GPU = re.compile(r"^GPU (\d+): (.+?)(?: \(UUID: (\S+?)\))?\s*$")
_LINK = re.compile(r"^Link (\d+)\s*:\s*(?:([\d.]+) GB/s|<?\s*(inactive)\s*>?)$", re.IGNORECASE)
_COUNTER = re.compile(r"^Link (\d+)\s*:\s*([A-Za-z][\w /-]*?)\s*:\s*(.+)$")
_WHOLE = re.compile(r"^\d+$")


class NvLinkGpu(Struct, frozen=True, kw_only=True):
    """`speeds_gbs` per link, None = inactive. `state`: "none" = product without NVLink, "mig" = hidden by MIG."""

    index: int = 0
    name: str = ""
    uuid: str = ""
    state: NvLinkState = "unknown"
    reason: str = ""
    speeds_gbs: dict[str, float | None] = msgspec.field(default_factory=dict)
    errors: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def total(self) -> int:
        """Links the tool lists, active or not."""
        return len(self.speeds_gbs)

    @property
    def inactive(self) -> tuple[int, ...]:
        """Numbers of the links that are down."""
        return tuple(int(n) for n, speed in self.speeds_gbs.items() if speed is None)


class NvLinks(Fact, frozen=True):
    """NVLink state of all GPUs."""

    gpus: tuple[NvLinkGpu, ...] = ()


@source(
    Probe(
        "nvidia.nvlink",
        (
            Exec("status", ("nvidia-smi", "nvlink", "-s"), timeout_s=20.0),
            Exec("errors", ("nvidia-smi", "nvlink", "-e"), timeout_s=20.0),
        ),
    )
)
def nvidia_nvlink(raw: RawFact) -> NvLinks | Missing:
    """Links per GPU, with the error counters where the tool knows them."""
    status = raw.read("status")
    if status.state != "ok" or status.cut:
        return why_missing([status]) or Missing("unparsable", "nvidia-smi nvlink: the output was cut off")
    if not sections(status.out):
        words = (status.out + status.err).strip().splitlines()
        return Missing("failed", f"nvidia-smi nvlink: {words[0] if words else 'no GPU'}"[:300])
    counters = {index: totals(body) for index, _, _, body in sections(raw.out("errors"))}
    found = links(status.out)
    return NvLinks(gpus=tuple(msgspec.structs.replace(g, errors=counters.get(g.index, {})) for g in found.gpus))


def sections(text: str) -> list[Section]:
    """(index, name, uuid, stripped lines) per GPU."""
    found: list[Section] = []
    for line in text.splitlines():
        body = line.strip()
        if m := _GPU.match(body):
            found.append((int(m[1]), m[2], m[3] or "", []))
        elif found and body:
            found[-1][3].append(body)
    return found


def links(text: str) -> NvLinks:
    """State of every link (`-s`); a sentence in place of links becomes the GPU's state."""
    found = sections(text)
    if not found:
        raise ValueError("no GPU in the output of nvidia-smi nvlink")
    return NvLinks(gpus=tuple(_gpu(*section) for section in found))


def _gpu(index: int, name: str, uuid: str, lines: list[str]) -> NvLinkGpu:
    speeds = {m[1]: float(m[2]) if m[2] else None for line in lines if (m := _LINK.match(line))}
    words = next((line for line in lines if not line.startswith("Link ")), "")
    state = "links" if speeds else _state(words.lower())
    return NvLinkGpu(index=index, name=name, uuid=uuid, state=state, reason=words[:200], speeds_gbs=speeds)


def _state(words: str) -> NvLinkState:
    if "mig" in words:
        return "mig"
    if "all links are inactive" in words:
        return "all-inactive"
    return "none" if "not have or support nvlink" in words or "nvlink not supported" in words else "unknown"


def totals(lines: list[str]) -> dict[str, int]:
    """Sum over the links of every counter (`-e`); counters that are no whole numbers are left out."""
    found: dict[str, int] = {}
    for line in lines:
        if (m := _COUNTER.match(line)) and _WHOLE.match(m[3].strip()):
            found[m[2].lower()] = found.get(m[2].lower(), 0) + int(m[3])
    return found


def counters(text: str) -> dict[int, dict[str, dict[str, str]]]:
    """GPU -> link -> counter -> text, for `-e`, `-c` and `-R`."""
    found: dict[int, dict[str, dict[str, str]]] = {}
    for index, _, _, lines in sections(text):
        gpu = found.setdefault(index, {})
        for m in filter(None, map(_COUNTER.match, lines)):
            gpu.setdefault(m[1], {})[m[2]] = m[3].strip()
    if not found:
        raise ValueError("no GPU in the output of nvidia-smi nvlink")
    return found


def info(text: str) -> dict[int, dict[str, str]]:
    """GPU -> key -> value (`-info`): firmware versions hold colons, so only the first one separates."""
    found: dict[int, dict[str, str]] = {}
    for index, _, _, lines in sections(text):
        pairs = (line.partition(":") for line in lines)
        found[index] = {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
    if not found:
        raise ValueError("no GPU in the output of nvidia-smi nvlink")
    return found


FORMATS: dict[str, Callable[[str], Any]] = {
    "nvidia-smi nvlink -s": links,
    "nvidia-smi nvlink -e": counters,
    "nvidia-smi nvlink -info": info,
}
