"""Tools that hang or flood, files that block, and machines where nothing is as it should be."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.model import Env, Exec, Files, Links, Probe, Stat, Step, Which
from on_node import PYTHON, Said, gone, heard, pid_in, run, source, started

Ask = Callable[..., Said]
Tool = Callable[[str, str], Path]
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
EVERYTHING: tuple[Step, ...] = (
    Exec("exec", ("uname",)),
    Files("files", ("/proc/cpuinfo",)),
    Links("links", ("/proc/self/exe",)),
    Stat("stat", ("/dev/null",)),
    Which("which", ("uname",)),
)


def all_ok(said: Said) -> bool:
    return {read.key: read.state for read in said.facts["p"].reads} == {step.key: "ok" for step in EVERYTHING}


# ---- tools ----


def test_a_tool_that_hangs_is_ended_and_what_it_said_kept(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    tool("mytool", f"trap '' TERM INT HUP; echo half; echo $$ > {tmp_path}/pid; while :; do sleep 60; done")
    said = ask(Exec("x", ("mytool",), timeout_s=0.4), Exec("after", ("echo", "on")))
    assert (said.read().state, said.read().out, said.read().rc) == ("timed-out", "half\n", None)
    assert said.read("after").out == "on\n"
    assert said.took_s < 3
    assert gone(pid_in(tmp_path / "pid"))


def test_grandchildren_that_hold_the_pipe_do_not_hold_us(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    tool("mytool", f"sleep 60 & echo $! > {tmp_path}/pid; echo done; exit 4")
    said = ask(Exec("x", ("mytool",), timeout_s=10))
    assert (said.read().state, said.read().out, said.read().rc) == ("ok", "done\n", 4)
    assert said.took_s < 3
    assert gone(pid_in(tmp_path / "pid"))


def test_a_hanging_tool_takes_the_groups_it_made_with_it(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    fork = f"if os.fork() == 0:\n    os.setpgid(0, 0)\n    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    tool("mytool", f"#!{sys.executable} -IS\nimport os, time\n{fork}\ntime.sleep(60)\n")
    assert ask(Exec("x", ("mytool",), timeout_s=1)).read().state == "timed-out"
    assert gone(pid_in(tmp_path / "pid"))


def test_a_tool_that_closes_its_output_and_goes_on(ask: Ask, tool: Tool) -> None:
    tool("mytool", "echo said; exec >&- 2>&-; exec sleep 60")
    read = ask(Exec("x", ("mytool",), timeout_s=0.4)).read()
    assert (read.state, read.out) == ("timed-out", "said\n")


def test_odd_bytes_arrive_as_text(ask: Ask, tool: Tool) -> None:
    tool("mytool", r"""printf '\000\001\377\355\240\200 "q" \\ \033[31mred\033[0m \303\251 \360\237\222\251'""")
    assert ask(Exec("x", ("mytool",))).read().out == (
        '\0\x01\\xff\\xed\\xa0\\x80 "q" \\ \x1b[31mred\x1b[0m \N{LATIN SMALL LETTER E WITH ACUTE} \N{PILE OF POO}'
    )


@pytest.mark.parametrize("keep", ["head", "tail"])
def test_a_gigabyte_costs_little(ask: Ask, tool: Tool, keep: str) -> None:
    tool("mytool", "head -c 1000000000 /dev/zero | tr '\\0' x; echo end")
    said = ask(
        Exec("x", ("mytool",), cap=1000, keep=keep, timeout_s=8),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)),
    )
    read = said.read()
    assert read.state == "ok"
    assert len(read.out) == 1000
    if keep == "tail":
        assert read.out.endswith("xxxend\n")
        assert (read.rc, read.cut) == (0, 1000000000 + 4 - 1000)
    else:
        assert read.rc is None, "it was stopped, so it has no exit status of its own"
        assert read.cut > 64 << 20
    assert said.took_s < 5


def test_a_flood_of_errors_ends_too(ask: Ask, tool: Tool) -> None:
    tool("mytool", "echo first; yes error >&2")
    said = ask(Exec("x", ("mytool",), timeout_s=8))
    assert said.read().out == "first\n"
    assert len(said.read().err) == 1 << 16
    assert said.took_s < 4


# ---- files ----

BLOCK = """
import time
real = sys.modules['assay.node.reader'].slurp
def blocking(path, cap):
    if path.endswith(b"blocks"):
        time.sleep(60)
    return real(path, cap)
