"""Which kinds of health test and health watch a command, a script or an NHC configuration names."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_LEVEL = re.compile(r"dcgmi diag\b[^\n;|&]*?(?:-r|--run)[ =]?\s*([1-4])\b")

# Words in a command, a script or an NHC configuration -> the kind of active test that runs.
TESTS: dict[str, tuple[str, ...]] = {
    "dcgm-diag": ("dcgmi diag", "dcgm-diag", "dcgm_diag"),
    "h2d": (
        "nvbandwidth",
        "bandwidthtest",
        "rocm-bandwidth-test",
        "rocm_bandwidth_test",
        "transferbench",
        "check_gpu_bw",
        "mem-bw",
        "gpu-copy-bw",
        "pebb",
    ),
    "burn": (
        "gpu_burn",
        "gpu-burn",
        "gpuburn",
        "gpu-fryer",
        "gpu_fryer",
        "gst_single",
        "gst_ext",
        "iet_single",
        "iet_stress",
        "targeted_stress",
        "targeted_power",
    ),
    "nccl-local": (
        "all_reduce_perf",
        "check_nccl_allreduce ",
        "nccl-bw",
        "rccl-bw",
        "nccl-tests",
        "rccl-tests",
        "check_rccl",
    ),
    "ib-local": (
        "nccl_p2p_disable=1",
        "rccl_p2p_disable=1",
        "nccl_allreduce_ib_loopback",
        "ib-loopback",
        "ib_loopback",
    ),
    "pairwise": (
        "ib_write_bw",
        "ib_read_bw",
        "ib_send_bw",
        "ib_write_lat",
        "ib_read_lat",
        "ib_send_lat",
        "check_ib_bw",
        "ib-traffic",
        "perftest",
    ),
    "correctness": (
        "tinymeg",
        "cuda_memtest",
        "cuda-memtest",
        "gpu_memtest",
        "gpu-memtest",
        "memtest_gpu",
        "silent-data",
        "silent_data",
        "sdc_check",
        "sdc-check",
        "sdc_test",
        "gemm-correctness",
        "gemm_correctness",
    ),
    "training": ("torchrun", "megatron", "tinymax", "deepspeed", "pretrain", "gpt_models", "pytorch-gpt", "train.py"),
    "suite": ("superbench", "sb run", "cluster-health-scanner", "run-health-checks", "/rvs", "rvs -", "cvs run"),
}
WATCHES: dict[str, tuple[str, ...]] = {
    "off-bus": ("check_gpu_count", "gpu_count", "fallen off", "nvidia-smi -l", "check_hw_gpu", "check_gpu_lost"),
    "xid": ("xid",),
    "ecc": ("_ecc", "ecc_", "ecc.", "remapped", "row_remap", "retired_pages", "check_ras"),
    "pcie": ("pcie", "aer_"),
    "link": ("nvlink", "xgmi", "ib_link", "link_flap", "check_hw_ib", "check_ib", "check_eth_link", "ibstat"),
    "thermal": ("thermal", "throttl", "temperature"),
    "collective": ("stalled", "nccl_watchdog", "collective_hang", "flight_recorder"),
}


def clean(text: str) -> str:
    """Without comment lines, in lower case, blanks folded: what the tables are searched in."""
    return " ".join(_COMMENT.sub("", text).lower().split()) + " "


def kinds_of_test(text: str) -> tuple[str, ...]:
    """The kinds whose words occur; an all-reduce with peer-to-peer off is a fabric test, not an NVLink one."""
    kinds = [kind for kind, words in TESTS.items() if any(word in text for word in words)]
    off = text.count("p2p_disable=1")
    if off and text.count("all_reduce_perf") <= off and "nccl-local" in kinds:
        kinds.remove("nccl-local")
    return tuple(kinds)


def kinds_of_watch(text: str) -> tuple[str, ...]:
    """The kinds of passive check whose words occur."""
    return tuple(kind for kind, words in WATCHES.items() if any(word in text for word in words))


def diag_level(text: str) -> int | None:
    """The highest level of dcgmi diag that is asked for."""
    return max(map(int, _LEVEL.findall(text)), default=None)
