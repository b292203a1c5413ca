"""What is exported from this host: GPU metrics, node metrics, and which fields are in them."""

from __future__ import annotations

from msgspec import Struct

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.exporters import MonitoringAgents
from assay.facts.gpu_presence import GpuPresence
from assay.facts.nvidia_nvlink import NvLinks
from assay.model import Missing, Verdict

_HIDDEN = "processes of other users are hidden here: an exporter may run"
_AMD = "amd-metrics-exporter"


class Metric(Struct, frozen=True):
    """A metric users need: for each part the fields that give it; one of them must be exported.

    `nvlink` parts are asked of NVLink hosts only. `amd` = the fields of AMD's exporter; `amd_default` = on when
    its configuration names none.
    """

    id: str
    criteria: tuple[str, ...]
    shows: str
    why: str
    parts: tuple[tuple[str, ...], ...]
    amd: tuple[tuple[str, ...], ...]
    nvlink: tuple[tuple[str, ...], ...] = ()
    amd_default: bool = True


METRICS = (
    Metric(
        "gpu.metrics.sm-active",
        ("mon-sm-active",),
        "SM activity",
        "GPU utilisation is 100 % while one SM works: only SM activity tells whether the chip is used.",
        (("DCGM_FI_PROF_SM_ACTIVE",),),
        (("GPU_GFX_ACTIVITY",),),
    ),
    Metric(
        "gpu.metrics.sm-occupancy",
        ("mon-sm-occupancy",),
        "SM occupancy",
        "Low occupancy beside high activity points to kernels that are too small.",
        (("DCGM_FI_PROF_SM_OCCUPANCY",),),
        (("GPU_PROF_OCCUPANCY_PERCENT", "GPU_PROF_OCCUPANCY_PER_CU", "GPU_PROF_OCCUPANCY_PER_ACTIVE_CU"),),
        amd_default=False,
    ),
    Metric(
        "gpu.metrics.tensor-active",
        ("mon-tensor-active",),
        "tensor pipe activity",
        "Tensor activity is the nearest thing to achieved FLOP/s that needs no change in the job.",
        (("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE"),),
        (("GPU_PROF_TENSOR_ACTIVE_PERCENT", "GPU_PROF_MFMA_UTIL"),),
        amd_default=False,
    ),
    Metric(
        "gpu.metrics.pcie-replay",
        ("mon-pcie-replay",),
        "PCIe replays",
        "Replays rise before a link drops to a lower speed or the GPU falls off the bus.",
        (("DCGM_FI_DEV_PCIE_REPLAY_COUNTER",),),
        (("PCIE_REPLAY_COUNT",),),
    ),
    Metric(
        "gpu.metrics.ecc",
        ("mon-ecc",),
        "ECC errors",
        "Memory errors are the most frequent reason why a GPU is replaced; their trend comes before the failure.",
        (
            ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"),
            ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"),
        ),
        (("GPU_ECC_CORRECT_TOTAL",), ("GPU_ECC_UNCORRECT_TOTAL",)),
    ),
    Metric(
        "gpu.metrics.fabric",
        ("mon-fabric-throughput",),
        "PCIe and NVLink throughput",
        "A job that waits for data looks busy: only the traffic of its links shows it.",
        (("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_DEV_PCIE_TX_THROUGHPUT"),),
        (("PCIE_BANDWIDTH",), ("GPU_XGMI_LINK_RX", "XGMI_NEIGHBOR_0_TX_THRPUT", "GPU_XGMI_NBR_0_TX_THRPUT")),
        nvlink=(
            ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0"),
        ),
    ),
    Metric(
        "gpu.metrics.health",
        ("exp-mon-gpu-health",),
        "Xid, temperature, power and remapped rows",
        "A dashboard without these fields is green while a GPU is broken: an absent metric is not a zero.",
        (
            ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"),
            ("DCGM_FI_DEV_GPU_TEMP",),
            ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"),
            ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        ),
        (
            ("GPU_HEALTH", "GPU_ECC_UNCORRECT_TOTAL"),
            ("GPU_JUNCTION_TEMPERATURE",),
            ("GPU_PACKAGE_POWER", "GPU_AVERAGE_PACKAGE_POWER"),
        ),
    ),
)


