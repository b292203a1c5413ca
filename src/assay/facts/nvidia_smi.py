"""`nvidia-smi -q` in both formats -> NvidiaSmi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from assay.facts.nvidia import NvidiaSmi, SmiFailure
from assay.facts.nvidia_errors import smi_failure
from assay.facts.nvidia_smi_gpu import gpu_of
from assay.facts.nvidia_smi_tree import SmiTree, said, text_tree, whole, xml_tree
from assay.facts.source import source, why_missing
from assay.model import Exec, Missing, Probe, RawFact, Read

_KNOWN_SECTIONS = frozenset({
    "product_name", "retired_pages", "remapped_rows", "ecc_errors", "ecc_mode", "temperature", "gpu_power_readings",
    "clocks", "fb_memory_usage", "utilization", "processes", "clocks_event_reasons", "fabric", "performance_state",
    "vgpu_software_licensed_product", "compute_mode", "pci", "mig_mode", "gpu_virtualization_mode", "gpu_uuid",
    "gpu_reset_status", "gpu_recovery_action", "module_power_readings", "voltage", "accounting_mode", "encoder_stats",
})  # fmt: skip
_COMPLAINTS = ("WARNING:", "Unable to", "Failed to", "NVIDIA-SMI has failed")


@source(Probe("nvidia.smi", (Exec("smi", ("nvidia-smi", "-q", "-x"), timeout_s=20.0, cap=8 << 20),)), sees_missing=True)
def nvidia_smi(raw: RawFact) -> NvidiaSmi | Missing:
    """`nvidia-smi -q -x`. The tool's own complaint is `failed` or `denied`, an output that was cut off `unparsable`."""
    read = raw.read("smi")
    if read.state == "timed-out" or not (read.out or read.err):
        return why_missing(raw.reads) or _refused(read)
    if "<nvidia_smi_log" not in read.out:
        return _refused(read)
    smi = _smi(xml_tree(read.out))
    if not smi.complete or read.cut:
        beside = _beside_xml(read)
        return _refused(read) if beside else Missing("unparsable", f"nvidia-smi: cut off after {len(smi.gpus)} GPUs")
    return msgspec.structs.replace(smi, failure=_beside_xml(read))


def _beside_xml(read: Read) -> SmiFailure | None:
    """The complaint that stands before or after the XML, or on standard error."""
    before, _, rest = read.out.partition("<nvidia_smi_log")
    after = rest.rpartition("</nvidia_smi_log>")[2] if "</nvidia_smi_log>" in rest else ""
    return smi_failure(f"{before}\n{after[-4096:]}\n{read.err}")


def _refused(read: Read) -> Missing:
    """The reason why nvidia-smi gave no answer, in its own words. No GPU or no driver to talk to = absent."""
    if read.state == "absent":
        return Missing("absent", "nvidia-smi: not found")
    failure = smi_failure(f"{read.out[-4096:]}\n{read.err}")
    words = failure.message if failure else (read.err or read.out).strip()[:300] or f"exit code {read.rc}"
    if failure and failure.state in ("no_devices", "no_driver"):
        return Missing("absent", f"nvidia-smi: {words}")
    if failure and failure.cause == "insufficient_permissions":
        return Missing("denied", f"nvidia-smi: {words}")
    return Missing("denied" if read.state == "denied" else "failed", f"nvidia-smi: {words}")


def parse_xml(text: str) -> NvidiaSmi:
    """The output of `nvidia-smi -q -x`, or the complaint it printed in its place."""
    if "<nvidia_smi_log" not in text and (failure := smi_failure(text)):
        return NvidiaSmi(complete=False, failure=failure)
    return msgspec.structs.replace(_smi(xml_tree(text)), failure=_beside(text))


def _beside(text: str) -> SmiFailure | None:
    """The complaint on lines of its own, before or after the answer."""
    return smi_failure("\n".join(line for line in text.splitlines() if line.startswith(_COMPLAINTS)))


def parse_text(text: str) -> NvidiaSmi:
    """The output of `nvidia-smi -q`, or the complaint it printed in its place."""
    if "NVSMI LOG" not in text and (failure := smi_failure(text)):
        return NvidiaSmi(complete=False, failure=failure)
    tree = text_tree(text)
    if not any(_KNOWN_SECTIONS & gpu.keys() for gpu in tree.gpus) and "NVSMI LOG" not in text:
        raise ValueError("not the output of nvidia-smi -q")
    return msgspec.structs.replace(_smi(tree), failure=_beside(text))


def _smi(tree: SmiTree) -> NvidiaSmi:
    head = tree.head
    return NvidiaSmi(
        driver_version=_version(said(head, "kmd_version") or said(head, "driver_version")),
        cuda_version=_version(said(head, "cuda_umd_version") or said(head, "cuda_version")),
        attached=whole(head, "attached_gpus"),
        complete=tree.complete,
        gpus=tuple(gpu_of(gpu) for gpu in tree.gpus),
    )


def _version(text: str | None) -> str | None:
    """The version without the remark that newer drivers put behind it."""
    return text.split()[0] if text else None


FORMATS: dict[str, Callable[[str], Any]] = {"nvidia-smi -q": parse_text, "nvidia-smi -q -x": parse_xml}
