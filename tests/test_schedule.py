"""cron tables and timers, where a clock is needed or many short cases say more than a recorded answer."""

import pytest

from assay.facts.health_kinds import clean, diag_level, kinds_of_test
from assay.facts.schedule import cron_lines, cron_period, list_timers

DAY = 86400


@pytest.mark.parametrize(
    ("when", "days"),
    [
        ("@weekly", 7),
        ("@reboot", None),
        ("0 3 * * 0", 7),
        ("0 3 * * sun", 7),
        ("0 3 * * mon,thu", 4),
        ("0 3 * * 0,1", 6),
        ("0 3 * * 1-5", 3),
        ("0 3 * * 5-7", 5),
        ("0 3 1 * *", 31),
        ("0 3 */2 * *", 2),
        ("0 3 1 1 *", 366),
        ("0 3 * * *", 1),
        ("0 */6 * * *", 0.25),
        ("5 * * * *", 1 / 24),
        ("*/15 * * * *", 15 / 1440),
        ("* * * * *", 1 / 1440),
    ],
)
def test_longest_gap(when: str, days: float | None) -> None:
    assert cron_period(when) == (None if days is None else pytest.approx(days * DAY))


def test_system_tables_name_a_user() -> None:
    text = "MAILTO=root\n# 1 2 * * * root no\n17 *\t* * * root  cd / && run-parts --report /etc/cron.hourly\n"
    assert cron_lines(text, system=True) == [("17 * * * *", "cd / && run-parts --report /etc/cron.hourly")]
    assert cron_lines("@daily /usr/sbin/nhc -a\n", system=False) == [("@daily", "/usr/sbin/nhc -a")]


def test_columns_of_list_timers_are_counted_back_from_the_clock() -> None:
    text = (
        "Sun 2026-12-06 02:00:00 CET 4 days left Sun 2026-11-22 02:00:00 CET 1 week 2 days ago gpu.timer gpu.service\n"
        "Tue 2026-12-01 00:00:00 UTC 5h 3min left Mon 2026-11-30 21:01:00 UTC 12min ago a-b.timer a-b.service\n"
        "n/a                         n/a      n/a                         n/a       never.timer never.service\n"
        "-                           -        Mon 2026-11-30 21:01:00 UTC 36s ago   old.timer   old.service\n"
    )
    last = {t.name: t.last for t in list_timers(text, 1e9)}
    assert last == {"gpu.timer": 1e9 - 9 * DAY, "a-b.timer": 1e9 - 720, "never.timer": None, "old.timer": 1e9 - 36}


def test_comments_do_not_test_anything() -> None:
    assert kinds_of_test(clean("#!/bin/sh\n  # dcgmi diag -r 3\ntrue")) == ()
    assert diag_level(clean("dcgmi  diag\t--run 2 ; dcgmi diag -j -r 4 -v")) == 4


def test_all_reduce_without_peer_to_peer_is_a_fabric_test_only() -> None:
    assert kinds_of_test(clean("NCCL_P2P_DISABLE=1 all_reduce_perf -g 8")) == ("ib-local",)
    assert kinds_of_test(clean("all_reduce_perf; NCCL_P2P_DISABLE=1 all_reduce_perf")) == ("nccl-local", "ib-local")
