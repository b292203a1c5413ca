"""An invented host answers as the collector does: both read the same random trees, as root and as another user."""

import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.lab.parts import Parts, says
from assay.lab.virtual import Output, VirtualHost, answer
from assay.launch.payload import payload
from assay.launch.wire import Wire
from assay.model import Clock, Env, Exec, Files, Links, Probe, RawFact, Read, Stat, Which
from assay.node import reader

NOBODY = 65534
USED = re.compile(r"^(?:import|from) (?!assay)(\w+)", re.MULTILINE)
NAMES = ("a", "b", "card0", "card1", "mc0", ".hidden", "x.conf", "y.conf", "p[1]")
PATTERNS = ("*", "a", "card*", "card[0-9]", "?", "*.conf", ".*", "b", ".", "x.conf", "p*", "*0")
LETTERS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p"}


def grow(root: Path, rng: random.Random) -> None:
    """A few dozen files, links, FIFOs and directories with odd modes."""
    places = [root]
    for _ in range(60):
        path = rng.choice(places) / rng.choice(NAMES)
        if path.is_symlink() or path.exists():
            continue
        kind = rng.choice(("file", "file", "dir", "dir", "link", "fifo"))
        if kind == "dir":
            path.mkdir()
            places.append(path)
        elif kind == "file":
            path.write_text(
                rng.choice(("", "one\n", "password=hunter2hunter2\n", "x" * 300, "two\nlines\n", "\u00fc" * 90))
            )
        elif kind == "link":
            above = ("../a", "../b/.") if path.parent != root else ()  # never out of the tree
            path.symlink_to(rng.choice(("a", "b/card0", "missing", ".", "x.conf", *above)))
        else:
            os.mkfifo(path)
    for path in places[1:]:
        path.chmod(rng.choice((0o755, 0o755, 0o711, 0o700, 0o744)))
    for path in root.rglob("*.conf"):
        if not path.is_symlink() and path.is_file():
            path.chmod(rng.choice((0o644, 0o600, 0o755, 0o000)))


def described(root: Path, uid: int) -> VirtualHost:
    """The same tree, described."""
    parts = Parts()
    for path in [root, *walk(root)]:
        name = "/" + path.relative_to(root).as_posix() if path != root else "/"
        info = path.lstat()
        letter = LETTERS[stat.S_IFMT(info.st_mode)]
        parts.modes[name] = f"{letter} {stat.S_IMODE(info.st_mode):04o} {info.st_uid} {info.st_gid} 0:0"
        if letter == "l":
            parts.links[name] = os.readlink(path)  # noqa: PTH115 - pathlib would tidy it up
        elif letter == "f":
            parts.files[name] = path.read_text()
    return parts.host("here", 0.0, uid=uid, groups={NOBODY} if uid else ())


def walk(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)


def ask(rng: random.Random, number: int) -> Probe:
    """A probe of files only."""
    paths = tuple("/" + "/".join(rng.choices(PATTERNS, k=rng.randint(1, 4))) for _ in range(rng.randint(1, 4)))
    steps = (
        Files("f", paths, cap=rng.choice((1 << 16, 40, 179)), limit=rng.choice((4096, 3))),
        Links("l", paths, limit=rng.choice((4096, 2))),
        Stat("s", paths),
    )
    return Probe(f"p{number}", steps)


def collected(root: Path, probes: list[Probe], uid: int) -> dict[str, RawFact]:
    """What the real collector says of the tree."""
    program = payload(probes, root=str(root))
    if uid != os.getuid():  # this Python may lie where the other user cannot read it: import first
        sources = "".join(path.read_text() for path in Path(reader.__file__).parent.glob("*.py"))
        names = ", ".join(sorted({"types", "sys", *USED.findall(sources)}))
        program = f"import {names}\nos.setgroups([])\nos.setgid({uid})\nos.setuid({uid})\n".encode() + program
    argv = (sys.executable, "-I", "-S", "-B", "-")
    done = subprocess.run(argv, input=program, capture_output=True, timeout=60, check=True)
    wire = Wire("here", probes)
    answers = [*wire.feed(done.stdout), *wire.close()]
    return {a.probe: a for a in answers if isinstance(a, RawFact)}


def timeless(read: Read) -> dict[str, object]:
    return {name: getattr(read, name) for name in ("key", "state", "files", "errors", "cut")}


