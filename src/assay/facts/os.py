"""Operating system: os-release."""

from __future__ import annotations

import shlex

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact


class OsRelease(Fact, frozen=True):
    """The distribution, as os-release names it. `like` are the parents from ID_LIKE."""

    id: str = ""
    version: str = ""
    codename: str = ""
    like: tuple[str, ...] = ()
    pretty: str = ""


@source(Probe("os.release", (Files("release", ("/etc/os-release", "/usr/lib/os-release")),)))
def os_release(raw: RawFact) -> OsRelease | Missing:
    """/etc/os-release, or the vendor's copy when /etc has none."""
    values = os_release_values(raw.out("release"))
    if "ID" not in values:
        return Missing("unparsable", "os-release has no ID")
    return OsRelease(
        id=values["ID"],
        version=values.get("VERSION_ID", ""),
        codename=values.get("VERSION_CODENAME", ""),
        like=tuple(values.get("ID_LIKE", "").split()),
        pretty=values.get("PRETTY_NAME", ""),
    )


def os_release_values(text: str) -> dict[str, str]:
    """KEY=value lines with shell quoting (os-release(5)); comments and blank lines are skipped."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#"))
    return {
        key.strip(): "".join(shlex.split(value)) if '"' in value or "'" in value else value.strip()
        for key, value in pairs
    }
