"""The ROCm installation and what its runtime sees (rocminfo)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.source import source
from assay.facts.text import plain
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact

_BARE = re.compile(r"\[(?:\d{1,2})?m")  # what is left of a colour where somebody lost its escape
_NUMBER = re.compile(r"\s*(\d+)")
_VERSION = re.compile(r"^\s*(\d+(?:\.\d+)+)")
_STATES = (
    ("ROCk module is NOT loaded", "module_not_loaded"),
    ("ROCk module is NOT live", "module_not_live"),
    ("Unable to open /dev/kfd", "no_access"),
    ("not member of", "no_access"),
    ("HSA_STATUS_ERROR", "runtime_error"),
    ("hsa api call failure", "runtime_error"),
)


class RocmAgent(Struct, frozen=True, kw_only=True):
    """One HSA agent: a CPU socket, a GPU or a partition of one."""

    name: str = ""
    product: str = ""
    uuid: str = ""
    kind: str = ""
    node: int | None = None
    bdf: str = ""
    bdfid: int | None = None
    compute_units: int | None = None
    max_clock_mhz: int | None = None
    wavefront: int | None = None
    memory_kib: int | None = None


class Rocm(Fact, frozen=True):
    """`version` = the release under /opt/rocm; `state` = "" or why rocminfo sees nothing (module_not_loaded, ...)."""

    version: str = ""
    versions: tuple[str, ...] = ()
    state: str = ""
    agents: tuple[RocmAgent, ...] = ()
    error: str = ""

    @property
    def gpus(self) -> tuple[RocmAgent, ...]:
        """The agents that are GPUs."""
        return tuple(agent for agent in self.agents if agent.kind == "GPU")


@source(
    Probe(
        "rocm.info",
        (
            Files("release", ("/opt/rocm/.info/version", "/opt/rocm-*/.info/version"), cap=256),
            Exec("rocminfo", ("rocminfo",)),
        ),
    )
)
def rocm_info(raw: RawFact) -> Rocm | Missing:
    """The release files of /opt/rocm and the agents of rocminfo."""
    files = raw.files("release")
    releases = {path: m[1] for path, text in files.items() if (m := _VERSION.match(text))}
    first = releases.get("/opt/rocm/.info/version") or next(iter(releases.values()), "")
    read = raw.read("rocminfo")
    text = read.out + "\n" + read.err
    state = state_of(text)
    if read.state == "timed-out":
        state = "timed_out"
    return Rocm(
        version=first,
        versions=tuple(sorted(set(releases.values()))),
        state=state or ("failed" if read.state in ("error", "denied") else ""),
        agents=agents(read.out),
        error=next((line.strip() for line in text.splitlines() if state and line.strip()), "")[:200],
    )


def state_of(text: str) -> str:
    """Why rocminfo sees nothing, "" when it does not say so."""
    return next((state for words, state in _STATES if words in text), "")


def agents(text: str) -> tuple[RocmAgent, ...]:
    """Agents in order. A new one starts at a `Name:` key indented by two blanks, with or without its frame."""
    blocks: list[dict[str, str]] = []
    pool = ""
    for line in _BARE.sub("", plain(text)).splitlines():
        key, colon, value = line.strip().partition(":")
        if not colon:
            continue
        indent, value = len(line) - len(line.lstrip()), value.lstrip(":").strip()
        if key == "Name" and indent <= 2:
            blocks.append({})
        if not blocks:
            continue
        if key == "Segment":
            pool = value
        elif key == "Size" and pool.startswith("GLOBAL") and "KERNARG" not in pool:
            blocks[-1].setdefault("memory", value)
        elif indent <= 2:
            blocks[-1].setdefault(key, value)
    return tuple(map(_agent, blocks))


def _agent(block: dict[str, str]) -> RocmAgent:
    bdfid = _int(block.get("BDFID"))
    kind = block.get("Device Type", "")
    return RocmAgent(
        name=block["Name"],
        product=block.get("Marketing Name", ""),
        uuid=block.get("Uuid", ""),
        kind=kind,
        node=_int(block.get("Node")),
        bdfid=bdfid,
        bdf=_bdf(bdfid, _int(block.get("Domain"))) if kind == "GPU" and bdfid is not None else "",
        compute_units=_int(block.get("Compute Unit")),
        max_clock_mhz=_int(block.get("Max Clock Freq. (MHz)")),
        wavefront=_int(block.get("Wavefront Size")),
        memory_kib=_int(block.get("memory")),
    )


def _bdf(bdfid: int, domain: int | None) -> str:
    """BDFID is bus << 8 | device << 3 | function."""
    return f"{domain or 0:04x}:{bdfid >> 8 & 0xFF:02x}:{bdfid >> 3 & 0x1F:02x}.{bdfid & 7}"


def _int(text: str | None) -> int | None:
    m = _NUMBER.match(text) if text else None
    return int(m[1]) if m else None


def rocminfo(text: str) -> Rocm:
    """Output of rocminfo; ValueError when it is neither a list of agents nor a known refusal."""
    found, state = agents(text), state_of(text)
    if not found and not state:
        raise ValueError("no agent in the output of rocminfo")
    return Rocm(agents=found, state=state, error=text.strip().splitlines()[0] if state else "")


FORMATS: dict[str, Callable[[str], Any]] = {"rocminfo": rocminfo}
