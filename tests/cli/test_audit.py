"""`assay audit` on this machine as users and mishaps meet it: real processes, real signals, real limits."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ASSAY = [sys.executable, "-m", "assay"]
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
Env = dict[str, str]


@pytest.fixture
def env(tmp_path: Path) -> Env:
    """A clean environment with its own runs directory and a PATH whose first entry is ours."""
    (tmp_path / "bin").mkdir()
    return {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ASSAY_RUNS": str(tmp_path / "runs"),
        "LC_ALL": "C.UTF-8",
        "ASSAY_TEST": str(tmp_path),
    }


def assay(*argv: str, env: Env, python: str = sys.executable, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "assay", *argv],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=60,
        **kwargs,  # type: ignore[call-overload, no-any-return]
    )


def python_for_everyone() -> str:
    """An interpreter of this version that every user may run; ours may lie in root's home."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        code = "import sys; print(*sys.version_info[:2])"
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, user=65534, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        if done.stdout.split() == [str(n) for n in sys.version_info[:2]]:
            return python
    pytest.skip("no Python of this version that an unprivileged user may run")


def tool(env: Env, name: str, body: str) -> None:
    path = Path(env["PATH"].split(":")[0]) / name
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)


def runs(env: Env) -> list[Path]:
    return sorted(Path(env["ASSAY_RUNS"]).glob("*/run.json"))


