"""Packages of dpkg and rpm: what is fully installed, what is broken, what is only a leftover."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct, field

from assay.facts.source import source
from assay.model import Exec, Fact, Missing, Probe, RawFact

CAP = 4 << 20
_STATE = re.compile(r"[uihrp][nicufhtUFHWT][R ]?$")
_NVRA = re.compile(r"([A-Za-z0-9_][\w.+-]*)-((?:\d+:)?[\w.+~^]+-[\w.+~^]+)\.([a-z0-9_]+)$")
_KEY = re.compile(
    r"(gpg-pubkey)-([0-9a-f]+-[0-9a-f]+)()$"
)  # the keys that rpm trusts stand in its list without architecture
_APT = re.compile(r"([a-z0-9][a-z0-9.+-]*)/\S* (\S+) (\S+)(?: \[(.*)\])?$")
_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*(?::\w+)?$")
_DNF = re.compile(r"(\S+)\.(?:x86_64|aarch64|noarch|i686|ppc64le|s390x)\s+((?:\d+:)?[\w.+~^]+-[\w.+~^]+)\s+@?\S+")
_UPGRADE = re.compile(r"upgradable to: ([^\],]+)")
_INFO_KEY = re.compile(r"([A-Z][A-Za-z ]+?)\s*: (.*)")


class Packages(Fact, frozen=True):
    """Installed packages: name -> version as the manager writes it (epoch and revision kept).

    `also` = further versions of the same name (kernels of rpm); `sources` = source package of linux-* packages;
    `broken` = unpacked or half configured; `leftover` = removed, configuration left; `complete` = the list was not cut.
    """

    manager: Literal["dpkg", "rpm", ""] = ""
    installed: dict[str, str] = field(default_factory=dict)
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    leftover: dict[str, str] = field(default_factory=dict)
    upgradable: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    def first(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Name and version of the first of these packages that is installed."""
        return next(((n, self.installed[n]) for n in names if n in self.installed), None)


class RpmInfo(Struct, frozen=True):
    """One package of `rpm -qi`."""

    name: str
    version: str
    release: str = ""
    epoch: str | None = None
    arch: str | None = None
    vendor: str | None = None
    source_rpm: str | None = None
    summary: str | None = None


@source(
    Probe(
        "packages.installed",
        (
            Exec(
                "dpkg",
                ("dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\t${source:Package}\n"),
                timeout_s=5.0,
                cap=CAP,
            ),
            Exec("rpm", ("rpm", "-qa", "--qf", "%{NAME}\t%{EVR}\t%{SOURCERPM}\n"), timeout_s=10.0, cap=CAP),
        ),
    )
)
def packages(raw: RawFact) -> Packages | Missing:
    """The list of the manager that owns this system: the longer one where both tools are there."""
    read = {key: raw.read(key) for key in ("dpkg", "rpm")}
    found = [
        reader(read[key].out, complete=read[key].cut == 0)
        for key, reader in (("dpkg", dpkg_query), ("rpm", rpm_query))
        if read[key].state == "ok" and read[key].out
    ]
    if not found:
        return Missing("failed", "neither dpkg nor rpm listed a package")
    return max(found, key=lambda p: len(p.installed))


def dpkg_query(text: str, *, complete: bool = True) -> Packages:
    """Tab-separated lines: status abbreviation, package, version, source package."""
    installed: dict[str, str] = {}
    sources: dict[str, str] = {}
    broken: dict[str, str] = {}
    leftover: dict[str, str] = {}
    for line in _whole_lines(text, complete=complete):
        cells = line.split("\t")
        if len(cells) != 4:
            raise ValueError(f"not a line of dpkg-query: {line[:80]!r}")
        state, name, version, origin = cells
        if state in {"ii ", "hi "}:
            installed[name] = version
            if name.startswith("linux-"):
                sources[name] = origin
        else:
            _file_state(state, name, version, installed, broken, leftover)
    if not installed and not leftover and not broken:
        raise ValueError("dpkg-query named no package")
    return Packages(
        manager="dpkg",
        installed=installed,
        sources=sources,
        broken=broken,
        leftover=leftover,
        complete=complete,
    )


def _file_state(  # noqa: PLR0913, PLR0917 - the three piles a state can fall on
    state: str,
    name: str,
    version: str,
    installed: dict[str, str],
    broken: dict[str, str],
    leftover: dict[str, str],
) -> None:
    if state[1:2] == "i" and "R" not in state:
        installed[name] = version
    elif state[1:2] == "c":
        leftover[name] = version
    elif state[1:2] in "UFHWTufht" or "R" in state:
        broken[name] = version


def _whole_lines(text: str, *, complete: bool) -> list[str]:
    lines = text.splitlines()
    return lines if complete else lines[:-1]