@pytest.mark.parametrize("seed", range(6))
def test_same_answers_as_the_collector(seed: int, tmp_path: Path) -> None:
    uids = (0, NOBODY) if os.getuid() == 0 else (os.getuid(),)
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    root = tmp_path / "root"
    root.mkdir()
    for directory in (tmp_path, *list(tmp_path.parents)[:3]):
        if directory.stat().st_uid == os.getuid() and directory != Path("/tmp"):  # noqa: S108 - only compared
            directory.chmod(0o755)
    grow(root, rng)
    probes = [ask(rng, n) for n in range(40)]
    for uid in uids:
        host = described(root, uid)
        real = collected(root, probes, uid)
        assert len(real) == len(probes)
        for probe in probes:
            got, want = answer(host, probe), real[probe.name]
            for mine, theirs in zip(got.reads, want.reads, strict=True):
                assert timeless(mine) == timeless(theirs), (uid, probe)


def host(**kwargs: object) -> VirtualHost:
    parts = Parts()
    parts.program("/usr/bin/tool", {"-q": "fine\n", "-x": Output("half", "broken\n", 3)})
    parts.modes["/usr/bin/shut"] = "f 0644 0 0 0:0"
    parts.files["/etc/a.conf"] = "one\n"
    parts.environment.update(PATH="/opt/bin", NCCL_DEBUG="INFO", MY_TOKEN="abcdefgh12345678")  # noqa: S106 - invented
    parts.links["/opt/bin/tool"] = "/usr/bin/tool"
    return parts.host("here", 1.5, **kwargs)


def test_a_command_answers_with_code_and_streams() -> None:
    read = answer(host(), Probe("p", (Exec("x", ("tool", "-x")),))).reads[0]
    assert (read.state, read.rc, read.out, read.err) == ("ok", 3, "half", "broken\n")


def test_commands_that_are_absent_closed_or_hang_are_told_apart() -> None:
    probe = Probe(
        "p",
        (Exec("a", ("nothing",)), Exec("d", ("shut",)), Exec("t", ("tool", "-q"), 5.0), Exec("n", ("tool", "-q"))),
        timeout_s=5.0,
    )
    reads = answer(host(hung=["/opt/bin/tool"]), probe).reads
    assert [r.state for r in reads] == ["absent", "denied", "timed-out", "timed-out"]
    assert reads[2].took_s == pytest.approx(4.7)


def test_each_runs_once_per_match_and_says_when_there_is_none() -> None:
    probe = Probe("p", (Exec("e", ("{}", "-q"), each=("/usr/bin/t*",)), Exec("n", ("{}", "-q"), each=("/nowhere/*",))))
    reads = answer(host(), probe).reads
    assert [(r.argv, r.out, r.state) for r in reads] == [
        (("/usr/bin/tool", "-q"), "fine\n", "ok"),
        (("{}", "-q"), "", "absent"),
    ]


def test_which_counts_two_paths_to_one_file_once() -> None:
    read = answer(host(), Probe("p", (Which("w", ("tool", "shut")),))).reads[0]
    assert read.files == {"/opt/bin/tool": "tool"}


def test_variables_are_redacted_by_name() -> None:
    read = answer(host(), Probe("p", (Env("e", ("NCCL_*", "MY_*")),))).reads[0]
    assert read.files == {"MY_TOKEN": "<redacted>", "NCCL_DEBUG": "INFO"}


def test_the_clock_is_what_the_host_says() -> None:
    parts = Parts(clock={"synchronised": "no"})
    assert answer(parts.host("here", 0.0), Probe("p", (Clock("c"),))).files("c") == {"synchronised": "no"}
    assert answer(Parts().host("here", 0.0), Probe("p", (Clock("c"),))).read("c").state == "absent"


def test_a_file_that_hangs_ends_the_probe() -> None:
    probe = Probe("p", (Files("f", ("/etc/*.conf",)), Stat("s", ("/etc",))))
    reads = answer(host(hung=["/etc/a.conf"]), probe).reads
    assert [r.state for r in reads] == ["timed-out", "timed-out"]
    assert reads[0].errors == {"/etc/a.conf": "timed-out"}


def test_a_denied_file_is_denied_to_root_too() -> None:
    read = answer(host(denied=["/etc/a.conf"]), Probe("p", (Files("f", ("/etc/a.conf",)),))).reads[0]
    assert (read.state, read.errors) == ("denied", {"/etc/a.conf": "EACCES"})


def test_an_unforeseen_command_is_an_error_of_the_example() -> None:
    with pytest.raises(LookupError, match="no answer to tool -z"):
        answer(host(), Probe("p", (Exec("x", ("tool", "-z")),)))


def test_says_takes_texts_and_outputs() -> None:
    tool = says({"-v": "1\n", "-f": Output(rc=9)})
    assert tool(("t", "-v"), host()).out == "1\n"
    assert tool(("t", "-f"), host()).rc == 9
