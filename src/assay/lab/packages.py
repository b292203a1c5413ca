"""Debian packages unpacked into a directory of the lab's own; nothing is installed on this machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.errors import AssayError

SLURM = (
    "slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin",
    "slurm-wlm-jwt-plugin", "munge", "libpmix2", "python3", "iproute2", "procps",
)  # fmt: skip
DATABASE = ("mariadb-server-core",)

UPDATE = "apt-get update"
_PLAN = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) .*\[(\S+)\]\)", re.MULTILINE)
_INPUTS = (Path("/var/lib/dpkg/status"), Path("/var/lib/apt/lists"))
_ALTERNATIVES = {"slurmd": "slurmd-wlm", "slurmctld": "slurmctld-wlm", "slurmstepd": "slurmstepd-wlm"}
_UNWANTED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion",
    "etc/init.d", "etc/default", "etc/logrotate.d", "etc/slurm", "etc/munge",
)  # fmt: skip
_APT_S, _DOWNLOAD_S, _UNPACK_S = 60, 600, 120

Say = Callable[[str], None]


class Cached(Struct, frozen=True):
    """An unpacked set of packages. `stamp` = of what apt knew when it was chosen."""

    stamp: str
    key: str
    packages: tuple[str, ...]


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/assay/lab, ~/.cache/assay/lab, or /var/cache/assay-lab for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "assay" / "lab"
    home = os.environ.get("HOME", "")
    return Path(home) / ".cache" / "assay" / "lab" if home not in {"", "/"} else Path("/var/cache/assay-lab")


def image(name: str, wanted: Sequence[str], say: Say, cache: Path | None = None) -> Path:
    """The directory that `wanted` and what they need beyond this machine's packages are unpacked in."""
    cache = cache or cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held by nobody for longer than a download may take
        return _image(name, wanted, say, cache)


def _image(name: str, wanted: Sequence[str], say: Say, cache: Path) -> Path:
    known, stamp = recorded(cache, name), _stamp(wanted)
    if known and known.stamp == stamp and _root(cache, known.key).is_dir():
        return _root(cache, known.key)
    try:
        packages = closure(wanted, _lists(cache, wanted, say))
        key = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]
        if not _root(cache, key).is_dir():
            _fetch(cache, key, packages, say)
    except AssayError as e:
        if known and _root(cache, known.key).is_dir():
            say(f"{e.message}; using the packages unpacked before ({cache})")
            return _root(cache, known.key)
        raise
    _write(cache / f"{name}.json", msgspec.json.encode(Cached(stamp, key, packages)))
    return _root(cache, key)


def recorded(cache: Path, name: str) -> Cached | None:
    """What was unpacked last under this name."""
    try:
        return msgspec.json.decode((cache / f"{name}.json").read_bytes(), type=Cached)
    except (OSError, msgspec.DecodeError):
        return None


def closure(wanted: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """name:architecture=version of every package that apt would install here to have `wanted`, in order."""
    text = _run(["apt-get", *options, "install", "--simulate", "--no-install-recommends", *wanted], _APT_S)
    return planned(text)


def planned(text: str) -> tuple[str, ...]:
    """Packages in the output of `apt-get install --simulate`."""
    found = (match.groups() for match in _PLAN.finditer(text))
    return tuple(sorted(f"{name.partition(':')[0]}:{arch}={version}" for name, version, arch in found))


def _stamp(wanted: Sequence[str]) -> str:
    times = [f"{path}:{path.stat().st_mtime_ns}" for path in _INPUTS if path.exists()]
    return " ".join([*times, *wanted])


def _root(cache: Path, key: str) -> Path:
    return cache / "images" / key


def _lists(cache: Path, wanted: Sequence[str], say: Say) -> tuple[str, ...]:
    """Options that let apt find the packages: none where this machine's lists do, else lists of the lab's own."""
    if _known(wanted, ()):
        return ()
    lists = cache / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    options = ("-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root")
    if not _known(wanted, options):
        say("asking apt for its package lists, once")
        _run(["apt-get", *options, "update"], _DOWNLOAD_S)
    return options


def _known(wanted: Sequence[str], options: Sequence[str]) -> bool:
    """True when apt has every package in its lists."""
    text = _run(["apt-cache", *options, "--quiet=0", "policy", *wanted], _APT_S)
    return text.count("Candidate: ") - text.count("Candidate: (none)") >= len(wanted)


def _fetch(cache: Path, key: str, packages: Sequence[str], say: Say) -> None:
    """Download and unpack beside the final place, then move there: half an image is never found."""
    (cache / "images").mkdir(parents=True, exist_ok=True)
    say(f"unpacking {len(packages)} packages into {cache}, once")
    lists = cache / "lists"
    options = ["-o", f"Dir::State::lists={lists}"] if lists.is_dir() else []
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as name:
        debs, root = Path(name) / "debs", Path(name) / "root"
        debs.mkdir()
        root.mkdir(mode=0o755)
        _run(["apt-get", *options, "-o", "APT::Sandbox::User=root", "-q", "download", *packages], _DOWNLOAD_S, debs)
        for deb in sorted(debs.iterdir()):
            _run(["dpkg-deb", "--extract", str(deb), str(root)], _UNPACK_S)
        arrange(root)
        root.rename(_root(cache, key))


def arrange(root: Path) -> None:
    """What installing would have done, and away with what no node needs."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (root / name).is_dir() and not (root / name).is_symlink():
            _merge(root / name, root / "usr" / name)
    for unwanted in _UNWANTED:
        shutil.rmtree(root / unwanted, ignore_errors=True)
    for link, target in _ALTERNATIVES.items():
        if (root / "usr/sbin" / target).exists() and not (root / "usr/sbin" / link).exists():
            (root / "usr/sbin" / link).symlink_to(target)
    for library in root.glob(
        "usr/lib/*/pmix2/lib/libpmix.so.2"
    ):  # Slurm asks for the name that only the -dev package has
        library.with_name("libpmix.so").symlink_to(library.name)


def _merge(source: Path, target: Path) -> None:
    """Move a tree into another: /lib is a link to /usr/lib on every machine of today."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir() and not entry.is_symlink() and (target / entry.name).is_dir():
            _merge(entry, target / entry.name)
        else:
            entry.rename(target / entry.name)
    source.rmdir()


def _run(argv: list[str], timeout_s: float, directory: Path | None = None) -> str:
    env = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, cwd=directory, env=env,
            timeout=timeout_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError as e:
        raise AssayError(f"no {argv[0]}: the lab's packages come from Debian or Ubuntu") from e
    except subprocess.TimeoutExpired as e:
        raise AssayError(f"{' '.join(argv[:3])}: no answer in {timeout_s:.0f} s") from e
    if done.returncode:
        raise AssayError(
            f"the lab's packages cannot be had: {' '.join(_complaints(done.stderr)) or f'{argv[0]} failed'}",
            hint=f"{UPDATE}; assay lab doctor says what else is missing",
        )
    return done.stdout


def _complaints(stderr: str) -> Iterator[str]:
    lines = [line.strip() for line in stderr.splitlines() if line.startswith(("E:", "dpkg"))]
    yield from dict.fromkeys(lines[:3])


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(path)
