"""Outputs of GPU and fabric tools that no source reads but users mail: odd corners, invented."""

import contextlib
import time

import pytest

from assay.facts import (
    amd_smi_formats,
    dcgm,
    dcgm_diag,
    dcgm_health,
    fabric_manager,
    imex,
    nvidia_errors,
    nvidia_lines,
    nvidia_smi,
    nvidia_topo,
    rocm_smi,
)
from assay.facts.formats import formats


def test_version_lines_of_old_and_new_drivers() -> None:
    old = "NVIDIA-SMI version  : 550.54.15\nNVML version        : 550.54\nDRIVER version      : 550.54.15\n"
    assert nvidia_lines.parse_versions(old + "CUDA Version        : 12.4\n") == nvidia_lines.SmiVersions(
        smi="550.54.15", nvml="550.54", driver="550.54.15", cuda="12.4"
    )
    new = 'NVIDIA-SMI version  : 612.10\nDRIVER version      : Deprecated, see "KMD version" instead\n'
    seen = nvidia_lines.parse_versions(new + "KMD version         : 612.11\nCUDA UMD version    : 13.4\n")
    assert (seen.driver, seen.cuda, seen.nvml) == ("612.11", "13.4", None)
    with pytest.raises(ValueError, match="--version"):
        nvidia_lines.parse_versions("nvidia-smi: command not found\n")


@pytest.mark.parametrize(
    ("text", "cause", "pci"),
    [
        (
            "Unable to determine the device handle for GPU0000:4e:00.0: Unkn\nown Error\n",
            "unknown_error",
            "0000:4e:00.0",
        ),
        ("Unable to determine the device handle for GPU 0000:4\ne:00.0: GPU is lost.\n", "gpu_lost", "0000:4e:00.0"),
    ],
)
def test_an_error_that_the_terminal_wrapped_inside_a_word(text: str, cause: str, pci: str) -> None:
    failure = nvidia_errors.parse_error(text)
    assert (failure.cause, failure.pci) == (cause, pci)


def test_a_complaint_after_the_answer_is_kept() -> None:
    text = "==NVSMI LOG==\n\nAttached GPUs : 1\nGPU 00000000:4E:00.0\n    Product Name : A\n    Processes : None\n"
    smi = nvidia_smi.parse_text(text + "WARNING: infoROM is corrupted at gpu 0000:4E:00.0\n")
    assert smi.failure is not None
    assert (smi.failure.state, smi.failure.pci, smi.gpus[0].name) == ("inforom_corrupted", "0000:4e:00.0", "A")
    assert nvidia_smi.parse_text(text).failure is None


def test_peer_access_matrix() -> None:
    text = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tOK\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    assert nvidia_topo.peer_access(text) == {"GPU0": {"GPU0": "X", "GPU1": "CNS"}, "GPU1": {"GPU0": "OK", "GPU1": "X"}}
    with pytest.raises(ValueError, match="p2p"):
        nvidia_topo.peer_access(" \tGPU0\n GPU0\t12 GB\n")


def test_link_states_of_gpus_and_switches() -> None:
    text = (
        "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\n"
        "GPUs:\n    gpuId 0:\n        U U D _\n    gpuId 1:\n        U U U U\n"
        "NvSwitches:\n    physicalId 8:\n        X U\n\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"
    )
    seen = dcgm.nvlink(text)
    assert seen.gpus == {0: ("U", "U", "D", "_"), 1: ("U", "U", "U", "U")}
    assert seen.switches == {8: ("X", "U")}
    with pytest.raises(ValueError, match="dcgmi nvlink"):
        dcgm.nvlink("Error: unable to establish a connection to the specified host: localhost\n")


def test_fabric_manager_names_the_error_of_a_switch() -> None:
    log = fabric_manager.log(
        "[May 03 2026 01:02:03] [ERROR] [tid 77] detected NVSwitch non-fatal error 11012 on fid 0 on NVSwitch "
        "pci bus id 00000000:07:00.0 physical id 8 port 14\n"
        "[May 03 2026 01:02:04] [ERROR] [tid 77] detected NVSwitch fatal error 20001 on fid 1\n"
    )
    mild, fatal = log.switch_errors
    assert (mild.code, mild.fatal, mild.pci, mild.port) == (11012, False, "00000000:07:00.0", 14)
    assert (fatal.code, fatal.fatal, fatal.fid, fatal.port) == (20001, True, 1, None)