@check(
    "gpu.exporter",
    category="monitoring",
    severity="high",
    criteria=("exp-mon-gpu-health",),
    why="What is not exported is not on any dashboard and raises no alert.",
    fix="Run dcgm-exporter (NVIDIA) or the device metrics exporter (AMD) on every GPU node.",
)
def gpu_exporter(gpus: GpuPresence, agents: MonitoringAgents) -> Verdict:
    """Passes when an agent that exports GPU metrics runs; fails on a GPU host where none does."""
    if not gpus.any:
        return skip("no GPU here")
    if running := agents.role("gpu"):
        return ok(f"GPU metrics from {', '.join(running)}", seen=running)
    if agents.hidden:
        return unknown(_HIDDEN, "too-little")
    installed = [n for n in agents.installed if n in {"dcgm-exporter", "nvidia_gpu_exporter", _AMD}]
    return fail(
        f"no GPU metrics exporter runs{f' ({installed[0]} is installed)' if installed else ''}", seen=agents.installed
    )


@check(
    "node.exporter",
    category="monitoring",
    severity="medium",
    criteria=("mon-node-health",),
    why="Fans, power supplies, CPU and module temperatures explain a slow GPU that looks healthy itself.",
    fix="Run node_exporter with the hwmon collector, and ipmi_exporter or redfish_exporter against the BMC.",
)
def node_exporter(gpus: GpuPresence, agents: MonitoringAgents) -> Verdict:
    """Passes when an agent that exports host metrics runs on a GPU host; readings through the BMC stay unseen."""
    if not gpus.any:
        return skip("no GPU here")
    if running := agents.role("node"):
        return ok(f"host metrics from {', '.join(running)}", seen=running)
    if agents.hidden:
        return unknown(_HIDDEN, "too-little")
    return warn("no host metrics agent runs here; sensors may be read through the BMC only")


def _first(parts: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(names[0] for names in parts)


def _register(metric: Metric) -> None:
    @check(
        metric.id,
        category="monitoring",
        severity="medium",
        criteria=metric.criteria,
        why=metric.why,
        fix=f"Have the exporter give {_first(metric.parts + metric.nvlink)} (AMD: {_first(metric.amd)}); restart it.",
    )
    def exported(gpus: GpuPresence, agents: MonitoringAgents, links: NvLinks | Missing) -> Verdict:
        """Reads the counter list that the running exporter uses. Warns for a field that is off or missing in it.

        A list that cannot be read from the host is unknown: it is never taken for the default one.
        """
        return _exported(metric, gpus, agents, links)


def _exported(metric: Metric, gpus: GpuPresence, agents: MonitoringAgents, links: NvLinks | Missing) -> Verdict:
    if not gpus.any:
        return skip("no GPU here")
    running = agents.role("gpu")
    if not running:
        return unknown(_HIDDEN, "too-little") if agents.hidden else warn(f"no exporter runs: no {metric.shows}")
    if gpus.nvidia and "dcgm-exporter" in running:
        if agents.counters is None:
            return unknown("the counter list of dcgm-exporter is not on this host", "too-little")
        parts = metric.parts + (metric.nvlink if _has_nvlink(links) else ())
        return _judge(metric, parts, frozenset(agents.counters.enabled), frozenset(agents.counters.disabled))
    if gpus.amd and _AMD in running:
        return _amd(metric, agents.amd_fields)
    return unknown(f"{', '.join(running)}: the fields it exports are not known from the host", "too-little")


def _has_nvlink(links: NvLinks | Missing) -> bool:
    return isinstance(links, NvLinks) and any(g.total for g in links.gpus)


def _judge(
    metric: Metric, parts: tuple[tuple[str, ...], ...], enabled: frozenset[str], disabled: frozenset[str] = frozenset()
) -> Verdict:
    gaps = [p for p in parts if enabled.isdisjoint(p)]
    if not gaps:
        return ok(f"{metric.shows} exported", seen=sorted(enabled.intersection(*[{f for p in parts for f in p}])))
    words = [f"{p[0]} {'is commented out' if p[0] in disabled else 'is not in the list'}" for p in gaps]
    return warn("; ".join(words), seen=[p[0] for p in gaps])


def _amd(metric: Metric, fields: tuple[str, ...] | None) -> Verdict:
    if fields:
        return _judge(metric, metric.amd, frozenset(fields))
    if fields is None or not metric.amd_default:
        return unknown(f"the configuration of {_AMD} does not tell whether it exports {metric.shows}", "too-little")
    return ok(f"{metric.shows} is among the defaults of {_AMD}")


for _metric in METRICS:
    _register(_metric)
