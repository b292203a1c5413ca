"""A run remembers the jobs it asked for, so that they are found again after a crash."""

from pathlib import Path

import pytest
from msgspec import structs

from assay.model import Job, RunInfo, Target
from assay.run.index import Index
from assay.run.store import Run

JOB = Job(name="assay-1", method="sbatch", nodes=("n1",))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    target = Target(name="c", kind="slurm")
    return Run.create(tmp_path, RunInfo(id="r", target=target, started=1.0, tool_version="0", method="1"))


def test_the_last_word_about_each_job(run: Run) -> None:
    with run.writer("audit", "0") as writer:
        writer.submitted(JOB)
        writer.submitted(structs.replace(JOB, name="assay-2"))
        writer.submitted(structs.replace(JOB, state="submitted", id="7"))
    assert {job.name: (job.state, job.id) for job in run.jobs()} == {
        "assay-1": ("submitted", "7"),
        "assay-2": ("planned", ""),
    }
    assert not run.problems()


def test_an_index_of_an_older_release_is_made_anew(run: Run) -> None:
    with run.writer("audit", "0") as writer:
        writer.submitted(JOB)
    index = Index(run.path)
    index._db.execute("drop table job")
    index._db.commit()
    index.close()
    assert [job.name for job in run.jobs()] == ["assay-1"]
