"""Which reader an answer in JSON needs: commands with --json, and slurmrestd by what its answer holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.slurm.data_parser import envelope, load, objects, part
from assay.slurm.json_cluster import licenses, partitions, pings, reservations, statistics
from assay.slurm.json_jobs import accounted, is_accounted, jobs
from assay.slurm.json_nodes import nodes

# The first key that is there decides: a bare job has nodes, too, and a bare node partitions.
_BY_KEY: dict[str, Callable[[str], Any]] = {
    "job_state": jobs, "operating_system": nodes, "nodes": nodes, "sinfo": nodes, "jobs": jobs,
    "partitions": partitions, "reservations": reservations, "licenses": licenses, "statistics": statistics,
    "pings": pings,
}  # fmt: skip


def answer(text: str) -> Any:
    """Any answer of slurmrestd. One of errors alone gives its Envelope. Raises ValueError for another text."""
    doc = load(text)
    plugin = part(part(doc, "meta"), "plugin")
    if "db" in str(plugin.get("type")) or any(is_accounted(o) for o in objects(doc.get("jobs"))[:1] or [doc]):
        return accounted(text)
    for key, reader in _BY_KEY.items():
        if key in doc:
            return reader(text)
    about = envelope(doc)
    if about is None:
        raise ValueError("not an answer of slurmrestd")
    return about


FORMATS: dict[str, Callable[[str], Any]] = {
    "sinfo --json": nodes,
    "scontrol show nodes --json": nodes,
    "scontrol show node --json": nodes,
    "squeue --json": jobs,
    "scontrol show jobs --json": jobs,
    "scontrol show job --json": jobs,
    "sacct --json": accounted,
    "scontrol show partitions --json": partitions,
    "scontrol show reservations --json": reservations,
    "scontrol show licenses --json": licenses,
    "scontrol ping --json": pings,
    "sdiag --json": statistics,
    "slurmrestd": answer,
}
