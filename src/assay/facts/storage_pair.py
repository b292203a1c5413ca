"""What two nodes found when they tried the same directories together, each node's side of it."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from assay.facts.source import source
from assay.model import Exec, Fact, Missing, Probe, RawFact

PROGRAM = "storage_pair"
STEPS = (
    "same-inode", "checksum", "visibility", "flock", "fcntl", "mkdir", "colon", "import", "together", "clean", "ssh",
)  # fmt: skip


class _Detail(Struct, frozen=True):
    error: str = ""
    met: bool | None = None
    device: str = ""
    inode: int | None = None
    private: int | None = None
    target: str = ""
    type: str = ""
    source: str = ""
    bytes: int | None = None
    sha256: str = ""
    rounds: int | None = None
    median_s: float | None = None
    max_s: float | None = None
    rename: bool | None = None
    append: bool | None = None
    unlink: bool | None = None
    rename_s: float | None = None
    append_s: float | None = None
    unlink_s: float | None = None
    lock: str = ""
    done: int | None = None
    total: int | None = None
    tried: int | None = None
    won: str = ""
    others: dict[str, int] = {}
    listed: bool | None = None
    written: int | None = None
    modules: int | None = None
    import_s: float | None = None
    to: str = ""
    rc: int | None = None
    said: str = ""


class _Line(Struct, frozen=True):
    rank: int
    ok: bool
    step: str
    detail: _Detail


_DECODER = msgspec.json.Decoder(_Line)


class LockSide(Struct, frozen=True):
    """What a try said ("ok", "busy", an error), increments by this node under the lock, and the count in the end."""

    lock: str = ""
    done: int | None = None
    total: int | None = None


class Race(Struct, frozen=True):
    """Directories that both nodes tried to make; `won` = hexadecimal, a bit for each that this node made."""

    tried: int = 0
    won: str = "0"
    others: dict[str, int] = field(default_factory=dict)

    @property
    def made(self) -> int:
        """The bits of `won`."""
        return int(self.won, 16)


class PairSide(Struct, frozen=True):
    """One node's side of one directory. `met` = it found there what the other node made.

    `mount`, `fstype`, `fs_source`, `device` and `inode` are as this node sees the directory, `private` is the inode of
    the one that both used. Times and `written` are of the first node, `unseen` = changes that the second did not see,
    `modules` and `import_s` are of the second. `colon` = it could write or read a file with a colon in its name.
    `errors` = step -> why it did not end well; `stopped` = why the nodes went on no more.
    """

    directory: str = ""
    met: bool | None = None
    mount: str = ""
    fstype: str = ""
    fs_source: str = ""
    device: str = ""
    inode: int | None = None
    private: int | None = None
    sha256: str = ""
    rounds: int | None = None
    create_median_s: float | None = None
    create_max_s: float | None = None
    rename_s: float | None = None
    append_s: float | None = None
    unlink_s: float | None = None
    unseen: tuple[str, ...] = ()
    flock: LockSide | None = None
    fcntl: LockSide | None = None
    race: Race | None = None
    colon: bool | None = None
    written: int | None = None
    modules: int | None = None
    import_s: float | None = None
    cleaned: bool | None = None
    errors: dict[str, str] = field(default_factory=dict)
    stopped: str = ""


class SshTry(Struct, frozen=True):
    """An ssh to the other node, without password and without questions."""

    to: str = ""
    ok: bool = False
    said: str = ""


class StoragePair(Fact, frozen=True):
    """What a node said of directories that it tried with another. `first` = it made what the other looked for."""

    first: bool = False
    directories: tuple[PairSide, ...] = ()
    ssh: SshTry | None = None

    def of(self, directory: str) -> PairSide | None:
        """The side of one directory."""
        return next((side for side in self.directories if side.directory == directory), None)


@source(
    Probe(
        "storage.pair",
        tuple(Exec(step, (PROGRAM, "{}"), timeout_s=60.0, each=("DIRECTORY",)) for step in STEPS),
        effect="load",
        timeout_s=60.0,
        place="pair",
    )
)
def storage_pair(raw: RawFact) -> StoragePair | Missing:
    """Lines of JSON, one for each step and directory, under the step's key; the directory is the last argument."""
    lines = [(read, _DECODER.decode(read.out)) for read in raw.reads if read.state == "ok"]
    by_directory: dict[str, list[_Line]] = {}
    for read, line in lines:
        if read.key != "ssh":
            by_directory.setdefault(read.argv[-1], []).append(line)
    login = next((line for read, line in lines if read.key == "ssh"), None)
    return StoragePair(
        first=lines[0][1].rank == 0,
        directories=tuple(_side(directory, {line.step: line for line in of}) for directory, of in by_directory.items()),
        ssh=SshTry(login.detail.to, login.ok, login.detail.said) if login else None,
    )


def _side(directory: str, steps: dict[str, _Line]) -> PairSide:
    there, seen, race, package = (_of(steps, step) for step in ("same-inode", "visibility", "mkdir", "import"))
    return PairSide(
        directory=directory,
        met=there.met,
        mount=there.target,
        fstype=there.type,
        fs_source=there.source,
        device=there.device,
        inode=there.inode,
        private=there.private,
        sha256=_of(steps, "checksum").sha256,
        rounds=seen.rounds,
        create_median_s=seen.median_s,
        create_max_s=seen.max_s,
        rename_s=seen.rename_s,
        append_s=seen.append_s,
        unlink_s=seen.unlink_s,
        unseen=tuple(name for name in ("rename", "append", "unlink") if getattr(seen, name) is False),
        flock=_lock(steps, "flock"),
        fcntl=_lock(steps, "fcntl"),
        race=Race(race.tried, f"{int(race.won or '0', 16):x}", race.others) if race.tried else None,
        colon=steps["colon"].ok if "colon" in steps else None,
        written=package.written,
        modules=package.modules,
        import_s=package.import_s,
        cleaned=steps["clean"].ok if "clean" in steps else None,
        errors={name: line.detail.error for name, line in steps.items() if line.detail.error and name != "together"},
        stopped=_of(steps, "together").error,
    )  # fmt: skip


def _of(steps: dict[str, _Line], step: str) -> _Detail:
    line = steps.get(step)
    return line.detail if line else _Detail()


def _lock(steps: dict[str, _Line], step: str) -> LockSide | None:
    seen = _of(steps, step)
    return LockSide(seen.lock, seen.done, seen.total) if seen.lock else None