sys.modules['assay.node.reader'].slurp = blocking
"""


def test_a_file_that_blocks_costs_its_probe_only(tmp_path: Path) -> None:
    for name in ("a", "blocks", "c"):
        (tmp_path / name).write_text(name)
    probes = [
        Probe("p", (Files("first", ("/c",)), Files("x", ("/*",)), Exec("later", ("true",))), timeout_s=0.5),
        Probe("other", (Files("x", ("/a",)),)),
    ]
    said = run(probes, BLOCK, root=str(tmp_path))
    assert said.read("first").files == {"/c": "c"}
    assert (said.read().state, said.read().files) == ("timed-out", {"/a": "a"})
    assert said.read().errors == {"/blocks": "timed-out"}
    assert (said.read("later").state, said.read("later").argv) == ("timed-out", ("true",))
    assert said.read(probe="other").files == {"/a": "a"}
    assert said.took_s < 3


def test_a_process_that_cannot_be_killed_does_not_hold_us(tmp_path: Path) -> None:
    """Stands in for a read stuck in the kernel: it neither speaks nor dies."""
    (tmp_path / "blocks").write_text("")
    stuck = BLOCK + (
        "import threading\n"
        "sys.modules['assay.node.reader'].Reader.watch = lambda self: None\n"
        "sys.modules['assay.node.collector'].kill_sessions = lambda sessions: None\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').close()\n"
        "sys.modules['assay.node.reader'].Reader.begin.__globals__['os'].register_at_fork(after_in_child="
        f"lambda: open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid())))\n"
    )
    said = run([Probe("p", (Files("x", ("/blocks",)),), timeout_s=0.3)], stuck, root=str(tmp_path))
    try:
        assert said.read().state == "timed-out"
        assert said.complete
        assert said.took_s < 3
    finally:
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


def test_a_reader_that_dies_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    patch = "import os\nsys.modules['assay.node.reader'].link_target = lambda path: os.kill(os.getpid(), 9)"
    said = run([Probe("p", (Files("f", ("/a",)), Links("x", ("/a",))))], patch, root=str(tmp_path))
    assert said.read("f").files == {"/a": "a"}
    assert (said.read().state, said.read().err) == ("error", "the reading process ended early")


def test_probes_that_share_a_process_outlive_one_that_hangs_and_one_that_dies(tmp_path: Path) -> None:
    for name in ("a", "blocks"):
        (tmp_path / name).write_text(name)
    probes = [Probe(f"p{n:02d}", (Files("x", ("/a",)),)) for n in range(20)]
    probes[3] = Probe(
        "p03", (Files("first", ("/a",)), Files("x", ("/blocks",)), Files("later", ("/a",))), timeout_s=0.5
    )
    probes[9] = Probe("p09", (Files("first", ("/a",)), Links("x", ("/a",))))
    patch = BLOCK + "import os\nsys.modules['assay.node.reader'].link_target = lambda path: os.kill(os.getpid(), 9)\n"
    said = run(probes, patch, root=str(tmp_path))
    assert said.complete
    assert {said.read(probe=p.name).state for p in probes if p.name not in ("p03", "p09")} == {"ok"}
    assert [said.read(key, "p03").state for key in ("first", "x", "later")] == ["ok", "timed-out", "timed-out"]
    assert [said.read(key, "p09").state for key in ("first", "x")] == ["ok", "error"]
    assert said.took_s < 5


def test_a_bug_in_one_step_leaves_the_others() -> None:
    patch = "sys.modules['assay.node.reader'].stat_line = lambda path: 1 // 0"
    said = run([Probe("p", (Stat("x", ("/dev/null",)), Exec("later", ("true",))))], patch)
    assert said.read().state == "error"
    assert "ZeroDivisionError" in said.read().err
    assert said.read("later").rc == 0


def test_two_thousand_files_with_few_descriptors(ask: Ask, tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"f{number}").write_text(str(number))
    said = ask(
        Files("x", ("/f*",)),
        Exec("ls", ("uname",)),
        root=str(tmp_path),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    )
    assert len(said.read().files) == 2000
    assert said.read("ls").rc == 0
    assert said.took_s < 3


def test_too_much_content_is_cut_and_said(ask: Ask, tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"f{number}").write_bytes(b"x" * (1 << 20))
    read = ask(Files("x", ("/f*",), cap=1 << 20), root=str(tmp_path)).read()
    assert sum(map(len, read.files.values())) == 8 << 20
    assert read.cut == 2 << 20


def test_an_answer_too_large_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" * (2 << 20))
    patch = "sys.modules['assay.node.collector'].PROBE_CAP = 1 << 17"
    said = run([Probe("p", (Files("x", ("/f",), cap=2 << 20),))], patch, root=str(tmp_path))
    assert (said.read().state, said.read().err) == ("error", "the answer is too large")


# ---- machines ----


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"PATH": ""},
        {"PATH": "relative:.:"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "utf-16", "PYTHONUTF8": "0"},
        {"TMPDIR": "/no/such", "HOME": "/no/such", "PYTHONHOME": "/no/such", "PYTHONPATH": "/no/such", "ODD": "\udcff"},
    ],
)
def test_any_environment(ask: Ask, env: dict[str, str]) -> None:
    said = ask(*EVERYTHING, env=env)
    assert all_ok(said)
    assert said.stderr == ""


def test_modules_of_the_working_directory_are_not_imported(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    assert all_ok(ask(*EVERYTHING, cwd=tmp_path))


@pytest.mark.parametrize("fds", [(0,), (2,), (0, 2)])
def test_closed_descriptors(tmp_path: Path, fds: tuple[int, ...]) -> None:
    (tmp_path / "payload").write_bytes(source([Probe("p", EVERYTHING)]))
    argv = [*PYTHON[:-1], str(tmp_path / "payload")]
    closed = " ".join(f"{fd}<&-" for fd in fds)
    done = subprocess.run(["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *argv], stdout=subprocess.PIPE, check=False)
    assert all_ok(heard([Probe("p", EVERYTHING)], done.stdout, done.returncode, b"", 0))


def test_closed_output_ends_it() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *PYTHON],
        input=source([Probe("p", EVERYTHING)]),
        check=False,
        timeout=5,
    )
    assert done.returncode == 0


@as_root
def test_read_only_machine(ask: Ask) -> None:
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    script = 'mount -o remount,ro,bind / && ! touch /x 2>/dev/null && exec "$@"'
    argv = ("unshare", "-m", "sh", "-c", script, "sh", *PYTHON)
    if subprocess.run([*argv[:6], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow mounts")
    assert all_ok(ask(*EVERYTHING, argv=argv))


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@as_root
def test_ordinary_user(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{public}:{os.environ['PATH']}")
    for name, mode in {"rootonly": 0o700, "secret": 0o600, "open": 0o644}.items():
        (public / name).write_text("y")
        (public / name).chmod(mode)
    (public / "closed").mkdir(mode=0o700)
    (public / "closed/file").write_text("x")
    base = str(public)
    steps = (
        Files("glob", (f"{base}/closed/*",)),
        Files("name", (f"{base}/closed/file",)),
        Files("file", (f"{base}/secret",)),
        Files("some", (f"{base}/secret", f"{base}/open")),
        Stat("stat", (f"{base}/secret",)),
        Exec("exec", ("rootonly",)),
        Exec("inside", (f"{base}/closed/file",)),
    )
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    said = run(
        [Probe("p", steps)],
        argv=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, *PYTHON[1:]),
    )
    if not said.hello:
        pytest.skip(f"no Python that an ordinary user can run: {said.stderr[-200:]}")
    states = {read.key: read.state for read in said.facts["p"].reads}
    allowed = {key for key, state in states.items() if state == "ok"}
    assert allowed == {"some", "stat"}
    assert set(states.values()) == {"ok", "denied"}
    assert said.read("glob").errors == {f"{base}/closed": "EACCES"}
    assert said.read("some").errors == {f"{base}/secret": "EACCES"}
    assert said.read("stat").files[f"{base}/secret"] == "f 0600 0 0 0:0 -"
    assert said.facts["p"].uid == NOBODY


@as_root
def test_no_process_left_for_this_user() -> None:
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    script = 'ulimit -u 1; exec "$@"'
    argv = (
        "setpriv",
        "--reuid=61234",
        "--regid=61234",
        "--clear-groups",
        "bash",
        "-c",
        script,
        "bash",
        python,
        *PYTHON[1:],
    )
    said = run([Probe("p", (Exec("x", ("true",)),))], argv=argv)
    if not said.hello:
        pytest.skip(f"no Python that an ordinary user can run: {said.stderr[-200:]}")
    assert said.complete
    assert said.read().state == "error"
    assert "cannot start a process" in said.read().err


# ---- ends ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_signals_end_everything(tool: Tool, tmp_path: Path, number: int) -> None:
    tool("mytool", f"trap '' TERM INT HUP; echo $$ > {tmp_path}/pid; while :; do sleep 60; done")
    with started([Probe("p", (Exec("x", ("mytool",), timeout_s=60),), timeout_s=60)]) as process:
        pid = pid_in(tmp_path / "pid")
        os.kill(process.pid, number)
        assert process.wait(timeout=3) == (-number if number == signal.SIGKILL else 128 + number)
        assert gone(pid)


def test_a_listener_who_is_gone_ends_everything(tool: Tool, tmp_path: Path) -> None:
    tool("mytool", f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with started([Probe("p", (Exec("x", ("mytool",), timeout_s=60),), timeout_s=60)]) as process:
        pid = pid_in(tmp_path / "pid")
        assert process.stdout
        process.stdout.close()
        assert process.wait(timeout=3) == 0
        assert gone(pid)


def test_the_deadline_holds_for_all(tool: Tool) -> None:
    tool("mytool", "exec sleep 60")
    probes = [Probe(f"p{n}", (Exec("x", ("mytool",), timeout_s=60),), timeout_s=60) for n in range(5)]
    said = run(probes, parallel=2, deadline_s=0.5)
    assert said.complete
    assert {fact.read("x").state for fact in said.facts.values()} == {"timed-out"}
    assert len(said.facts) == 5
    assert said.took_s < 3


def test_probes_run_side_by_side_and_answer_as_they_end(tool: Tool) -> None:
    tool("mytool", "exec sleep 0.4")
    probes = [Probe("slow", (Exec("x", ("mytool",)),))]
    probes += [Probe(f"also{n}", (Exec("x", ("mytool",)),)) for n in range(3)] + [
        Probe("quick", (Env("x", ("PATH",)),))
    ]
    began = time.monotonic()
    said = run(probes, parallel=5)
    assert time.monotonic() - began < 1.5
    assert next(iter(said.facts)) == "quick"
