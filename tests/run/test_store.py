"""A run survives what happens to files: torn and damaged lines, a full disk, two writers, a changed past."""

import base64
import contextlib
import errno
import os
import random
import re
import sqlite3
import subprocess
import sys
import textwrap
import zipfile
import zlib
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.model import Missing, RawFact, Read, RunInfo, Target
from assay.run import archive, chain, record, segment as segments
from assay.run.archive import export, unpack
from assay.run.record import Answered
from assay.run.store import Run, new_id

NOW = 1796083200.0


def raw(node: str = "n1", probe: str = "os.release", text: str = "ID=debian") -> RawFact:
    return RawFact(probe, node, (Read("release", files={"/etc/os-release": text}),), at=NOW, uid=0)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    target = Target(name="lab", kind="ssh", nodes="n[1-2]")
    info = RunInfo(id=new_id("lab", NOW), target=target, started=NOW, tool_version="0", method="1", nodes=("n1", "n2"))
    return Run.create(tmp_path, info)


def fill(run: Run, *facts: RawFact) -> None:
    with run.writer("audit", "0") as writer:
        for fact in facts:
            writer.fact(fact)
        writer.answered(Answered("n1", NOW))
        writer.finish("complete")
    run.refresh()


def segment(run: Run) -> Path:
    return next((run.path / "segments").glob("*.jsonl"))


def test_what_was_written_is_read_back_node_by_node(run: Run) -> None:
    fill(run, raw("n2"), raw("n1"), raw("n1", "cpu.topology", "x"))
    assert [(node, [f.probe for _, f in answers]) for node, answers in run.nodes()] == [
        ("n1", ["os.release", "cpu.topology"]),
        ("n2", ["os.release"]),
    ]
    assert run.exit_reason == "complete"
    assert run.problems() == []
    assert next(iter(run.answers())).node == "n1"


def test_equal_evidence_has_an_equal_address(run: Run) -> None:
    fill(run, raw(), raw())
    assert len({p.id for p in run.index.of_node("n1")}) == 1


def test_evidence_is_found_by_the_beginning_of_its_id(run: Run) -> None:
    fill(run, raw())
    (place,) = run.index.find(run.index.of_node("n1")[0].id[:12])
    assert place.probe == "os.release"
    assert run.index.find("ffffffffffff") == []


def test_a_segment_truncated_in_the_middle_loses_one_record_only(run: Run) -> None:
    fill(run, raw("n1"), raw("n2"))
    data = segment(run).read_bytes()
    segment(run).write_bytes(data[: data.index(b'"n2"')])
    again = Run(run.path)
    assert [node for node, _ in again.nodes()] == ["n1"]
    assert any("torn record" in p for p in again.problems())
    assert any("were sealed and are gone" in p for p in again.problems())
    assert again.exit_reason == "interrupted"


def test_garbage_between_records_is_said_and_skipped(run: Run) -> None:
    fill(run, raw("n1"), raw("n2"))
    lines = segment(run).read_bytes().splitlines(keepends=True)
    segment(run).write_bytes(b"".join([lines[0], b"\x00\xff{garbage\n", *lines[1:]]))
    again = Run(run.path)
    assert [node for node, _ in again.nodes()] == ["n1", "n2"]
    assert any("line 2: damaged record" in p for p in again.problems())


def test_changed_evidence_is_never_used(run: Run) -> None:
    fill(run, raw("n1"))
    text = segment(run).read_text()
    at = text.index('"z":"') + 20
    segment(run).write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    again = Run(run.path)
    assert [answers for _, answers in again.nodes()] == [[]]
    assert any("differ from what was sealed" in p for p in again.problems())


def test_the_chain_grows_and_names_what_changed(run: Run) -> None:
    fill(run, raw("n1"))
    first = chain.head(run.path)
    assert chain.seal(run.path) == first, "sealing again adds nothing"
    fill(run, raw("n2"))
    assert chain.head(run.path) != first
    assert chain.verify(run.path) == []
    (run.path / "run.json").write_text((run.path / "run.json").read_text().replace('"lab"', '"lob"'))
    assert len(chain.verify(run.path)) == 1


def test_a_damaged_index_is_rebuilt(run: Run) -> None:
    fill(run, raw("n1"))
    (run.path / "index.sqlite").write_bytes(b"this is no database, whatever it is called" * 100)
    assert [node for node, _ in Run(run.path).nodes()] == ["n1"]
    (run.path / "index.sqlite").unlink()
    assert [node for node, _ in Run(run.path).nodes()] == ["n1"]


