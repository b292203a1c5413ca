"""Field outputs of Slurm's JSON: --json and slurmrestd. Read in place, never copied."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from assay.slurm.answers import answer
from assay.slurm.config import Controller
from assay.slurm.envelope import Envelope
from assay.slurm.job import SlurmJobs
from assay.slurm.license import SlurmLicenses
from assay.slurm.node import SlurmNodes
from assay.slurm.partition import SlurmPartitions
from assay.slurm.reservation import SlurmReservations
from assay.slurm.sacct import Sacct
from assay.slurm.sdiag import Sdiag
from slurm_field import FIELD, Alt, View, cases, decoded, differences
from slurm_tables import sacct_view
from slurm_views import (
    envelope_view,
    jobs_view,
    licenses_view,
    nodes_view,
    partitions_view,
    reservations_view,
)

if not FIELD.is_dir():
    pytest.skip("the field outputs are not beside this checkout", allow_module_level=True)

WRONG: dict[tuple[str, str], str] = {}


def _sdiag(found: Sdiag) -> View:
    return {
        **envelope_view(found.envelope),
        **{name: getattr(found, name) for name in found.__struct_fields__ if name != "envelope"},
        **found.other,
        "rpc_types": len(found.rpcs), "schedule_cycle_total": found.main_cycles,
        "schedule_cycle_sum": found.main_sum_us, "schedule_cycle_last": found.main_last_us,
        "schedule_cycle_max": found.main_max_us, "schedule_cycle_mean": found.main_mean_us,
        "server_thread_count": found.server_threads, "dbd_agent_queue_size": found.dbd_queue,
        "gettimeofday_us_per_1000_calls": found.gettimeofday_us,
    }  # fmt: skip


def _sacct(found: Sacct, data: bytes) -> View:
    steps = Alt((len(found.rows) - len(found.jobs()),))
    return sacct_view(found, data) | {"steps": steps, **envelope_view(found.envelope)}


def _pings(found: tuple[Controller, ...]) -> View:
    return {"controllers": {c.role: "UP" if c.up else "DOWN" for c in found}, "pings": len(found)}


def view(data: bytes, _: str) -> View:
    found: Any = answer(decoded(data))
    views: dict[type, Callable[[Any], View]] = {
        SlurmNodes: nodes_view,
        SlurmJobs: lambda it: jobs_view(it, data),
        Sacct: lambda it: _sacct(it, data),
        Sdiag: _sdiag,
        SlurmLicenses: licenses_view,
        SlurmPartitions: partitions_view,
        SlurmReservations: reservations_view,
        Envelope: envelope_view,
        tuple: _pings,
    }
    return views[type(found)](found)


VIEWS = {
    "slurmrestd": view,
    "GET /slurm": view,
    "sinfo --json": view,
    "squeue --json": view,
    "sacct --json": view,
    "sdiag --json": view,
    "scontrol show lic --json": view,
    "scontrol show licenses --json": view,
    "scontrol show partitions --json": view,
    "scontrol show reservations --json": view,
    "scontrol ping --json": view,
    "scontrol show job --json": view,
    "scontrol show node --json": view,
    "scontrol show nodes --json (stderr)": None,
    "scontrol show nodes --json": view,
    "scontrol show jobs --json": view,
}


@pytest.mark.parametrize("path", cases(VIEWS), ids=lambda p: f"{p.parent.name}/{p.name.split('.expected')[0]}")
def test_field_output(path: pathlib.Path) -> None:
    assert not differences(path, VIEWS, WRONG)
