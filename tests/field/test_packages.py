"""Lists of dpkg, apt and rpm as people mail them."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.facts.packages import FORMATS, Packages, RpmInfo, dpkg_rows
from field_facts import FIELD, pair, same

FOLDER = FIELD / "packages"
if not FOLDER.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

CASES = sorted(FOLDER.glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
SHORT = {"apt list": "apt list --installed", "dpkg --list": "dpkg -l", "dpkg-query -l": "dpkg -l", "rpm -q": "rpm -qa"}
DRIVER = re.compile(
    r"(?:nvidia-driver|nvidia-headless|nvidia-utils|nvidia-compute-utils)-\d+|nvidia-driver|kmod-nvidia\S*"
)


def _upstream(version: str) -> str:
    return re.split(r"-(?=\d)", version.split(":", 1)[-1])[0]


def view(parsed: Any, text: str) -> dict[str, Any]:
    if isinstance(parsed, list):
        return _rpm_view(parsed)
    assert isinstance(parsed, Packages)
    driver = next((v for n, v in parsed.installed.items() if DRIVER.match(n)), None)
    also = sum(map(len, parsed.also.values()))
    listed = len(parsed.installed) + also + len(parsed.leftover) + len(parsed.broken)
    states: Counter[str] = Counter(line[:3].strip() for line in text.splitlines() if dpkg_rows(line))
    branches = {m[1] for n in parsed.installed if (m := re.match(r"(?:nvidia-driver|libnvidia-compute)-(\d+)", n))}
    drivers = [v for n, v in parsed.installed.items() if DRIVER.match(n)]
    seen = {
        "states": dict(states),
        **{s: n for s, n in states.items() if s},
        "packages": len(parsed.installed),
        "driver_installed": driver is not None,
        "driver": _upstream(driver) if driver else None,
        "drivers": sorted({_upstream(v) for v in drivers}),
        "driver_branches": sorted(branches),
        "removed": sorted(parsed.leftover),
        "residual": sorted(parsed.leftover),
        "config_files": sorted(parsed.leftover),
        "held": sum(n for s, n in states.items() if s.startswith("h")),
        "not_installed": states["un"] + states["pn"],
        "also": {n: list(v) for n, v in parsed.also.items()},
        "broken_driver": any(DRIVER.match(n) for n in parsed.broken),
        "rows": dpkg_rows(text) or listed,
        "installed": len(parsed.installed),
        "installed_names": sorted(parsed.installed),
        "installed_driver": _upstream(driver) if driver else None,
        "leftover": sorted(parsed.leftover),
        "unpacked": sorted(parsed.broken),
        "broken": sorted(parsed.broken),
        "half_installed": sorted(parsed.broken),
        "upgradable": parsed.upgradable,
        "upgradable_count": len(parsed.upgradable),
        "upgradable_names": sorted(parsed.upgradable),
        "manager": parsed.manager,
        "kernels": sorted(n for n in parsed.installed if n.startswith(("linux-image-", "kernel"))),
    }
    return {**{name: _neutral(version) for name, version in parsed.installed.items()}, **seen}


def _neutral(version: str) -> str:
    return _upstream(version) if re.fullmatch(r"[\d.:]+-\d+", version) else version


def _rpm_view(infos: list[RpmInfo]) -> dict[str, Any]:
    first = infos[0]
    return {
        "name": first.name, "version": first.version, "release": first.release, "epoch": first.epoch,
        "architecture": first.arch, "arch": first.arch, "vendor": first.vendor, "source_rpm": first.source_rpm,
        "summary": first.summary, "rows": len(infos), "packages": [i.name for i in infos],
        "names": [i.name for i in infos], "evr": f"{first.version}-{first.release}", "first": first.name,
        **{i.name: i.version for i in infos},
    }  # fmt: skip


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_field_output(path: Path) -> None:
    text, expected = pair(path)
    tool = next(f for f in (*FORMATS, *SHORT) if expected["tool"].startswith(f))
    seen = view(FORMATS[SHORT.get(tool, tool)](text), text)
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in seen, f"no such fact: {name}"
        assert same(seen[name], want), (name, seen[name], want)