def rpm_query(text: str, *, complete: bool = True) -> Packages:
    """Tab-separated lines: name, epoch:version-release, source rpm."""
    installed: dict[str, str] = {}
    also: dict[str, tuple[str, ...]] = {}
    sources: dict[str, str] = {}
    for line in _whole_lines(text, complete=complete):
        cells = line.split("\t")
        if len(cells) != 3:
            raise ValueError(f"not a line of the rpm query: {line[:80]!r}")
        name, version, origin = cells
        if name in installed:
            also[name] = (*also.get(name, ()), version)
        else:
            installed[name] = version
        if name.startswith("kernel"):
            sources[name] = origin
    return Packages(manager="rpm", installed=installed, also=also, sources=sources, complete=complete)


def dpkg_list(text: str) -> Packages:
    """`dpkg -l`, whole or filtered: state, name[:arch], version, architecture, description."""
    installed: dict[str, str] = {}
    broken: dict[str, str] = {}
    leftover: dict[str, str] = {}
    rows = 0
    for line in text.splitlines():
        cells = line.split(None, 4)
        if len(cells) < 4 or not _STATE.match(cells[0]) or line.startswith(("|", "+")):
            continue
        rows += 1
        state, name, version = cells[0], cells[1].split(":")[0], cells[2]
        _file_state(state, name, version, installed, broken, leftover)
    if not rows:
        raise ValueError("no row of dpkg -l")
    return Packages(manager="dpkg", installed=installed, broken=broken, leftover=leftover)


def dpkg_rows(text: str) -> int:
    """How many packages `dpkg -l` lists, whatever their state."""
    return sum(1 for line in text.splitlines() if len(c := line.split(None, 4)) >= 4 and _STATE.match(c[0]))


def apt_list(text: str) -> Packages:
    """`apt list --installed`: name/suite version architecture [marks]."""
    installed: dict[str, str] = {}
    leftover: dict[str, str] = {}
    upgradable: dict[str, str] = {}
    for line in text.splitlines():
        match = _APT.match(line.strip())
        if not match:
            continue
        name, version, _, marks = match.groups()
        pile = leftover if marks and "residual-config" in marks else installed
        pile[name] = version
        if marks and (newer := _UPGRADE.search(marks)):
            upgradable[name] = newer[1]
    if not installed and not leftover:
        raise ValueError("no row of apt list")
    return Packages(manager="dpkg", installed=installed, leftover=leftover, upgradable=upgradable)


def rpm_all(text: str) -> Packages:
    """`rpm -qa` as printed without a format: name-version-release.arch."""
    lines = map(str.strip, text.splitlines())
    rows = [m.groups() for line in lines if (m := _KEY.match(line) or _NVRA.match(line))]
    if not rows:
        raise ValueError("no row of rpm -qa")
    return rpm_query("".join(f"{name}\t{version}\t\n" for name, version, _ in rows))


def dpkg_names(text: str) -> Packages:
    """`dpkg-query -W` as printed without a format: name[:arch], tab, version; no version = not installed."""
    rows = [cells for line in text.splitlines() if len(cells := line.split("\t")) == 2 and _NAME.match(cells[0])]
    if not rows:
        raise ValueError("no row of dpkg-query -W")
    return Packages(manager="dpkg", installed={name.split(":")[0]: version for name, version in rows if version})


def dnf_list(text: str) -> Packages:
    """`dnf list --installed` or `yum list installed`: name.arch, version-release, @repository."""
    rows = [m.groups() for line in text.splitlines() if (m := _DNF.match(line.strip()))]
    if not rows:
        raise ValueError("no row of dnf list or yum list")
    return rpm_query("".join(f"{name}\t{version}\t\n" for name, version in rows))


def rpm_info(text: str) -> list[RpmInfo]:
    """`rpm -qi`: "Key : value" blocks, one per package, the description last."""
    blocks: list[dict[str, str]] = []
    described = False
    for line in text.splitlines():
        match = _INFO_KEY.match(line)
        key = match[1].strip() if match else ""
        if match and key == "Name":
            blocks.append({})
            described = False
        if match and blocks and not described:
            blocks[-1][key] = match[2].strip()
        if line.startswith("Description"):
            described = True
    found = [_info(b) for b in blocks if "Name" in b and "Version" in b]
    if not found:
        raise ValueError("no package of rpm -qi")
    return found


def _info(block: dict[str, str]) -> RpmInfo:
    epoch = block.get("Epoch")
    return RpmInfo(
        block["Name"],
        block["Version"],
        block.get("Release", ""),
        None if epoch == "(none)" else epoch,
        block.get("Architecture"),
        block.get("Vendor"),
        block.get("Source RPM"),
        block.get("Summary"),
    )


FORMATS: dict[str, Callable[[str], Any]] = {
    "dpkg -l": dpkg_list,
    "apt list --installed": apt_list,
    "dpkg-query -W": dpkg_names,
    "dnf list": dnf_list,
    "yum list": dnf_list,
    "rpm -qa": rpm_all,
    "rpm -qi": rpm_info,
}
