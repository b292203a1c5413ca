"""`nvidia-smi -q` as text or XML -> one nested tree with the same names, whatever the driver generation calls them.

A node is a value (str) or a dict; a value that is also a heading keeps its own text under "". What repeats under
one parent (MIG devices, processes) becomes a list.
"""

from __future__ import annotations

import functools
import re
from typing import Any, cast
from xml.etree import ElementTree as ET

from msgspec import Struct
from msgspec.structs import replace

Tree = dict[str, Any]

_LINE = re.compile(r"^( *)(\S[^\n]*?):(?:[ \t]+(.*))?$")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_CLOCKS, _CLOCKS_END = "<supported_clocks>", "</supported_clocks>"
_LOG_END = "</nvidia_smi_log>"
_ENTITY = re.compile(r"<!ENTITY", re.IGNORECASE)
_REASON = re.compile(r"^clocks_(?:event|throttle)_reasons?_(?!counters)")
_MODE_OF = re.compile(r"^(current|pending)_(mig|dm|ecc|gom|dram_encryption)$")
_HISTOGRAM = re.compile(r"^row_remapper_histogram_(?=max|high|partial|low|none)")

# Name in XML, or of another driver generation -> name in the text of recent drivers.
_SAME = {
    "serial": "serial_number",
    "uuid": "gpu_uuid",
    "pdi": "gpu_pdi",
    "gpu_module_id": "module_id",
    "gpu_part_number": "gpu_part_number",
    "platforminfo": "platform_info",
    "c2c_mode": "gpu_c2c_mode",
    "pci_bus_id": "bus_id",
    "pci_gpu_link_info": "gpu_link_info",
    "pcie_gen": "pcie_generation",
    "max_link_gen": "max",
    "current_link_gen": "current",
    "device_current_link_gen": "device_current",
    "max_device_link_gen": "device_max",
    "max_host_link_gen": "host_max",
    "link_widths": "link_width",
    "max_link_width": "max",
    "current_link_width": "current",
    "replay_counter": "replays_since_reset",
    "replay_rollover_counter": "replay_number_rollovers",
    "clocks_throttle_reasons": "clocks_event_reasons",
    "gpu_idle": "idle",
    "clocks_event_reasons_counters_sw_power_cap": "sw_power_capping",
    "clocks_event_reasons_counters_sync_boost": "sync_boost",
    "clocks_event_reasons_counters_sw_therm_slowdown": "sw_thermal_slowdown",
    "clocks_event_reasons_counters_hw_therm_slowdown": "hw_thermal_slowdown",
    "clocks_event_reasons_counters_hw_power_brake": "hw_power_braking",
    "display_clocks_setting": "display_clock_setting",
    "gpu_util": "gpu",
    "memory_util": "memory",
    "shared_fb_memory_usage": "fb_memory_usage",
    "cc_protected_memory_usage": "conf_compute_protected_memory_usage",
    "ecc_error_count": "ecc_errors",
    "volatile_count": "volatile",
    "sram_uncorrectable_secded": "sram_uncorrectable_sec_ded",
    "remapped_row_corr": "correctable_error",
    "remapped_row_unc": "uncorrectable_error",
    "remapped_row_pending": "pending",
    "remapped_row_failure": "remapping_failure_occurred",
    "row_remapper_histogram": "bank_remap_availability_histogram",
    "multiple_single_bit_retirement": "single_bit_ecc",
    "double_bit_retirement": "double_bit_ecc",
    "retired_count": "",
    "pending_blacklist": "pending_page_blacklist",
    "gpu_temp": "gpu_current_temp",
    "gpu_temp_tlimit": "gpu_t_limit_temp",
    "gpu_current_t_limit_temp": "gpu_t_limit_temp",
    "gpu_temp_max_threshold": "gpu_shutdown_temp",
    "gpu_temp_slow_threshold": "gpu_slowdown_temp",
    "gpu_temp_max_gpu_threshold": "gpu_max_operating_temp",
    "gpu_temp_max_tlimit_threshold": "gpu_shutdown_t_limit_temp",
    "gpu_temp_slow_tlimit_threshold": "gpu_slowdown_t_limit_temp",
    "gpu_temp_max_gpu_tlimit_threshold": "gpu_max_operating_t_limit_temp",
    "memory_temp": "memory_current_temp",
    "gpu_temp_max_mem_threshold": "memory_max_operating_temp",
    "gpu_temp_max_mem_tlimit_threshold": "memory_max_operating_t_limit_temp",
    "power_readings": "gpu_power_readings",
    "instant_power_draw": "instantaneous_power_draw",
    "graphics_clock": "graphics",
    "sm_clock": "sm",
    "mem_clock": "memory",
    "video_clock": "video",
    "clique_id": "cliqueid",
    "cluster_uuid": "clusteruuid",
    "licensed_product_name": "product_name",
    "pid": "process_id",
    "process_name": "name",
    "used_memory": "used_gpu_memory",
}


