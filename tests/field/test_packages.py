"""Lists of dpkg, apt and rpm as people mail them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assay.facts.packages import FORMATS, Packages, RpmInfo, dpkg_rows

FOLDER = Path(__file__).resolve().parents[3] / "shared/field/packages"
if not FOLDER.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

CASES = sorted(FOLDER.glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
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
    seen = {
        "rows": dpkg_rows(text) or len(parsed.installed) + len(parsed.leftover) + len(parsed.broken),
        "installed": len(parsed.installed),
        "installed_names": sorted(parsed.installed),
        "installed_driver": _upstream(driver) if driver else None,
        "leftover": sorted(parsed.leftover),
        "unpacked": sorted(parsed.broken),
        "broken": sorted(parsed.broken),
        "half_installed": sorted(parsed.broken),
        "upgradable": parsed.upgradable,
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
    }  # fmt: skip


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_field_output(path: Path) -> None:
    expected = json.loads(path.read_text())
    stem = path.name.removesuffix(".expected.json")
    text = next(p for p in FOLDER.glob(stem + ".*") if p != path).read_text()
    tool = next(f for f in FORMATS if expected["tool"].startswith(f))
    seen = view(FORMATS[tool](text), text)
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in seen, f"no such fact: {name}"
        got = sorted(seen[name]) if isinstance(want, list) else seen[name]
        assert got == (sorted(want) if isinstance(want, list) else want), name