def test_fabric_manager_in_the_journal_has_no_levels() -> None:
    log = fabric_manager.log(
        "Mar 04 10:00:01 n7 nv-fabricmanager[812]: Connected to 1 node.\n"
        "Mar 04 10:00:03 n7 nv-fabricmanager[812]: Successfully configured all the available NVSwitches\n"
        "Mar 04 10:00:09 n7 systemd[1]: nvidia-fabricmanager.service: Control process exited, status=1/FAILURE\n"
    )
    assert (log.lines, log.first, log.configured) == (3, "Mar 04 10:00:01", True)
    assert log.errors == ("Mar 04 10:00:09 nvidia-fabricmanager.service: Control process exited, status=1/FAILURE",)


def test_host_engine_repeats_its_errors() -> None:
    line = "2026-02-03 04:05:06.007 ERROR [1:2] {}No such switch [/src/a.cpp:1] [A::B]\n"
    text = line.format("[[NvSwitch]] ") * 3 + line.format("")
    assert fabric_manager.hostengine_errors(text) == ("No such switch",)


def test_imex_domain_as_json() -> None:
    seen = imex.imex(
        '{"nodes": {"1": {"status": "UNAVAILABLE", "host": "10.0.0.2", "connections": {"0": {"status": "INVALID"}}},'
        ' "0": {"status": "READY", "host": "10.0.0.1", "version": "580.10", "connections":'
        ' {"1": {"status": "INVALID"}, "0": {"status": "CONNECTED"}}}}, "status": "DEGRADED"}'
    )
    assert [(n.index, n.state, n.version) for n in seen.nodes] == [(0, "READY", "580.10"), (1, "UNAVAILABLE", None)]
    assert (seen.domain, seen.matrix) == ("DEGRADED", {"0": ("C", "I"), "1": ("I",)})
    with pytest.raises(ValueError, match="JSON"):
        imex.imex('{"nodes": [')


PROCESSES = """\
GPU: 0
    PROCESS_INFO:
        NAME: trainer
        PID: 41
        MEM_USAGE: 7.5 GB
    PROCESS_INFO:
        NAME: probe
        PID: 42
        MEM_USAGE: 1.0 MB
GPU: 1
    PROCESS_INFO: No running processes detected
"""


def test_amd_processes_repeat_their_section() -> None:
    assert [(p["gpu"], p["pid"]) for p in amd_smi_formats.processes(PROCESSES)] == [(0, "41"), (0, "42")]
    csv = "gpu,name,pid,mem_usage\n0,trainer,41,8103415808\n3,trainer,44,8103415808\n"
    assert [(p["gpu"], p["pid"]) for p in amd_smi_formats.processes(csv)] == [(0, "41"), (3, "44")]


def test_amd_bad_pages_are_counted() -> None:
    text = (
        "GPU: 0\n    RETIRED:\n        PAGE_ADDRESS: 0x1f000\n        STATUS: RESERVED\n"
        "    PENDING: No bad pages found.\n    UN_RES: No bad pages found.\n"
    )
    assert amd_smi_formats.bad_pages(text) == {0: {"retired": 1, "pending": 0, "un_res": 0}}


def test_amd_partition_table_stops_before_the_profiles() -> None:
    text = (
        "CURRENT_PARTITION:\nGPU_ID  MEMORY  ACCELERATOR_TYPE  PARTITION_ID\n0       NPS1    SPX               0\n"
        "GPU: 0\n    MEMORY_PARTITION:\n        CURRENT: NPS1\n\n"
        "ACCELERATOR_PARTITION_PROFILES:\nGPU_ID  PROFILE_INDEX  NUM_PARTITIONS  PARTITION_ID\n0  0  1  0\n"
    )
    assert amd_smi_formats.partitions(text) == [
        {"GPU_ID": "0", "MEMORY": "NPS1", "ACCELERATOR_TYPE": "SPX", "PARTITION_ID": "0"}
    ]


