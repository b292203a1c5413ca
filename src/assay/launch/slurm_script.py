"""How Slurm is asked for nodes: srun's arguments and the batch script. Pure."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence

from msgspec import Struct

from assay.errors import ConfigError
from assay.launch.payload import packed
from assay.launch.prefix import node_command
from assay.model import SlurmOptions, Target
from assay.slurm.hostlist import fold

# no blank, quote, backslash or line end: they would mean something in an #SBATCH line
_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]{}*^~#!&|()<>$;?-]*")
_NAME = re.compile(r"(?![-@])[A-Za-z0-9_@.,:/+-]*")
_TIME = re.compile(r"\d+(-\d+)?(:\d+){0,2}")
_WORKDIR = re.compile(r"[~/][A-Za-z0-9_.,:+/@=-]*")

# --input=all: every task gets the collector; --wait=0, --kill-on-bad-exit=0, --no-kill: one bad node costs itself only;
# no core binding and no MPI plug-in: a collector needs neither
_STEP = ("--input=all", "--wait=0", "--kill-on-bad-exit=0", "--mpi=none", "--cpu-bind=none", "--chdir=/")


class Group(Struct, frozen=True):
    """Nodes that one job takes: all of one partition and with the same GPUs. `wait` = jobs may have to end first."""

    nodes: tuple[str, ...]
    partition: str = ""
    gres: str = ""
    wait: bool = False


def check(options: SlurmOptions, where: str) -> None:
    """Raise ConfigError for an option that Slurm, or a batch script, would take for something else."""
    for key in ("account", "partition", "qos", "reservation", "gres"):
        if not _NAME.fullmatch(getattr(options, key)):
            raise ConfigError(f"{where}.{key}: not a name: {getattr(options, key)!r}")
    if not _TIME.fullmatch(options.time):
        raise ConfigError(f"{where}.time: not a time limit: {options.time!r}", hint="as in 10, 00:10:00 or 1-0")
    for text in (*options.extra, options.container_image, options.container_mounts):
        if not _WORD.fullmatch(text):
            raise ConfigError(f"{where}: {text!r}: no blanks, quotes or backslashes", hint="one option per word")
    if wrong := next((text for text in options.extra if not text.startswith("-")), ""):
        raise ConfigError(f"{where}.extra: {wrong!r} is no option", hint="write --option=value as one word")
    if not _WORKDIR.fullmatch(options.workdir):
        raise ConfigError(f"{where}.workdir: {options.workdir!r}", hint="an absolute path, or one that begins with ~/")


def srun(target: Target, group: Group, name: str, wait_s: float) -> tuple[str, ...]:
    """The srun that starts the collector, given on its input, once on every node of a group.

    It asks for all GPUs, since a node's other devices may be hidden from a job, and for the least of the rest.
    """
    return (
        "srun",
        *_allocation(target.slurm, group, name),
        f"--immediate={max(round(wait_s), 2)}",
        "--no-kill",
        *_STEP,
        *_container(target.slurm),
        *target.slurm.extra,
        *node_command(target),
    )


def sbatch(target: Target, group: Group, name: str, program: bytes) -> str:
    """The script that does the same where only batch jobs are taken; the collector is part of it."""
    tasks = (f"--nodes={len(group.nodes)}", "--ntasks-per-node=1")
    step = ("srun", *tasks, "--no-kill", *_STEP, *_container(target.slurm), *node_command(target))
    header = [
        f"#SBATCH {word}"
        for word in (*_allocation(target.slurm, group, name), "--no-requeue", "--no-kill", *target.slurm.extra)
    ]
    return "\n".join(("#!/bin/sh", *header, f"exec {shlex.join(step)} <<'END'", _wrapped(program), "END", ""))


def _allocation(options: SlurmOptions, group: Group, name: str) -> Iterator[str]:
    count = len(group.nodes)
    yield from (f"--job-name={name}", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1")
    yield f"--nodelist={fold(group.nodes)}"
    wanted = {
        "account": options.account,
        "partition": group.partition,
        "qos": options.qos,
        "reservation": options.reservation,
        "time": options.time,
        "gres": group.gres,
    }
    yield from (f"--{key}={value}" for key, value in wanted.items() if value)


def _container(options: SlurmOptions) -> Sequence[str]:
    """Options of Pyxis: the only way to run on a cluster whose nodes take containers alone."""
    if not options.container_image:
        return ()
    mounts = (f"--container-mounts={options.container_mounts}",) if options.container_mounts else ()
    writable = ("--container-writable",) if options.container_writable else ()
    return (f"--container-image={options.container_image}", *mounts, *writable)


def _wrapped(program: bytes) -> str:
    body = "\n".join(textwrap.wrap(packed(program), 100))
    return f"import base64, zlib\nexec(zlib.decompress(base64.b64decode('''\n{body}\n''')))"