def ours(env: Env) -> list[int]:
    """Live processes that carry this test's environment."""
    mark = f"ASSAY_TEST={env['ASSAY_TEST']}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            state = (path.parent / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if mark in path.read_bytes() and state != "Z":
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def until(ready: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def sound(done: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert "fault of assay" not in done.stderr, done.stderr


def test_json_is_the_contract(env: Env) -> None:
    done = assay("audit", "local", "--json", "--fail-on", "never", env=env)
    sound(done)
    out = json.loads(done.stdout)
    assert {
        "run",
        "target",
        "method",
        "emulated",
        "exit_reason",
        "coverage",
        "counts",
        "findings",
        "not_looked_at",
    } <= set(out)
    assert out["exit_reason"] == "complete"
    assert sum(out["counts"].values()) == len(out["findings"])
    assert set(out["coverage"]["security"]) >= {"judged", "unknown", "denied", "total"}
    keys = {"check", "category", "criteria", "subject", "status", "severity", "reason", "message", "seen", "expected",
            "bar", "evidence", "fix"}  # fmt: skip
    assert all(keys <= set(f) for f in out["findings"])
    assert [f["check"] for f in out["findings"] if f["status"] == "error"] == []


def test_judging_the_run_again_says_the_same(env: Env) -> None:
    first = json.loads(assay("audit", "local", "--json", "--fail-on", "never", env=env).stdout)
    again = json.loads(assay("judge", "last", "--json", "--fail-on", "never", env=env).stdout)
    assert again == first


def test_every_output_format(env: Env, tmp_path: Path) -> None:
    names = ["a.json", "a.html", "a.junit.xml", "a.md", "a.txt"]
    done = assay("audit", "local", "--fail-on", "never", *[x for n in names for x in ("-o", n)], env=env, cwd=tmp_path)
    sound(done)
    assert json.loads((tmp_path / "a.json").read_text())["target"] == "local"
    html = (tmp_path / "a.html").read_text()
    assert len(html) < 300_000
    assert "<script src" not in html
    assert "http" not in html.split("</head>")[0].replace("http-equiv", "")
    import xml.etree.ElementTree as ET

    suites = ET.fromstring((tmp_path / "a.junit.xml").read_text())  # noqa: S314 - written just now
    assert sum(int(s.attrib["tests"]) for s in suites) == len(json.loads((tmp_path / "a.json").read_text())["findings"])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["audit", "nowhere"], "no target 'nowhere'"),
        (["audit", "local", "--only", "nothing.*"], "no check matches"),
        (["audit", "local", "--category", "fun"], "no category"),
        (["audit", "local", "-o", "x.pdf"], "unknown suffix"),
        (["audit", "local", "-o", "/nowhere/x.html"], "does not exist"),
        (["audit", "local", "--method", "/nowhere"], "no directory"),
        (["audit"], "no target given"),
        (["audit", "root@-oProxyCommand=x"], "node name"),
        (["judge", "nothing"], "no run"),
        (["judge", "/etc/passwd"], "no exported run"),
        (["explain", "no.such"], "no check"),
        (["facts", "parse", "nonsense"], "no parser"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_use_is_one_message_and_exit_2(env: Env, argv: list[str], words: str) -> None:
    done = assay(*argv, env=env, stdin=subprocess.DEVNULL)
    sound(done)
    assert done.returncode == 2
    assert words in done.stderr
    assert not runs(env)


def test_errors_are_json_too(env: Env) -> None:
    done = assay("audit", "nowhere", "--json", env=env)
    assert json.loads(done.stdout)["code"] == "usage"


def test_ctrl_c_ends_130_leaves_nothing_running_and_goes_on(env: Env) -> None:
    tool(env, "nvidia-smi", "import time\ntime.sleep(300)")
    child = subprocess.Popen(
        [*ASSAY, "audit", "local"], env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    until(lambda: runs(env) and sum(p.stat().st_size for p in runs(env)[0].parent.glob("segments/*")) > 5_000)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert child.returncode == 130, err
    assert "go on with: assay audit local" in err
    assert "Traceback" not in out + err
    until(lambda: not ours(env), 5)
    tool(env, "nvidia-smi", "raise SystemExit(127)")
    done = assay("audit", "local", "--fail-on", "never", "--json", env=env)
    sound(done)
    assert "going on with the interrupted run" in done.stderr
    assert len(runs(env)) == 1
    assert json.loads(done.stdout)["exit_reason"] == "complete"


def test_kill_9_keeps_what_was_read_and_goes_on(env: Env) -> None:
    tool(env, "nvidia-smi", "import time\ntime.sleep(300)")
    child = subprocess.Popen([*ASSAY, "audit", "local"], env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: runs(env) and sum(p.stat().st_size for p in runs(env)[0].parent.glob("segments/*")) > 5_000)
    child.kill()
    child.wait()
    until(lambda: not ours(env), 30)
    judged = json.loads(assay("judge", "last", "--json", "--fail-on", "never", env=env).stdout)
    assert judged["exit_reason"] == "interrupted"
    assert judged["evidence"] >= 1
    tool(env, "nvidia-smi", "raise SystemExit(127)")
    done = assay("audit", "local", "--fail-on", "never", env=env)
    assert "going on with the interrupted run" in done.stderr
    assert len(runs(env)) == 1


def test_two_audits_at_once_do_not_meet(env: Env) -> None:
    both = [subprocess.Popen([*ASSAY, "audit", "local", "--fail-on", "never"], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for _ in range(2)]  # fmt: skip
    for child in both:
        _, err = child.communicate(timeout=60)
        assert child.returncode in (0, 3), err
    assert len(runs(env)) == 2
    assert assay("runs", env=env).stdout.count("complete") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"TERM": "dumb", "NO_COLOR": "1"},
        {"HOME": "/nowhere"},
        {"COLUMNS": "20"},
        {"PYTHONUTF8": "0", "LC_ALL": "POSIX"},
    ],
    ids=["ascii", "dumb", "no home", "narrow", "posix"],
)
def test_odd_environments(env: Env, change: Env) -> None:
    done = assay("audit", "local", "--fail-on", "never", env=env | change)
    sound(done)
    assert done.returncode in (0, 3), done.stderr
    assert "pass" in done.stdout
    assert "\x1b" not in done.stdout


def test_without_path_and_home(env: Env, tmp_path: Path) -> None:
    bare = {"ASSAY_TEST": env["ASSAY_TEST"]}
    done = assay("audit", "local", "--fail-on", "never", env=bare, cwd=tmp_path)
    sound(done)
    assert done.returncode in (0, 3), done.stderr
    assert list(tmp_path.glob("assay-runs/*/run.json"))


def test_a_closed_pipe_is_no_error(env: Env) -> None:
    child = subprocess.Popen([*ASSAY, "explain"], env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.read(10)
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait(30) == 0
    child.stderr.close()


def test_an_unwritable_runs_directory_is_said(env: Env, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = assay("audit", "local", env=env | {"ASSAY_RUNS": str(tmp_path / "file")})
    sound(done)
    assert done.returncode == 2
    assert "cannot" in done.stderr


@ROOT_ONLY
def test_an_unprivileged_user_gets_a_list_of_what_was_refused(env: Env) -> None:
    python = python_for_everyone()
    open_dir = Path("/tmp") / f"assay-test-{os.getpid()}"  # noqa: S108 - a place that the other user can reach
    open_dir.mkdir(mode=0o777)
    open_dir.chmod(0o777)
    try:
        done = assay(
            "audit",
            "local",
            "--json",
            "--fail-on",
            "never",
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            env=env
            | {"ASSAY_RUNS": str(open_dir), "HOME": str(open_dir), "PYTHONPATH": ":".join(filter(None, sys.path))},
            python=python,
        )
        sound(done)
        out = json.loads(done.stdout)
        assert {g["probe"] for g in out["not_granted"]}
        assert all(f["status"] != "pass" for f in out["findings"] if f["reason"] == "denied")
    finally:
        subprocess.run(["rm", "-rf", str(open_dir)], check=True)


@ROOT_ONLY
def test_a_full_disk_is_said_and_what_was_kept_is_readable(env: Env, tmp_path: Path) -> None:
    """A 64 KiB file system of our own, in a mount namespace of our own."""
    script = f"""
mount -t tmpfs -o size=48k tmpfs {tmp_path}/runs && {sys.executable} -m assay audit local; echo "exit $?"
{sys.executable} -m assay show last
"""
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, env=env, check=False, timeout=60
    )
    sound(done)
    assert "exit 2" in done.stdout, done.stderr
    assert "No space left on device" in done.stderr
    assert "run the same command again" in done.stderr
    assert "interrupted" in done.stdout
    assert len(done.stdout.splitlines()) >= 3, "the first answers, however many had room"


@ROOT_ONLY
def test_a_hung_nvidia_smi_beside_a_present_device_fails(env: Env, tmp_path: Path) -> None:
    """A device node of our own in a mount namespace of our own; nvidia-smi never answers."""
    tool(env, "nvidia-smi", "import time\ntime.sleep(300)")
    (tmp_path / "assay.toml").write_text('[targets.here]\nkind = "local"\ntimeout_s = 6\n')
    script = f"""
mount -t tmpfs tmpfs /dev/shm && mkdir /dev/shm/dev && cp -a /dev/null /dev/zero /dev/urandom /dev/shm/dev/ &&
mknod /dev/shm/dev/nvidia0 c 195 0 && mount --bind /dev/shm/dev /dev &&
{sys.executable} -m assay audit here --json --only 'nvidia.*'; echo "exit $?" >&2
"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    sound(done)
    assert "exit 1" in done.stderr, done.stderr
    failed = [f for f in json.loads(done.stdout)["findings"] if f["status"] == "fail"]
    assert any("nvidia-smi" in f["message"] for f in failed), failed