def test_rocm_smi_table_with_one_heading_line() -> None:
    text = (
        "GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan    Perf  PwrCap       VRAM%  GPU%\n"
        "0    41.0c           38.0W   300Mhz  1200Mhz  0.0%   auto  290.0W         3%   12%\n"
        "1    44.0c           N/A     300Mhz  1200Mhz  0.0%   auto  Unsupported    0%   0%\n"
    )
    first, second = rocm_smi.concise(text)
    assert (first["GPU"], first["AvgPwr"], first["PwrCap"], first["GPU%"]) == ("0", "38.0W", "290.0W", "12%")
    assert (second["Temp (DieEdge)"], second["AvgPwr"], second["PwrCap"]) == ("44.0c", "N/A", "Unsupported")


def test_amd_monitor_that_watches_has_a_time_before_the_gpu() -> None:
    text = " TIMESTAMP  GPU  POWER  GPU_T\n1770000000    0  142 W  40 °C\n1770000000    1    N/A    N/A\n"
    assert [(row["GPU"], row["POWER"]) for row in amd_smi_formats.monitor(text)] == [("0", "142 W"), ("1", "N/A")]


def test_health_box_of_the_first_releases() -> None:
    text = (
        "| Overall Health:    Warning                     |\n+=====+=====+\n"
        "| GPU ID: 3        | Warning                     |\n"
        "|                  | PCIe system: Warning - too  |\n"
        "|                  | many replays                |\n"
    )
    seen = dcgm_health.health_check(text)
    (incident,) = seen.incidents
    assert (seen.overall, incident.entity, incident.system) == ("Warning", "GPU 3", "PCIe system")
    assert incident.message == "too many replays"


def test_diag_note_goes_to_the_gpu_it_names_and_keeps_the_blank_where_it_was_wrapped() -> None:
    text = (
        "| Diagnostic                | Result                                         |\n"
        "+---------------------------+------------------------------------------------+\n"
        "| PCIe                      | Pass - GPU: 1                                  |\n"
        "|                           | Fail - GPU: 0                                  |\n"
        "| Warning                   | GPU 0 Error using CUDA API cuCtxCreate; check  |\n"
        "|                           |  the logs                                      |\n"
        "+---------------------------+------------------------------------------------+\n"
    )
    (test,) = dcgm_diag.diag(text).tests
    assert [(r.entity, [w.text for w in r.warnings]) for r in test.results] == [
        (1, []),
        (0, ["GPU 0 Error using CUDA API cuCtxCreate; check the logs"]),
    ]


def test_rocm_smi_matrices_and_csv() -> None:
    text = (
        "=== ROCm System Management Interface ===\n=== Weight between two GPUs ===\n"
        "       GPU0   GPU1\nGPU0   0      15\nGPU1   15     0\n\n"
        "=== Link Type between two GPUs ===\n       GPU0   GPU1\nGPU0   0      XGMI\nGPU1   XGMI   0\n"
    )
    seen = rocm_smi.topology(text)
    assert seen["weight"]["GPU1"]["GPU0"] == "15"
    assert seen["link type"]["GPU0"]["GPU1"] == "XGMI"
    csv = "device,GPU use (%),PCI Bus\ncard0,7,0000:C1:00.0\ncard1,0,0000:C6:00.0\n"
    assert [(g.index, g.gfx_util_pct, g.bdf) for g in rocm_smi.smi(csv).gpus] == [
        (0, 7.0, "0000:c1:00.0"),
        (1, 0.0, "0000:c6:00.0"),
    ]


@pytest.mark.parametrize("command", sorted(formats()))
def test_a_paste_of_blank_lines_does_not_stall_a_reader(command: str) -> None:
    begin = time.process_time()
    with contextlib.suppress(ValueError):
        formats()[command]("\n" * 40_000)
    assert time.process_time() - begin < 5
