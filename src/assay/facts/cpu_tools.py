"""What lscpu and numactl print about CPUs and NUMA nodes."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from assay.facts.cpu import Numa, NumaNode, cpu_list
from assay.facts.shapes import shaped
from assay.facts.text import whole

_AVAILABLE = re.compile(r"^[ \t]*available:\s+(\d+) nodes?\b", re.MULTILINE)
_PER_NODE = re.compile(r"^[ \t]*node (\d+) (cpus|size|free):[ \t]*(.*)$", re.MULTILINE)
_DISTANCES = re.compile(r"^[ \t]*(\d+):((?:[ \t]+\d+)+)[ \t]*$", re.MULTILINE)
_NUMA_CPUS = re.compile(r"^NUMA node(\d+) CPU\(s\)$")
_LINE = re.compile(r"^(\s*)([^:]+):(?:\s+(.*))?$")
_KNOWN = frozenset({"Architecture", "CPU(s)", "Model name", "NUMA node(s)", "Vendor ID"})


class Lscpu(Struct, frozen=True, kw_only=True):
    """lscpu: `fields` holds every value of a key, because hybrid CPUs repeat keys; `numa` node -> list of CPUs."""

    architecture: str | None = None
    cpus: int | None = None
    vendor: str | None = None
    models: tuple[str, ...] = ()
    sockets: int | None = None
    cores_per_socket: tuple[int, ...] = ()
    threads_per_core: int | None = None
    max_mhz: tuple[float, ...] = ()
    min_mhz: tuple[float, ...] = ()
    hypervisor: str | None = None
    numa_nodes: int | None = None
    numa: dict[int, str] = field(default_factory=dict)
    vulnerabilities: dict[str, str] = field(default_factory=dict)
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cpu_nodes(self) -> tuple[int, ...]:
        """NUMA nodes with CPUs."""
        return tuple(n for n, cpus in self.numa.items() if cpus)

    @property
    def nodes_without_cpus(self) -> tuple[int, ...]:
        """NUMA nodes without a CPU; lscpu does not say whether they have memory."""
        return tuple(n for n, cpus in self.numa.items() if not cpus)


def lscpu(text: str) -> Lscpu:
    """Flat (util-linux up to 2.36) or grouped layout; indented lines without a key continue the value above."""
    pairs: list[tuple[str, str]] = []
    group = ""
    for line in textwrap.dedent(text).splitlines():
        if line.startswith("#"):
            break
        found = _LINE.match(line)
        if not found or (len(found[1]) > 8 and pairs):
            continue
        key, value = found[2].strip(), (found[3] or "").strip()
        group = (key if not value else "") if not found[1] else group
        pairs.append((f"Vulnerability {key}" if group == "Vulnerabilities" and found[1] else key, value))
    return _lscpu(pairs)


@shaped("lscpu")
def lscpu_json(text: str) -> Lscpu:
    """`lscpu -J`: a list of field and data, nested under "children" in the grouped layout."""
    match json.loads(text):
        case {"lscpu": [{"field": _}, *_] as entries}:
            return _lscpu(_flat(entries, ""))
    raise ValueError("not the JSON of lscpu")


def _flat(entries: Iterable[dict[str, Any]], group: str) -> Iterable[tuple[str, str]]:
    for entry in entries:
        key = str(entry["field"]).rstrip(": ")
        name = f"Vulnerability {key}" if group == "Vulnerabilities" else key
        yield name, str(entry.get("data") or "")
        yield from _flat(entry.get("children", ()), key)


def _lscpu(pairs: Iterable[tuple[str, str]]) -> Lscpu:
    fields: dict[str, list[str]] = {}
    for key, value in pairs:
        fields.setdefault(key, []).append(value)
    if not _KNOWN & fields.keys():
        raise ValueError("not the output of lscpu")
    first = {key: values[0] for key, values in fields.items()}
    return Lscpu(
        architecture=first.get("Architecture"),
        cpus=whole(first.get("CPU(s)")),
        vendor=first.get("Vendor ID"),
        models=tuple(m for m in fields.get("Model name", ()) if m != "-"),
        sockets=whole(first.get("Socket(s)")),
        cores_per_socket=tuple(map(int, filter(str.isdigit, fields.get("Core(s) per socket", ())))),
        threads_per_core=whole(first.get("Thread(s) per core")),
        max_mhz=_distinct(fields.get("CPU max MHz", ())),
        min_mhz=_distinct(fields.get("CPU min MHz", ())),
        hypervisor=first.get("Hypervisor vendor"),
        numa_nodes=whole(first.get("NUMA node(s)")),
        numa={int(found[1]): value for key, value in first.items() if (found := _NUMA_CPUS.match(key))},
        vulnerabilities={
            key.removeprefix("Vulnerability "): value
            for key, value in first.items()
            if key.startswith("Vulnerability ")
        },
        fields={key: tuple(values) for key, values in fields.items()},
    )


def _distinct(values: Iterable[str]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(float(v.replace(",", ".")) for v in values if v and v != "-"))


def numactl(text: str) -> Numa:
    """`numactl -H`, also indented or abridged: `count` says how many nodes there are, `nodes` those shown."""
    available = _AVAILABLE.search(text)
    if not available:
        raise ValueError("not the output of numactl -H: no line with the available nodes")
    seen: dict[int, dict[str, str]] = {}
    for number, what, value in _PER_NODE.findall(text):
        seen.setdefault(int(number), {})[what] = value.strip()
    distances = {int(n): tuple(map(int, row.split())) for n, row in _DISTANCES.findall(text)}
    return Numa(
        count=int(available[1]),
        nodes=tuple(_numactl_node(n, values, distances.get(n, ())) for n, values in sorted(seen.items())),
    )


def _numactl_node(number: int, values: dict[str, str], distances: tuple[int, ...]) -> NumaNode:
    cpus = values.get("cpus")
    return NumaNode(
        id=number,
        cpus=_count(cpus),
        cpu_list=cpus,
        memory_mib=_mib(values.get("size")),
        free_mib=_mib(values.get("free")),
        distances=distances,
    )


def _count(cpus: str | None) -> int | None:
    """How many CPUs; None where the list is not there or was abridged ("0 1 2 ... 71")."""
    try:
        return None if cpus is None else len(cpu_list(",".join(cpus.split())))
    except ValueError:
        return None


def _mib(text: str | None) -> int | None:
    words = text.split() if text else []
    return int(words[0]) if len(words) == 2 and words[1] == "MB" and words[0].isdigit() else None


FORMATS: dict[str, Callable[[str], Any]] = {"lscpu": lscpu, "lscpu -J": lscpu_json, "numactl -H": numactl}