class SmiTree(Struct, frozen=True):
    """The head (driver, CUDA, attached GPUs), one tree per GPU with its bus id under "id", and whether all is there."""

    head: Tree
    gpus: tuple[Tree, ...]
    complete: bool


@functools.lru_cache(maxsize=2048)
def canonical(name: str) -> str:
    """One name for a field, from the words of any generation and of both formats."""
    slug = _NOT_WORD.sub("_", name.strip().lower()).strip("_").removesuffix("_specification")
    slug = _HISTOGRAM.sub("", _REASON.sub("", slug))
    if mode := _MODE_OF.match(slug):
        return mode[1]
    return _SAME.get(slug, slug)


def xml_tree(text: str) -> SmiTree:
    """The XML of `nvidia-smi -q -x`. Of a text that was cut off, the finished elements, marked incomplete."""
    if _ENTITY.search(text) or "<nvidia_smi_log" not in text:
        raise ValueError("not the XML of nvidia-smi")
    end = text.rfind(_LOG_END)
    log = text[text.index("<nvidia_smi_log") : end + len(_LOG_END) if end >= 0 else None]
    parser: ET.XMLPullParser[Any] = ET.XMLPullParser(("start",))
    complete = True
    try:
        parser.feed(_without_clock_lists(log))
        parser.close()
    except ET.ParseError:
        complete = False
    events = parser.read_events()
    try:
        root: Any = cast("Any", next(events))[1]
    except (StopIteration, ET.ParseError) as e:
        raise ValueError("the XML of nvidia-smi ends before its first element") from e
    head = {canonical(e.tag): (e.text or "").strip() for e in root if e.tag != "gpu"}
    gpus = tuple(_element_tree(e) | {"id": e.get("id", "")} for e in root if e.tag == "gpu")
    return SmiTree(head, gpus, complete)


def _without_clock_lists(text: str) -> str:
    """The XML without the lists of supported clocks: most of its size, and nobody asks for them."""
    parts: list[str] = []
    begin = 0
    while (start := text.find(_CLOCKS, begin)) >= 0 and (end := text.find(_CLOCKS_END, start)) >= 0:
        parts.append(text[begin:start])
        begin = end + len(_CLOCKS_END)
    return "".join(parts) + text[begin:]


def _element_tree(element: ET.Element) -> Tree:
    tree: Tree = {}
    for child in element:
        value: Any = _element_tree(child) if len(child) else (child.text or "").strip()
        name = canonical(child.tag)
        if name == "mig_devices" and isinstance(value, dict):
            name, value = "mig_device", value.get("mig_device", [])
        _put(tree, name, value)
    return tree


def text_tree(text: str) -> SmiTree:
    """The text of `nvidia-smi -q`, of any selection (-i, -d) and of excerpts that begin inside a GPU."""
    head: Tree = {}
    gpus: list[Tree] = []
    levels: list[tuple[int, Tree, str]] = []
    root = head
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            root = {"id": gpu[1]}
            gpus.append(root)
            levels = []
        elif line.strip() and not line.startswith("="):
            if root is head and line.startswith("    "):
                root = {"id": ""}
                gpus.append(root)
            _add_line(root, levels, line)
    if not (complete := _whole_text(text, head, gpus)) and "\n" in text and not text.endswith("\n"):
        return replace(text_tree(text[: text.rfind("\n") + 1]), complete=False)  # the last value may be half a value
    return SmiTree(head, tuple(gpus), complete)


