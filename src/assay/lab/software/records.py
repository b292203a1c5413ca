"""The kernel log and the clock."""

from __future__ import annotations

import datetime as dt

from assay.lab.hardware.layout import Device, of
from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.virtual import Output


def records(  # noqa: PLR0913, PLR0917 - what a log is about
    host: str, shape: Shape, state: State, image: Image, found: tuple[Device, ...], now: float
) -> Parts:
    """journalctl, dmesg, chronyc and timedatectl."""
    parts = Parts()
    lines = _kernel_lines(shape, state, found)
    text = "".join(f"{_stamp(now - age, '%z')} {host} kernel: {line}\n" for age, line in lines)
    parts.commands["/usr/bin/journalctl"] = lambda _argv, _host: Output(text)
    ring = "".join(f"{_iso(now - age)} {line}\n" for age, line in lines)
    parts.program("/usr/bin/dmesg", {"--time-format=iso": ring})
    if image.synchronised:
        parts.program("/usr/bin/chronyc", {"-n tracking": _TRACKING})
    else:
        parts.program("/usr/bin/chronyc", {"-n tracking": _LOST})
    said = "yes" if image.synchronised else "no"
    error = ("4210", "3") if image.synchronised else ("16000000", "16000000")
    parts.clock |= {"synchronised": said, "maxerror_us": error[0], "esterror_us": error[1]}
    clock = f"{dt.datetime.fromtimestamp(now, dt.timezone.utc):%a %Y-%m-%d %H:%M:%S} UTC"
    parts.program(
        "/usr/bin/timedatectl",
        {"show": f"Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized={said}\nTimeUSec={clock}\n"},
    )
    return parts


_TRACKING = """\
Reference ID    : 0AC80001 (10.200.0.1)
Stratum         : 3
Ref time (UTC)  : Mon Nov 02 08:58:25 2026
System time     : 0.000012500 seconds slow of NTP time
Last offset     : -0.000003458 seconds
RMS offset      : 0.000013458 seconds
Frequency       : 6.725 ppm fast
Residual freq   : -0.003 ppm
Skew            : 0.037 ppm
Root delay      : 0.000241159 seconds
Root dispersion : 0.000122824 seconds
Update interval : 64.2 seconds
Leap status     : Normal
"""
_LOST = """\
Reference ID    : 00000000 ()
Stratum         : 0
Ref time (UTC)  : Thu Jan 01 00:00:00 1970
System time     : 0.000000000 seconds fast of NTP time
Last offset     : +0.000000000 seconds
RMS offset      : 0.000000000 seconds
Frequency       : 11.203 ppm slow
Residual freq   : +0.000 ppm
Skew            : 0.000 ppm
Root delay      : 1.000000000 seconds
Root dispersion : 1.000000000 seconds
Update interval : 0.0 seconds
Leap status     : Not synchronised
"""


def _stamp(at: float, zone: str) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.timezone.utc):%Y-%m-%dT%H:%M:%S.%f{zone}}"


def _iso(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S,%f+00:00")


_QUIET = (
    (6.9, 'audit: type=1400 apparmor="STATUS" operation="profile_replace" name="/usr/sbin/chronyd"'),
    (5.1, "perf: interrupt took too long (2501 > 2500), lowering perf_event_max_sample_rate to 79750"),
    (3.0, "Lustre: fs1-OST000a: Connection restored to 10.201.0.6@o2ib"),
    (0.4, "loop3: detected capacity change from 0 to 8"),
)
_REMAPPED = "Row Remapper: New row (0x0000000000a1c3d0) marked for remapping, reset gpu to activate."


def _kernel_lines(shape: Shape, state: State, found: tuple[Device, ...]) -> list[tuple[float, str]]:
    """(seconds ago, line), oldest first."""
    lines = [(days * 86400, words) for days, words in _QUIET]
    for gpu in of("gpu", found):
        if state.has(gpu.index, "lost"):
            lines.append((5400.0, f"NVRM: Xid (PCI:{gpu.address[:10]}): 79, GPU has fallen off the bus."))
        if state.has(gpu.index, "remap-pending"):
            lines.append((9000.0, f"NVRM: Xid (PCI:{gpu.address[:10]}): 63, {_REMAPPED}"))
    if len(of("gpu", found)) < shape.gpus:
        lines.append((7200.0, "pcieport 0000:17:01.0: pciehp: Slot(12): Link Down"))
    return sorted(lines, key=lambda line: -line[0])