def test_two_writers_at_once_keep_apart(run: Run) -> None:
    with run.writer("audit", "0") as one, run.writer("audit", "0") as two:
        one.fact(raw("n1"))
        two.fact(raw("n2"))
        one.finish("complete")
        two.finish("complete")
    run.refresh()
    assert [node for node, _ in run.nodes()] == ["n1", "n2"]
    assert run.problems() == []


def test_an_open_writer_is_alive_until_its_process_ends(run: Run) -> None:
    code = textwrap.dedent(f"""
        import pathlib, sys
        from assay.run.store import Run
        Run(pathlib.Path({str(run.path)!r})).writer("audit", "0")
        print("open", flush=True)
        sys.stdin.read()
    """)
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    assert Run(run.path).alive
    child.kill()
    child.communicate()
    assert not Run(run.path).alive
    assert Run(run.path).exit_reason == "interrupted"


def test_a_full_disk_is_said_and_costs_only_the_last_record(run: Run) -> None:
    """RLIMIT_FSIZE stands for the full disk: the write is refused half way through a record."""
    code = textwrap.dedent(f"""
        import os, pathlib, resource, signal
        from assay.errors import StoreError
        from assay.model import RawFact, Read
        from assay.run.store import Run
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        writer = Run(pathlib.Path({str(run.path)!r})).writer("audit", "0")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        try:
            for i in range(100):
                writer.fact(RawFact("p", f"n{{i:03d}}", (Read("k", out=os.urandom(3000).hex()),)))
        except StoreError as e:
            print(e.message)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "File too large; the" in done.stdout, done.stderr
    assert "records so far are kept" in done.stdout
    again = Run(run.path)
    kept = [node for node, answers in again.nodes() if answers]
    assert kept
    assert again.problems() == []


def test_a_directory_that_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no run"):
        Run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(StoreError, match=r"run\.json is damaged"):
        Run(tmp_path)


def test_export_is_the_same_bytes_each_time_and_reads_back(run: Run, tmp_path: Path) -> None:
    fill(run, raw("n1"))
    one, two = export(run, tmp_path / "a.assay"), export(run, tmp_path / "b.assay")
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_mode & 0o077 == 0
    again = unpack(one, tmp_path / "again")
    assert again.info == run.info
    assert again.problems() == []
    assert [node for node, _ in again.nodes()] == ["n1"]


@pytest.mark.parametrize("name", ["../evil", "segments/../../evil.jsonl", "/etc/evil", "segments/a/b.jsonl", "x"])
def test_an_archive_with_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "bad.assay", "w") as bad:
        bad.writestr(name, "x")
    with pytest.raises(StoreError, match="something else"):
        unpack(tmp_path / "bad.assay", tmp_path / "out")
    assert not (tmp_path / "evil").exists()
    (tmp_path / "short.assay").write_bytes((tmp_path / "bad.assay").read_bytes()[:20])
    with pytest.raises(StoreError, match="no exported run"):
        unpack(tmp_path / "short.assay", tmp_path / "out")


def test_a_missing_node_is_on_record(run: Run) -> None:
    with run.writer("audit", "0") as writer:
        writer.answered(Answered("n2", NOW, Missing("unreachable", "n2: no route to host")))
        writer.finish("complete")
    run.refresh()
    assert [a.missing for a in run.answers()] == [Missing("unreachable", "n2: no route to host")]


def test_a_run_is_private(run: Run) -> None:
    fill(run, raw())
    for path in [run.path, *run.path.rglob("*")]:
        if path.name != "index.sqlite":
            assert path.stat().st_mode & 0o022 == 0
    assert run.path.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not Path("/usr/bin/ssh-keygen").exists(), reason="ssh-keygen is not installed")
def test_a_signature_covers_the_head_and_nothing_later(run: Run, tmp_path: Path) -> None:
    from assay.run.sign import check_signature, sign

    fill(run, raw("n1"))
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "auditor", "-f", str(key)], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"auditor@example.org {key.with_suffix('.pub').read_text()}")
    sign(run.path, key)
    assert "Good" in check_signature(run.path, signers, "auditor@example.org")
    with pytest.raises(StoreError):
        check_signature(run.path, signers, "someone@example.org")
    fill(run, raw("n2"))
    with pytest.raises(StoreError, match="signed at another head"):
        check_signature(run.path, signers, "auditor@example.org")


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "chained",
    [
        b"garbage\n",
        b"\xff\n",
        DEEP,
        b'{"segment":"../../../../dev/zero","start":0,"end":9999999999,"sha256":"","head":""}\n',
        b'{"segment":"0000-a.jsonl","start":9,"end":1,"sha256":"","head":""}\n',
        b'{"segment":"0000-a.jsonl","start":-5,"end":1,"sha256":"","head":""}\n',
    ],
)
def test_a_damaged_chain_is_said_and_costs_no_evidence(run: Run, chained: bytes) -> None:
    fill(run, raw("n1"))
    (run.path / "chain.jsonl").write_bytes(chained)
    again = Run(run.path)
    assert [node for node, _ in again.nodes()] == ["n1"]
    assert any("chain.jsonl is damaged" in p for p in again.problems())


@pytest.mark.parametrize(
    "spoil",
    [
        "drop table evidence",
        "alter table evidence drop column length",
        "update evidence set id = cast(x'ff' as text)",
        "update evidence set node = cast(x'ff' as text)",
    ],
)
def test_an_index_that_breaks_when_asked_is_rebuilt(run: Run, spoil: str) -> None:
    fill(run, raw("n1"))
    Run(run.path).index.close()
    with contextlib.closing(sqlite3.connect(run.path / "index.sqlite")) as db:
        db.execute(spoil)
        db.commit()
    again = Run(run.path)
    assert [(node, len(answers)) for node, answers in again.nodes()] == [("n1", 1)]
    assert again.problems() == []


def test_an_index_that_points_elsewhere_is_never_followed(run: Run) -> None:
    fill(run, raw("n1"))
    Run(run.path).index.close()
    with contextlib.closing(sqlite3.connect(run.path / "index.sqlite")) as db:
        db.execute("update evidence set offset = 'x'")
        db.execute("update answered set offset = 5")
        db.commit()
    again = Run(run.path)
    assert [answers for _, answers in again.nodes()] == [[]]
    assert list(again.answers()) == []
    assert len(again.problems()) == 2


@pytest.mark.parametrize("line", [DEEP, b'{"k":"finished","at":1,"exit_reason":"x","y":' + DEEP, b"\x00" * 4096])
def test_hostile_lines_are_damaged_records(run: Run, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LIMIT_BYTES", 3000)
    fill(run, raw("n1"))
    data = segment(run).read_bytes()
    segment(run).write_bytes(line + b"\n" + data)
    again = Run(run.path)
    assert [node for node, _ in again.nodes()] == ["n1"]
    assert any(f"record of {len(line) + 1} bytes" in p for p in again.index.problems())
    assert all(answers for _, answers in again.nodes())


def test_evidence_that_unpacks_without_end_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LIMIT_BYTES", 1000)
    bomb = record.Evidence("0" * 64, "n1", "os.release", base64.b64encode(zlib.compress(b" " * 100_000)).decode())
    with pytest.raises(ValueError, match="not what its address says"):
        record.unpack(bomb)


def test_a_writer_that_died_before_its_first_word_is_not_alive(run: Run) -> None:
    (run.path / "segments" / "0000-audit-aaaa.jsonl").write_bytes(b"")
    assert not Run(run.path).alive


@pytest.mark.parametrize("started", ["1e300", "-1e300", "1e15"])
def test_a_run_of_no_known_time_is_damaged(run: Run, started: str) -> None:
    text = (run.path / "run.json").read_text()
    (run.path / "run.json").write_text(re.sub(r'"started": [0-9.e]+', f'"started": {started}', text))
    with pytest.raises(StoreError):
        Run(run.path)


def test_an_export_damaged_anywhere_is_said(run: Run, tmp_path: Path) -> None:
    fill(run, *(raw(f"n{i}", text="x" * i) for i in range(20)))
    data = export(run, tmp_path / "a.assay").read_bytes()
    chance = random.Random(1)  # noqa: S311 - the same damage each time
    for i in range(300):
        spoilt = bytearray(data)
        spoilt[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (tmp_path / "b.assay").write_bytes(spoilt if i % 3 else data[: chance.randrange(len(data))])
        with contextlib.suppress(StoreError):
            list(unpack(tmp_path / "b.assay", tmp_path / f"to{i}").nodes())


def test_an_export_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LIMIT_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "a.assay", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("segments/0000-a.jsonl", b"\0" * 1_000_000)
    with pytest.raises(StoreError, match="is no run"):
        unpack(tmp_path / "a.assay", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_segment_appears_with_its_first_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _data: bytes) -> int:
        assert list((run.path / "segments").glob("*.jsonl")) == []
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="No space left"):
        run.writer("audit", "0")
    assert list((run.path / "segments").iterdir()) == []
