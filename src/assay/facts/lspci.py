"""Outputs of lspci: list, -nn, -vvv, -tv, -vmmkn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

_HEAD = re.compile(
    r"^[ \t]*((?:[0-9a-f]{4,}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]+(\S.*?)(?:\s\[([0-9a-f]{4})\])?:\s(.*)$",
    re.MULTILINE,
)
_IDS = re.compile(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)")
_LNKCAP = re.compile(r"^[ \t]+LnkCap:\s.*?Speed\s+([\d.]+|unknown)(?:GT/s)?,\s+Width\s+x(\d+)", re.MULTILINE)
_LNKSTA = re.compile(
    r"^[ \t]+LnkSta:\s+Speed\s+([\d.]+|unknown)(?:GT/s)?(?:\s+\((\w+)\))?,\s+Width\s+x(\d+)(?:\s+\((\w+)\))?",
    re.MULTILINE,
)
_ROLE = re.compile(r"^[ \t]+Capabilities: \[[0-9a-f]+\] Express \(v\d\) ([^,(]+?)(?: \(Slot[+-]\))?,", re.MULTILINE)
_ACS = re.compile(r"^[ \t]+ACSCtl:\s+(.*)$", re.MULTILINE)
_REGISTER = re.compile(r"^[ \t]+(CESta|UESta|DevSta|DpcSta):\s+(.*)$", re.MULTILINE)
_SLOT = re.compile(r"^[ \t]+Physical Slot:\s+(\S+)", re.MULTILINE)
_NUMA = re.compile(r"^[ \t]+NUMA node:\s+(\d+)", re.MULTILINE)
_BUS = re.compile(
    r"^[ \t]+Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})", re.MULTILINE
)
_PAYLOAD = re.compile(r"MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes")
_GROUP = re.compile(r"^[ \t]+IOMMU group:\s+(\d+)", re.MULTILINE)
_DRIVER = re.compile(r"^[ \t]+Kernel driver in use:\s+(\S+)", re.MULTILINE)
_ROOT = re.compile(r"\[([0-9a-f]{4,}:[0-9a-f]{2})\]-")
_LEAF = re.compile(r"([0-9a-f]{2}\.[0-7])(?:-\[([0-9a-f]{2})(?:-([0-9a-f]{2}))?\])?")

NVSWITCH_IDS = frozenset({"10de:1ac0", "10de:1ac1", "10de:1ac2", "10de:1af1", "10de:22a3", "10de:22a4"})
_GPU_CLASSES = ("3D controller", "VGA compatible controller", "Display controller", "Processing accelerators")


class Link(Struct, frozen=True, kw_only=True):
    """A PCIe link as one end reports it. `*_ok` are lspci's own marks, None where this version prints none."""

    gts: float | None = None
    width: int | None = None
    speed_ok: bool | None = None
    width_ok: bool | None = None


class LspciDevice(Struct, frozen=True, kw_only=True):
    """One block of lspci. `acs_on` = set bits of ACSCtl, None where it is not shown; `gone` = reads all ones."""

    slot: str
    kind: str = ""
    kind_id: str = ""
    name: str = ""
    id: str = ""
    revision: str = ""
    role: str = ""
    physical_slot: str = ""
    numa_node: int | None = None
    buses: tuple[str, str, str] | None = None
    link_max: Link | None = None
    link: Link | None = None
    acs_on: tuple[str, ...] | None = None
    registers: dict[str, tuple[str, ...]] = {}
    driver: str = ""
    max_payload_b: int | None = None
    max_read_request_b: int | None = None
    iommu_group: int | None = None
    denied: bool = False
    gone: bool = False

    @property
    def gpu(self) -> bool:
        """A display or compute controller of NVIDIA or AMD."""
        maker = self.id.startswith(("10de:", "1002:")) or self.name.lower().startswith(("nvidia", "advanced micro dev"))
        return maker and (self.kind in _GPU_CLASSES or self.kind_id in ("0300", "0302", "0380", "1200"))

    @property
    def nic(self) -> bool:
        """An Ethernet or InfiniBand controller."""
        return self.kind_id.startswith("02") or self.kind in ("Ethernet controller", "Infiniband controller")

    @property
    def nvswitch(self) -> bool:
        """An NVSwitch, which is a bridge of class 0680."""
        bridge = self.kind_id == "0680" or self.kind == "Bridge"
        return self.id in NVSWITCH_IDS or (
            bridge and (self.id.startswith("10de:") or self.name.lower().startswith("nvidia"))
        )


def lspci(text: str) -> tuple[LspciDevice, ...]:
    """Devices of any verbosity, with or without numbers; text around the blocks is passed over."""
    found = list(_HEAD.finditer(text))
    if not found:
        raise ValueError("no device line in it: not the output of lspci")
    ends = [m.start() for m in found[1:]] + [len(text)]
    return tuple(_device(m, text[m.end() : end]) for m, end in zip(found, ends, strict=True))


def _device(m: re.Match[str], body: str) -> LspciDevice:
    slot, kind, kind_id, name = m.groups()
    ids = _IDS.findall(name)
    if not kind_id and len(kind) == 4 and _IDS.match(f"[{name[:9]}]"):
        kind, kind_id, ids = "", kind, [name[:9]]
    revision = _REVISION.search(name)
    head = LspciDevice(
        slot=slot,
        kind=kind,
        kind_id=kind_id or "",
        name=name,
        id=ids[-1] if ids else "",
        revision=revision[1] if revision else "",
        gone=bool(revision and revision[1] == "ff") or "Unknown header type 7f" in body,
    )
    return _verbose(head, body) if body.strip() else head


