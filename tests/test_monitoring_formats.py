"""Formats of monitoring tools whose odd corners are shorter to write down than to record."""

import pytest

from assay.facts import dashboards, dcgm, dcgm_diag, dcgm_health, exposition, systemd, time_sync

BOX = (
    "+---------------------------+------------------------------------------------+\n"
    "| Diagnostic                | Result                                         |\n"
    "+===========================+================================================+\n"
)
END = "+---------------------------+------------------------------------------------+\n"


def row(left: str, right: str) -> str:
    return f"| {left:<25} | {right:<46} |\n"


def test_diag_4_text_names_the_gpu_that_failed() -> None:
    text = (
        BOX
        + "|-----  Metadata  ----------+------------------------------------------------|\n"
        + row("DCGM Version", "4.4.1")
        + row("GPU Device IDs Detected", "2330, 2330")
        + "|-----  Deployment  --------+------------------------------------------------|\n"
        + row("software", "Fail")
        + row("", "GPU0: Pass")
        + row("", "GPU1: Fail")
        + row("Warning: GPU1", "Persistence Mode: persistence mode for GPU 1")
        + row("", " is disabled")
        + "+-----  Hardware  ----------+------------------------------------------------+\n"
        + row("memory", "Skip")
        + row("", "GPU0: Skip")
        + row("", "GPU1: Skip")
        + END
    )
    diag = dcgm_diag.diag(text)
    software, memory = diag.tests
    assert [(r.entity, r.status) for r in software.results] == [(0, "pass"), (1, "fail")]
    assert software.results[1].warnings[0].text.startswith("Persistence Mode")
    assert (memory.category, memory.status) == ("Hardware", "skip")
    assert (diag.overall, diag.complete, diag.gpus) == ("fail", True, 2)


def test_diag_3_text_shares_a_status_between_gpus() -> None:
    text = BOX + row("PCIe", "Pass - GPUs: 0, 2") + row("", "Fail - GPU: 1") + row("Warning", "GPU 1: slow link") + END
    (test,) = dcgm_diag.diag(text).tests
    assert {r.entity: r.status for r in test.results} == {0: "pass", 2: "pass", 1: "fail"}
    assert test.status == "fail"


@pytest.mark.parametrize(
    ("words", "overall"),
    [
        (("Pass", "Pass - All"), "pass"),
        (("Pass", "Skip - All"), "incomplete"),
        (("Pass", "Warn"), "warn"),
        (("Skip", "Fail"), "fail"),
        (("Pass", "Not Run"), "incomplete"),
    ],
)
def test_a_test_that_did_not_run_never_passes(words: tuple[str, str], overall: str) -> None:
    assert dcgm_diag.diag(BOX + row("memory", words[0]) + row("pcie", words[1]) + END).overall == overall


def test_a_cut_box_is_incomplete() -> None:
    diag = dcgm_diag.diag(BOX + row("memory", "Pass"))
    assert (diag.complete, diag.overall) == (False, "incomplete")


def test_diag_that_could_not_run_says_why() -> None:
    diag = dcgm_diag.diag('{"DCGM Diagnostic": {"runtime_error": "Unable to start NVVS"}}')
    assert (diag.error, diag.overall, diag.tests) == ("Unable to start NVVS", "incomplete", ())


def test_a_pass_summary_does_not_hide_a_skipped_gpu() -> None:
    results = '[{"entity_id": 0, "status": "Pass"}, {"entity_id": 1, "status": "Skip"}]'
    test = f'{{"name": "pcie", "results": {results}, "test_summary": {{"status": "Pass"}}}}'
    diag = dcgm_diag.diag(f'{{"DCGM Diagnostic": {{"test_categories": [{{"category": "x", "tests": [{test}]}}]}}}}')
    assert diag.overall == "incomplete"