def _add_line(root: Tree, levels: list[tuple[int, Tree, str]], line: str) -> None:
    """Put a line under its parent; `levels` = indentation, parent and name of the headings above."""
    found = _LINE.match(line.rstrip())
    indent = len(line) - len(line.lstrip(" "))
    name = canonical(found[2] if found else line)
    while levels and levels[-1][0] >= indent:
        levels.pop()
    parent = _heading(levels[-1][1], levels[-1][2]) if levels else root
    _put(parent, name, (found[3] or "").strip() if found else {})
    levels.append((indent, parent, name))


def _heading(parent: Tree, name: str) -> Tree:
    """The dict of a heading; a value that turns out to have children moves under ""."""
    value = parent[name]
    last = value[-1] if isinstance(value, list) else value
    if isinstance(last, dict):
        return last
    grown: Tree = {"": last}
    if isinstance(value, list):
        value[-1] = grown
    else:
        parent[name] = grown
    return grown


def _put(tree: Tree, name: str, value: Any) -> None:
    if name not in tree:
        tree[name] = value
    elif isinstance(tree[name], list):
        tree[name].append(value)
    else:
        tree[name] = [tree[name], value]


def _whole_text(text: str, head: Tree, gpus: list[Tree]) -> bool:
    """False for a text that was visibly cut: GPUs are missing, have unlike sections, or the last one has no end."""
    if not gpus or "attached_gpus" not in head:
        return False
    if 1 < len(gpus) != number(head["attached_gpus"]):
        return False
    if "product_name" in gpus[0]:
        return "processes" in gpus[-1]
    return text.endswith("\n") and gpus[-1].keys() == gpus[0].keys()


_NUMBER = re.compile(r"^\[?(-?\d{1,18}(?:\.\d+)?)\s*(?:x|%|C|W|MHz|MiB|us|mV|KB/s|bank\(s\)|seconds)?\]?$")


def number(value: Any) -> float | None:
    """The number of a value with its unit; None for every way of saying that there is none."""
    found = _NUMBER.match(own(value) or "")
    return float(found[1]) if found else None


def own(value: Any) -> str | None:
    """The text of a node, its own one when it is a heading as well."""
    if isinstance(value, dict):
        value = value.get("")
    return value if isinstance(value, str) else None


def at(tree: Any, *path: str) -> Any:
    """The node at a path, None where any part of it is missing."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def many(value: Any) -> list[Any]:
    """A repeated node as a list, whether it occurs never, once or often."""
    return value if isinstance(value, list) else [] if value in (None, "", "None") else [value]


_NOT_SAID = frozenset({
    "", "n/a", "[n/a]", "not found", "unknown error", "[unknown error]", "not supported", "[not supported]", "err!",
    "requested functionality has been deprecated", "[requested functionality has been deprecated]", "unknown",
    "insufficient permissions", "[insufficient permissions]", "gpu is lost", "[gpu is lost]", "function not found",
    "gpu requires reset", "[gpu requires reset]",
})  # fmt: skip
_YES = frozenset({"yes", "enabled", "active", "true"})
_NO = frozenset({"no", "disabled", "not active", "false"})


def said(tree: Any, *path: str) -> str | None:
    """The text at a path; None where the tool has no value for it."""
    value = own(at(tree, *path))
    return None if value is None or value.lower() in _NOT_SAID else value


def whole(tree: Any, *path: str) -> int | None:
    """The whole number at a path."""
    value = number(at(tree, *path))
    return None if value is None else int(value)


def flag(tree: Any, *path: str) -> bool | None:
    """The yes/no, enabled/disabled at a path."""
    value = (said(tree, *path) or "").lower()
    return True if value in _YES else False if value in _NO else None
