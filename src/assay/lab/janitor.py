"""The process that starts a lab's supervisor and cleans up after it, whatever ends it.

Started as `python -m assay.lab.janitor DIRECTORY IMAGE DATABASE LEASH`; the lock and the leash are inherited.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

import msgspec

from assay.lab import cgroups, kernel, supervisor
from assay.lab.node import Plan
from assay.lab.scenarios import scenario
from assay.lab.site import Site
from assay.lab.spec import Spec, gpu_nodes


def main(directory: str, image: str, database: str, leash: str) -> None:
    """Start, wait, clean up; as nobody's child."""
    if os.fork():
        os._exit(0)
    site = Site(Path(directory))
    spec = msgspec.json.decode((site.directory / "spec.json").read_bytes(), type=Spec)
    plan = Plan(spec, scenario(spec.scenario), site, Path(database) if database else None)
    try:
        if spec.constrain:
            cgroups.make(spec.name, gpu_nodes(spec))
        site.private.mkdir(exist_ok=True)
        kernel.unshare(kernel.NEWPID)
        pid = os.fork()
        if pid == 0:
            _supervise(plan, Path(image), int(leash))
        os.close(int(leash))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: os.kill(pid, signal.SIGKILL))
        os.waitpid(pid, 0)
    finally:
        clean(site, spec)


def _supervise(plan: Plan, image: Path, leash: int) -> None:
    try:
        supervisor.supervise(plan, image, leash)
    except BaseException:  # noqa: BLE001 - the first process of a namespace has nobody to raise to
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(1)


def clean(site: Site, spec: Spec) -> None:
    """Take away what a lab leaves outside its namespaces: its control groups and its directory."""
    cgroups.remove(spec.name)
    shutil.rmtree(site.directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        site.directory.parent.rmdir()


if __name__ == "__main__":
    main(*sys.argv[1:5])