def _verbose(head: LspciDevice, body: str) -> LspciDevice:
    role, slot, numa, acs = _ROLE.search(body), _SLOT.search(body), _NUMA.search(body), _ACS.search(body)
    buses, driver, group = _BUS.search(body), _DRIVER.search(body), _GROUP.search(body)
    payload = _PAYLOAD.search(body)
    return LspciDevice(
        slot=head.slot, kind=head.kind, kind_id=head.kind_id, name=head.name, id=head.id, revision=head.revision,
        gone=head.gone,
        role=role[1] if role else "",
        physical_slot=slot[1] if slot else "",
        numa_node=int(numa[1]) if numa else None,
        buses=(buses[1], buses[2], buses[3]) if buses else None,
        link_max=_capability(body),
        link=_state(body),
        acs_on=set_bits(acs[1]) if acs else None,
        registers={name: set_bits(bits) for name, bits in _REGISTER.findall(body)},
        driver=driver[1] if driver else "",
        max_payload_b=int(payload[1]) if payload else None,
        max_read_request_b=int(payload[2]) if payload else None,
        iommu_group=int(group[1]) if group else None,
        denied="<access denied>" in body,
    )  # fmt: skip


def _capability(body: str) -> Link | None:
    m = _LNKCAP.search(body)
    return Link(gts=_gts(m[1]), width=int(m[2])) if m else None


def _state(body: str) -> Link | None:
    m = _LNKSTA.search(body)
    return Link(gts=_gts(m[1]), speed_ok=_ok(m[2]), width=int(m[3]), width_ok=_ok(m[4])) if m else None


def _gts(text: str) -> float | None:
    return None if text == "unknown" else float(text)


def _ok(mark: str | None) -> bool | None:
    return None if mark is None else mark != "downgraded"  # "overdriven" is above the capability: no loss


def set_bits(flags: str) -> tuple[str, ...]:
    """Names of the set bits: "SrcValid+ TransBlk-" -> ("SrcValid",)."""
    return tuple(word[:-1] for word in flags.split() if word.endswith("+"))


def downgraded(device: LspciDevice) -> bool | None:
    """True when the link is below this end's own capability; None where lspci shows no link."""
    cap, now = device.link_max, device.link
    if cap is None or now is None or not now.width or not cap.width:
        return None
    return now.width < cap.width or (now.gts is not None and cap.gts is not None and now.gts < cap.gts)


def lspci_machine(text: str) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """Records of `lspci -vmm`: key -> values (Module may repeat)."""
    records: list[dict[str, tuple[str, ...]]] = []
    record: dict[str, tuple[str, ...]] = {}
    for line in [*text.splitlines(), ""]:
        key, colon, value = line.partition(":")
        if colon and key.strip():
            record[key.strip()] = (*record.get(key.strip(), ()), value.strip())
        elif record:
            records.append(record)
            record = {}
    if not records or not all("Slot" in r for r in records):
        raise ValueError("records without Slot: not the output of lspci -vmm")
    return tuple(records)


class TreeNode(Struct, frozen=True, kw_only=True):
    """One device of `lspci -tv`: the root it hangs from ("0000:00"), its bus, its place, what it is."""

    root: str
    bus: str
    slot: str
    name: str = ""
    buses: tuple[str, str] | None = None


def lspci_tree(text: str) -> tuple[TreeNode, ...]:
    """Devices of `lspci -tv` in the drawn order; bridges carry their bus range and have no name."""
    nodes: list[TreeNode] = []
    root = ""
    buses: dict[int, str] = {}
    for line in text.splitlines():
        drawing, name = _split_drawing(line)
        if m := _ROOT.search(drawing):
            root = m[1]
            buses = {m.end(): root.split(":")[1]}
        nodes += _tree_line(drawing, name.strip(), root, buses)
    if not root:
        raise ValueError("no root bus in it: not the output of lspci -tv")
    return tuple(nodes)


def _split_drawing(line: str) -> tuple[str, str]:
    """Drawing and name: two blanks behind a device number begin the name."""
    for m in _LEAF.finditer(line):
        if line.startswith("  ", m.end()):
            return line[: m.end()], line[m.end() :]
    return line, ""


def _tree_line(drawing: str, name: str, root: str, buses: dict[int, str]) -> list[TreeNode]:
    nodes = []
    leaves = list(_LEAF.finditer(drawing))
    for i, m in enumerate(leaves):
        bus = buses[max((c for c in buses if c <= m.start()), default=min(buses, default=0))] if buses else ""
        span = (m[2], m[3] or m[2]) if m[2] else None
        if span:
            for column in [c for c in buses if c > m.start()]:
                del buses[column]
            buses[m.end()] = span[0]
        nodes.append(TreeNode(root=root, bus=bus, slot=m[1], name=name if i == len(leaves) - 1 else "", buses=span))
    return nodes


FORMATS: dict[str, Callable[[str], Any]] = {
    "lspci": lspci,
    "lspci -nn": lspci,
    "lspci -vvv": lspci,
    "lspci -vmmkn": lspci_machine,
    "lspci -tv": lspci_tree,
}
