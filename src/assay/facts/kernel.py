"""The running kernel, the kernels on disk, and what waits for a reboot."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import field

from assay.facts.source import source
from assay.model import Exec, Fact, Files, Missing, Probe, RawFact, Stat

_VERSION = re.compile(r"Linux version (\S+) \(.*?\) .*?(#\S+ .*)$", re.DOTALL)
_IMAGE = re.compile(r"/boot/vmlinu[xz]-(\d.*)$|/lib/modules/(\d[^/]*)/vmlinuz$")
_NO_KERNEL = re.compile(r"rescue|\.(old|bak|dpkg-\w+|efi\.signed|fips)$")
# bits of /proc/sys/kernel/tainted: Documentation/admin-guide/tainted-kernels.rst
TAINTS = (
    "proprietary-module", "forced-module", "cpu-out-of-spec", "forced-rmmod", "machine-check", "bad-page", "user",
    "oops", "acpi-override", "warning", "staging-driver", "firmware-workaround", "external-module",
    "unsigned-module", "soft-lockup", "live-patched", "auxiliary", "randstruct", "test",
)  # fmt: skip


class Kernel(Fact, frozen=True):
    """The kernel that runs and the ones on disk.

    `build` = the text from "#" on of /proc/version; `installed` = releases with an image on disk (empty when the
    place cannot be seen, as in a container: `images_visible`); `reboot_packages` asked for the reboot.
    """

    release: str = ""
    version: str = ""
    build: str = ""
    arch: str | None = None
    boot_id: str | None = None
    uptime_s: float | None = None
    cmdline: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] | None = None
    installed: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    images_visible: bool = False
    reboot_required: bool = False
    reboot_packages: tuple[str, ...] = ()


@source(
    Probe(
        "kernel.running",
        (
            Files("version", ("/proc/version",)),
            Files(
                "proc",
                (
                    "/proc/sys/kernel/osrelease",
                    "/proc/sys/kernel/tainted",
                    "/proc/sys/kernel/arch",
                    "/proc/sys/kernel/random/boot_id",
                    "/proc/cmdline",
                    "/proc/uptime",
                ),
            ),
            Exec("arch", ("uname", "-m"), timeout_s=2.0),
            Stat("images", ("/boot/vmlinuz-*", "/boot/vmlinux-*", "/lib/modules/*/vmlinuz"), limit=256),
            Stat("modules", ("/lib/modules/*",), limit=256),
            Files("reboot", ("/var/run/reboot-required", "/var/run/reboot-required.pkgs"), limit=8),
        ),
    )
)
def kernel(raw: RawFact) -> Kernel | Missing:
    """/proc tells what runs, /boot and /lib/modules what could."""
    proc = {path.rsplit("/", 1)[-1]: text.strip() for path, text in raw.files("proc").items()}
    version = raw.out("version").strip()
    match = _VERSION.match(version)
    release = proc.get("osrelease") or (match[1] if match else "")
    if not release:
        return Missing("unparsable", "the kernel's release is in neither /proc/sys/kernel/osrelease nor /proc/version")
    reboot = {path.rsplit("/", 1)[-1]: text for path, text in raw.files("reboot").items()}
    images = raw.read("images")
    installed = installed_kernels(images.files)
    return Kernel(
        release=release,
        version=version,
        build=match[2].strip() if match else "",
        arch=proc.get("arch") or raw.out("arch").strip() or None,
        boot_id=proc.get("boot_id") or None,
        uptime_s=_first_number(proc.get("uptime", "")),
        cmdline=cmdline(proc.get("cmdline", "")),
        taints=taints(proc.get("tainted", "")),
        installed=installed,
        modules=tuple(path.rsplit("/", 1)[-1] for path in raw.files("modules")),
        images_visible=bool(installed),
        reboot_required="reboot-required" in reboot,
        reboot_packages=tuple(dict.fromkeys(reboot.get("reboot-required.pkgs", "").split())),
    )


def installed_kernels(paths: Iterable[str]) -> tuple[str, ...]:
    """Releases of the kernel images among these paths; rescue images and back-up copies are none."""
    found = [m[1] or m[2] for path in paths if (m := _IMAGE.match(path))]
    return tuple(dict.fromkeys(r for r in found if not _NO_KERNEL.search(r)))


def cmdline(text: str) -> dict[str, str]:
    """Kernel parameters: name -> value, "" for a switch, the last one wins; what follows "--" is for init."""
    try:
        words = shlex.split(text) if '"' in text else text.split()
    except ValueError:
        words = text.split()
    if "--" in words:
        words = words[: words.index("--")]
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def taints(text: str) -> tuple[str, ...] | None:
    """Names of the bits set in /proc/sys/kernel/tainted; an unknown bit keeps its number."""
    if not text.isdigit():
        return None
    number = int(text)
    return tuple(
        TAINTS[bit] if bit < len(TAINTS) else f"bit-{bit}" for bit in range(number.bit_length()) if number >> bit & 1
    )


def _first_number(text: str) -> float | None:
    try:
        return float(text.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None


FORMATS: dict[str, Callable[[str], Any]] = {"cat /proc/cmdline": cmdline}
