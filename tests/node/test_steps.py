"""Each kind of step, answered by the real payload."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.model import Clock, Env, Exec, Files, Links, Probe, Stat, Which
from on_node import PYTHON, Said, heard, run, source

Ask = Callable[..., Said]
Tool = Callable[[str, str], Path]


def _works(name: str) -> bool:
    try:
        return subprocess.run([name, "-c", ""], capture_output=True, check=False, timeout=10).returncode == 0
    except OSError:
        return False


EVERY_KIND = (
    Exec("exec", ("uname", "-s")),
    Files("files", ("/proc/self/status", "/proc/sys/kernel/ostype")),
    Links("links", ("/proc/self/exe",)),
    Stat("stat", ("/dev/null",)),
    Env("env", ("ASSAY_*",)),
    Which("which", ("uname",)),
    Clock("clock"),
)


@pytest.mark.parametrize("python", [f"python3.{minor}" for minor in (6, 7, 8, 9, 10, 12, 13, 14)])
def test_every_python(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not _works(python):
        pytest.skip(f"{python} is not installed")
    monkeypatch.setenv("ASSAY_X", "y")
    said = run([Probe("p", EVERY_KIND)], argv=(python, "-I", "-S", "-B", "-"))
    assert said.hello
    assert said.complete
    assert said.stderr == ""
    assert {read.key: read.state for read in said.facts["p"].reads} == dict.fromkeys(
        (step.key for step in EVERY_KIND), "ok"
    )


def test_hello_and_the_frame_of_a_fact(ask: Ask) -> None:
    said = ask(Exec("x", ("true",)))
    assert said.hello
    assert said.hello.host == os.uname().nodename
    assert said.hello.uid == os.getuid() == said.facts["p"].uid
    assert said.hello.python == ".".join(str(n) for n in sys.version_info[:3])
    assert said.hello.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert abs(said.facts["p"].at - said.hello.at) < 2
    assert said.rc == 0


def test_command(ask: Ask, tool: Tool) -> None:
    tool("mytool", 'echo "out: $1"; echo "err" >&2; exit 3')
    read = ask(Exec("x", ("mytool", "; echo $HOME > /dev/null"))).read()
    assert (read.out, read.err, read.rc, read.state) == ("out: ; echo $HOME > /dev/null\n", "err\n", 3, "ok")
    assert read.argv == ("mytool", "; echo $HOME > /dev/null")


def test_command_sees_little(ask: Ask, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool("mytool", 'env; cat; pwd; exec 2>&1; [ -t 0 ] && echo tty; ls /proc/$$/fd | tr "\\n" " "')
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    out = ask(Exec("x", ("mytool",))).read().out
    env = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    assert env["LC_ALL"] == "C"
    assert env["PATH"].endswith("/usr/local/nvidia/bin")
    assert "/usr/sbin" in env["PATH"].split(":")
    assert "API_KEY" not in env
    assert "\n/\n" in out, "commands run in /"
    assert "tty" not in out


def test_command_that_is_not_there(ask: Ask) -> None:
    assert ask(Exec("x", ("no-such-tool",))).read().state == "absent"
    assert ask(Exec("x", ("/no/such/tool",))).read().state == "absent"


def test_command_that_may_not_be_run(ask: Ask, tool: Tool) -> None:
    tool("mytool", "true").chmod(0o644)
    assert ask(Exec("x", ("mytool",))).read().state == "denied"


def test_command_that_cannot_be_run(ask: Ask, tool: Tool) -> None:
    tool("mytool", "#!/no/such/interpreter\n")
    read = ask(Exec("x", ("mytool",))).read()
    assert read.state == "error"
    assert "cannot be started" in read.err
    assert ask(Exec("x", ("true", "a\0b"))).read().state == "error"


def test_command_killed_by_a_signal_keeps_its_number(ask: Ask, tool: Tool) -> None:
    tool("mytool", "kill -SEGV $$")
    assert ask(Exec("x", ("mytool",))).read().rc == -11


def test_command_per_match(ask: Ask, tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    said = ask(Exec("x", ("cat", "{}"), each=(f"{tmp_path}/*",)), Exec("none", ("cat", "{}"), each=("/no/such/*",)))
    assert [(read.argv[1][-1], read.out) for read in said.facts["p"].every("x")] == [("a", "a"), ("b", "b")]
    none = said.read("none")
    assert (none.state, none.argv) == ("absent", ("cat", "{}"))


def test_files_below_a_root(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "etc/conf.d").mkdir(parents=True)
    (tmp_path / "etc/conf.d/one").write_text("1")
    (tmp_path / "etc/conf.d/two").write_text("2")
    (tmp_path / "etc/conf.d/.hidden").write_text("3")
    (tmp_path / "etc/conf.d/directory").mkdir()
    read = ask(Files("x", ("/etc/conf.d/*", "/etc/*.d/[t]wo", "/etc/none")), root=str(tmp_path)).read()
    assert read.files == {"/etc/conf.d/one": "1", "/etc/conf.d/two": "2"}
    assert read.errors == {}


def test_files_are_cut(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * 100)
    (tmp_path / "fits").write_text("y" * 10)
    read = ask(Files("x", ("/big", "/fits"), cap=10), root=str(tmp_path)).read()
    assert read.files == {"/big": "x" * 10, "/fits": "y" * 10}
    assert read.cut == 90
    assert ask(Files("x", ("/proc/self/status",), cap=10)).read().cut == 1, "procfs does not know its sizes"


def test_more_files_than_wanted_is_said(ask: Ask, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"f{number}").write_text("")
    read = ask(Files("x", ("/f*",), limit=3), root=str(tmp_path)).read()
    assert (len(read.files), read.cut, read.errors) == (3, 2, {"/f*": "LIMIT"})


def test_nothing_matches(ask: Ask) -> None:
    steps = (
        Files("files", ("/no/such/*",)),
        Links("links", ("/no/such",)),
        Stat("stat", ("/no",)),
        Env("env", ("NO_*",)),
    )
    said = ask(*steps, Which("which", ("no-such-tool",)))
    assert {read.state for read in said.facts["p"].reads} == {"absent"}


def test_only_regular_files_are_opened(ask: Ask, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "kmsg").symlink_to("/proc/kmsg")
    (tmp_path / "dangling").symlink_to("/no/such")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        said = ask(Files("x", ("/*",)), Files("y", ("/dangling",)), root=str(tmp_path))
    assert said.read().state == "error"
    assert said.read().files == {}
    refused = {"/fifo": "not-regular", "/null": "not-regular", "/socket": "not-regular", "/loop": "ELOOP"}
    assert {path: name for path, name in said.read().errors.items() if path != "/kmsg"} == refused
    assert said.read().errors["/kmsg"] in ("not-regular", "EPERM")
    assert said.read("y").state == "absent"
    assert said.took_s < 3


def test_links(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("../target")
    (tmp_path / "b").write_text("")
    assert ask(Links("x", ("/*",)), root=str(tmp_path)).read().files == {"/a": "../target"}


def test_stat_lines(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "dangling").symlink_to("nowhere")
    files = ask(Stat("x", ("/*",)), root=str(tmp_path)).read().files
    assert files["/file"] == f"f 0640 {os.getuid()} {os.getgid()} 0:0 rw"
    assert files["/dangling"].startswith("l 0777 ")
    assert files["/dangling"].endswith(" -")
    assert ask(Stat("x", ("/dev/null",))).read().files == {"/dev/null": "c 0666 0 0 1:3 rw"}


def test_environment(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NCCL_DEBUG": "INFO", "NCCL_API_KEY": "hunter2", "NCCL_URL": "http://u:pw@h/"}.items():
        monkeypatch.setenv(name, value)
    assert ask(Env("x", ("NCCL_*",))).read().files == {
        "NCCL_DEBUG": "INFO",
        "NCCL_API_KEY": "<redacted>",
        "NCCL_URL": "http://u:<redacted>@h/",
    }


def test_which_finds_every_executable_once(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    first = tool("mytool", "true")
    (tmp_path / "opt/v1/bin").mkdir(parents=True)
    (tmp_path / "opt/v1/bin/mytool").write_text("#!/bin/sh\n")
    (tmp_path / "opt/v1/bin/mytool").chmod(0o755)
    (tmp_path / "opt/v2").symlink_to("v1")
    (first.parent / "othertool").symlink_to("mytool")
    (first.parent / "plainfile").write_text("")
    files = ask(Which("x", ("mytool", "othertool", "plainfile"), also=(f"{tmp_path}/opt/*/bin/mytool",))).read().files
    assert list(files.items()) == [
        (str(first), "mytool"),
        (str(first.parent / "othertool"), "othertool"),
        (f"{tmp_path}/opt/v1/bin/mytool", "mytool"),
    ]


def test_secrets_stay_on_the_node(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text('{"password": "hunter2", "port": 1}')
    tool("mytool", "echo --token=hunter2; echo DB_PASSWORD=hunter2 >&2")
    said = ask(Files("f", (f"{tmp_path}/conf",)), Exec("x", ("mytool",)))
    assert said.read("f").files[f"{tmp_path}/conf"] == '{"password": "<redacted>", "port": 1}'
    assert (said.read().out, said.read().err) == ("--token=<redacted>\n", "DB_PASSWORD=<redacted>\n")


def test_a_python_without_ctypes_answers_all_the_same() -> None:
    program = b"import sys\nsys.modules['ctypes'] = None\n" + source([Probe("p", EVERY_KIND)])
    done = subprocess.run(PYTHON, input=program, capture_output=True, check=False, timeout=10)
    said = heard([Probe("p", EVERY_KIND)], done.stdout, done.returncode, done.stderr, 0)
    assert said.read("exec").state == "ok"
    assert (said.read("clock").state, said.read("clock").errors) == ("error", {"adjtimex": "ENOSYS"})