def test_dmon_keeps_missing_values_missing() -> None:
    text = "#Entity   GPUTL   POWER\nID                W\nGPU 0     98      611.250\nGPU 1     N/A     70.1\n"
    rows = dcgm.dmon(text).rows
    assert [(r.entity, r.values) for r in rows] == [
        ("GPU 0", {"GPUTL": 98.0, "POWER": 611.25}),
        ("GPU 1", {"GPUTL": None, "POWER": 70.1}),
    ]


def test_health_tree_of_one_entity() -> None:
    text = (
        "+---------------------------+------------------------------------------------+\n"
        "| Health Monitor Report                                                      |\n"
        "+===========================+================================================+\n"
        "| Overall Health            | Warning                                        |\n"
        "| GPU                       |                                                |\n"
        "| -> 0                      | Warning                                        |\n"
        "|    -> Errors              |                                                |\n"
        "|       -> NVLINK system    | Warning                                        |\n"
        "|                           | A NvLink link 3 is down on GPU 0               |\n" + END
    )
    seen = dcgm_health.health_check(text)
    (incident,) = seen.incidents
    assert (seen.overall, incident.entity, incident.system) == ("Warning", "GPU 0", "NVLINK system")
    assert incident.message == "A NvLink link 3 is down on GPU 0"
    assert not dcgm_health.health_check("Error: Health watches not enabled. Please enable watches. \n").watched


def test_health_as_json_after_a_heading() -> None:
    text = 'Health monitor systems report\n{"body": {"PCIe": {"value": "On"}, "SM": {"value": "Off"}}, "header": []}'
    assert dcgm.health(text).watches == {"PCIe": True, "SM": False}


def test_blanks_of_dcgm_are_no_values_but_big_numbers_of_others_are() -> None:
    text = (
        'DCGM_FI_DEV_XID_ERRORS{gpu="0"} 2147483632\n'
        'DCGM_FI_DEV_FB_USED{gpu="0"} 9.223372036854776e+18\n'
        'node_network_receive_bytes_total{device="a\\"b,}"} 9223372036854775794 1700000000000\n'
        "go_threads NaN\nnot a metric at all\n"
    )
    seen = exposition.exposition(text)
    xid, used, network, threads = seen.samples
    assert (xid.value, used.value) == (None, None)
    assert (network.value, network.labels, network.at_ms) == (9223372036854775794.0, {"device": 'a"b,}'}, 1700000000000)
    assert threads.value != threads.value
    assert seen.bad_lines == 1


def test_promql_words_are_no_metrics() -> None:
    query = (
        'sum by (gpu) (rate(node_cpu_seconds_total{mode!="idle"}[5m])) / on(x) group_left '
        "DCGM_FI_DEV_GPU_UTIL offset 5m > 0"
    )
    assert dashboards.promql_metrics(query) == ["node_cpu_seconds_total", "DCGM_FI_DEV_GPU_UTIL"]


def test_rows_of_a_dashboard_hold_panels() -> None:
    inner = '{"type": "graph", "targets": [{"expr": "up"}, {"expr": "DCGM_FI_DEV_XID_ERRORS"}]}'
    panels = f'[{{"type": "row", "panels": [{inner}]}}, {inner}]'
    board = dashboards.dashboard(f'{{"dashboard": {{"title": "t", "panels": {panels}}}}}')
    assert (board.panels, "DCGM_FI_DEV_XID_ERRORS" in board.metrics) == (2, True)


def test_a_unit_whose_name_starts_like_a_mark() -> None:
    names = [
        u.name
        for u in systemd.list_units(
            "x xfs.service loaded failed failed XFS\n  xinetd.service loaded active running x\n"
        )
    ]
    assert names == ["xfs.service", "xinetd.service"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-5.224ms", -0.005224), ("8min 32s (min: 32s)", 512.0), ("+91us", 9.1e-05), ("n/a", None), ("1h 2min", 3720.0)],
)
def test_spans(text: str, seconds: float | None) -> None:
    assert time_sync.seconds(text) == (None if seconds is None else pytest.approx(seconds))
