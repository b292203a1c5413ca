"""Whether the clock is disciplined, by whom and how far it is off."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.facts.source import source
from assay.facts.systemd import control_groups
from assay.facts.text import pairs, settings, tried
from assay.model import Clock, Exec, Fact, Files, Missing, Probe, RawFact, Stat

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SPAN = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(y|month|w|day|d|h|min|ms|us|ns|s)(?![a-z])")
_SECONDS = {
    "y": 31557600.0, "month": 2629800.0, "w": 604800.0, "day": 86400.0, "d": 86400.0, "h": 3600.0,
    "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip
_YES = {"yes": True, "active": True, "1": True, "no": False, "inactive": False, "0": False}
_SOURCE = re.compile(r"^([\^=#])([*+\-?x~ ])\s*(\S+)\s+(\d+)\s+-?\d+\s+([0-7]+)\s")
_PEER = re.compile(r"^([*#+o\-x. ])(\S+)\s+(\S+)\s+(\d+)\s+([a-zA-Z])\s+(\S+)\s+(\S+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)")


class Tracking(Struct, frozen=True, kw_only=True):
    """What a time daemon says of itself. Offset: local clock minus true time, seconds (positive = ahead)."""

    synchronised: bool | None = None
    offset_s: float | None = None
    last_offset_s: float | None = None
    rms_offset_s: float | None = None
    stratum: int | None = None
    leap: str | None = None
    reference_id: str | None = None
    reference: str | None = None
    root_delay_s: float | None = None
    root_dispersion_s: float | None = None
    root_distance_s: float | None = None
    delay_s: float | None = None
    jitter_s: float | None = None
    frequency_ppm: float | None = None
    poll_s: float | None = None
    error: str | None = None


class Timedatectl(Struct, frozen=True, kw_only=True):
    """What timedatectl says; `warning` = the block under an empty line."""

    synchronised: bool | None = None
    ntp: bool | None = None
    tz: str | None = None
    rtc_local: bool | None = None
    can_ntp: bool | None = None
    warning: str = ""


class NtpPeer(Struct, frozen=True, kw_only=True):
    """One row of ntpq -p; `tally` "*" or "o" is the one the clock follows. Times in seconds."""

    tally: str
    remote: str
    refid: str
    stratum: int
    reach: int
    delay_s: float | None
    offset_s: float | None
    jitter_s: float | None


class TimeSync(Fact, frozen=True):
    """Synchronisation as the daemon (`by`) tells it; no offset where it is not synchronised.

    `ptp` = phc2sys or ptp4l runs and may discipline the clock.
    """

    by: str = ""
    synchronised: bool | None = None
    offset_s: float | None = None
    stratum: int | None = None
    leap: str | None = None
    reference: str | None = None
    root_delay_s: float | None = None
    root_dispersion_s: float | None = None
    clocksource: str | None = None
    ptp: bool = False
    error: str = ""


@source(
    Probe(
        "time.sync",
        (
            Exec("chrony", ("chronyc", "-n", "tracking"), timeout_s=3.0, cap=1 << 14),
            Clock("kernel"),
            Exec(
                "ntpq",
                ("ntpq", "-pn"),
                timeout_s=3.0,
                cap=1 << 14,
                each=control_groups("ntp*"),
            ),
            Exec(
                "timesyncd",
                ("timedatectl", "timesync-status"),
                timeout_s=3.0,
                cap=1 << 14,
                each=control_groups("systemd-timesyncd"),
            ),
            Stat("ptp", control_groups("phc2sys*", "ptp4l*")),
            Files("clocksource", ("/sys/devices/system/clocksource/clocksource0/current_clocksource",)),
        ),
    )
)
def time_sync(raw: RawFact) -> TimeSync | Missing:
    """Chrony where it answers, else ntpd, else timesyncd, else the kernel, whose flag a time daemon keeps."""
    chrony = _or_error(chronyc_tracking, raw.out("chrony"))
    peer = _ntp_reference(raw.out("ntpq"))
    kernel = {"yes": True, "no": False}.get(raw.files("kernel").get("synchronised", ""))
    candidates = (
        (chrony if chrony and not chrony.error else None, "chronyd"),
        (peer, "ntpd"),
        (tried(timesync_status, raw.out("timesyncd")), "systemd-timesyncd"),
        (Tracking(synchronised=kernel) if kernel is not None else None, "kernel"),
    )
    daemon, by = next(((d, name) for d, name in candidates if d), (None, ""))
    if daemon is None and chrony is None:
        return Missing("absent", "no time daemon's client answered, and the kernel does not tell")
    daemon = daemon or Tracking()
    return TimeSync(
        by=by,
        synchronised=daemon.synchronised if by != "systemd-timesyncd" else kernel,
        offset_s=None if daemon.synchronised is False else daemon.offset_s,
        stratum=daemon.stratum,
        leap=daemon.leap,
        reference=daemon.reference,
        root_delay_s=daemon.root_delay_s,
        root_dispersion_s=daemon.root_dispersion_s,
        clocksource=raw.out("clocksource").strip() or None,
        ptp=bool(raw.files("ptp")),
        error=(chrony.error or "") if chrony else "",
    )


def _or_error(parser: Callable[[str], Tracking], text: str) -> Tracking | None:
    return tried(parser, text) if text.strip() else None


def _ntp_reference(text: str) -> Tracking | None:
    peers = tried(ntpq_peers, text) or []
    if not peers:
        return None
    chosen = next((p for p in peers if p.tally in "*o"), None)
    if chosen is None:
        return Tracking(synchronised=False)
    offset = None if chosen.offset_s is None else -chosen.offset_s
    return Tracking(synchronised=True, offset_s=offset, stratum=chosen.stratum + 1, reference=chosen.remote)


def _first_number(text: str | None) -> float | None:
    found = _NUMBER.search(text) if text else None
    return float(found[0]) if found else None


def seconds(text: str | None) -> float | None:
    """A systemd time span ("-5.224ms", "8min 32s") in seconds; the sign in front holds for all of it."""
    parts = _SPAN.findall(text.split("(")[0]) if text else []
    if not parts:
        return None
    total = sum(abs(float(n)) * _SECONDS[unit] for n, unit in parts)
    return -total if parts[0][0].startswith("-") else total


def chronyc_tracking(text: str) -> Tracking:
    """`chronyc tracking`: the sign of "System time" is a word, and an unsynchronised clock shows offset 0."""
    values = pairs(text)
    if "Reference ID" not in values and "Stratum" not in values:
        if text.strip()[:3].isdigit() or "Cannot talk to daemon" in text:
            return Tracking(error=text.strip().splitlines()[0])
        raise ValueError("not an answer of chronyc tracking")
    leap = values.get("Leap status")
    stratum = _first_number(values.get("Stratum"))
    system, identity = values.get("System time", ""), values.get("Reference ID", "").partition(" ")
    offset = _first_number(system)
    if offset is not None and " slow" in system:
        offset = -offset
    synchronised = None if leap is None else leap in {"Normal", "Insert second", "Delete second"}
    return Tracking(
        synchronised=synchronised,
        offset_s=offset,
        last_offset_s=_first_number(values.get("Last offset")),
        rms_offset_s=_first_number(values.get("RMS offset")),
        stratum=None if stratum is None else int(stratum),
        leap=leap,
        reference_id=identity[0] or None,
        reference=identity[2].strip("()") or None,
        root_delay_s=_first_number(values.get("Root delay")),
        root_dispersion_s=_first_number(values.get("Root dispersion")),
        frequency_ppm=_ppm(values.get("Frequency")),
        poll_s=_first_number(values.get("Update interval")),
    )


def _ppm(text: str | None) -> float | None:
    number = _first_number(text)
    return -number if number and text and "slow" in text else number


def timesync_status(text: str) -> Tracking:
    """`timedatectl timesync-status` of systemd-timesyncd."""
    values = pairs(text)
    if "Server" not in values or "Poll interval" not in values:
        raise ValueError("not an answer of timedatectl timesync-status")
    stratum, leap = _first_number(values.get("Stratum")), values.get("Leap")
    return Tracking(
        synchronised=None if leap is None else leap in {"normal", "insert-second", "delete-second"},
        offset_s=seconds(values.get("Offset")),
        stratum=None if stratum is None else int(stratum),
        leap=leap,
        reference_id=values.get("Reference"),
        reference=values["Server"],
        root_distance_s=seconds(values.get("Root distance")),
        delay_s=seconds(values.get("Delay")),
        jitter_s=seconds(values.get("Jitter")),
        frequency_ppm=_first_number(values.get("Frequency")),
        poll_s=seconds(values.get("Poll interval")),
    )


def timedatectl(text: str) -> Timedatectl:
    """`timedatectl` or `timedatectl status` of any systemd; the wording changed at 219, 235 and 239."""
    body, _, warning = text.strip("\n").partition("\n\n")
    values = pairs(body)
    if "Time zone" not in values and "Timezone" not in values:
        raise ValueError("not an answer of timedatectl")
    tz = values.get("Time zone") or values.get("Timezone") or ""
    return Timedatectl(
        synchronised=_yes(values, "System clock synchronized", "NTP synchronized"),
        ntp=_yes(values, "NTP service", "systemd-timesyncd.service active", "NTP enabled", "Network time on"),
        tz=tz.partition(" (")[0] or None,
        rtc_local=_yes(values, "RTC in local TZ"),
        warning=" ".join(warning.split()),
    )


def _yes(values: dict[str, str], *names: str) -> bool | None:
    return next((_YES.get(values[n].lower()) for n in names if n in values), None)


def timedatectl_show(text: str) -> dict[str, str]:
    """`timedatectl show` or `show-timesync`: KEY=value as printed; its times are formatted dates, not numbers."""
    values = settings(text)
    if not values.keys() & {"NTPSynchronized", "Timezone", "NTP", "ServerName", "LinkNTPServers"}:
        raise ValueError("not an answer of timedatectl show")
    return values


def timedatectl_values(values: dict[str, str]) -> Timedatectl:
    """The typed part of `timedatectl show`."""
    return Timedatectl(
        synchronised=_yes(values, "NTPSynchronized"),
        ntp=_yes(values, "NTP"),
        can_ntp=_yes(values, "CanNTP"),
        rtc_local=_yes(values, "LocalRTC"),
        tz=values.get("Timezone") or None,
    )


def ntpq_peers(text: str) -> list[NtpPeer]:
    """`ntpq -p`: delay, offset and jitter are printed in milliseconds, reach in octal."""
    peers = [_peer(found) for line in text.splitlines() if (found := _PEER.match(line))]
    if not peers:
        raise ValueError("no peer of ntpq -p in it")
    return peers


def _peer(found: re.Match[str]) -> NtpPeer:
    delay, offset, jitter = (None if (n := _first_number(found[i])) is None else n / 1000 for i in (9, 10, 11))
    return NtpPeer(
        tally=found[1].strip(),
        remote=found[2],
        refid=found[3],
        stratum=int(found[4]),
        reach=int(found[8], 8),
        delay_s=delay,
        offset_s=offset,
        jitter_s=jitter,
    )


class ChronySource(Struct, frozen=True, kw_only=True):
    """One row of chronyc sources; `state` "*" is the one the clock follows, "?" cannot be reached."""

    mode: str
    state: str
    name: str
    stratum: int
    reach: int


def chronyc_sources(text: str) -> list[ChronySource]:
    """`chronyc sources`: reach is octal."""
    found = [m for line in text.splitlines() if (m := _SOURCE.match(line))]
    if not found and "Name/IP" not in text:
        raise ValueError("not an answer of chronyc sources")
    return [ChronySource(mode=m[1], state=m[2], name=m[3], stratum=int(m[4]), reach=int(m[5], 8)) for m in found]


FORMATS: dict[str, Callable[[str], Any]] = {
    "chronyc tracking": chronyc_tracking,
    "chronyc sources": chronyc_sources,
    "timedatectl": timedatectl,
    "timedatectl status": timedatectl,
    "timedatectl show": timedatectl_show,
    "timedatectl timesync-status": timesync_status,
    "ntpq -p": ntpq_peers,
}
