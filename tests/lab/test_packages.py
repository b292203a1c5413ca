"""Packages: what apt plans, how they are laid out, what is said where they cannot be had."""

from pathlib import Path

import pytest

from assay.errors import AssayError
from assay.lab import packages

PLAN = """\
Reading package lists...
Inst libmunge2 (0.5.15-2 Debian:12.15/oldstable [amd64])
Inst libc6 [2.36-9] (2.36-10 Debian:12.15/oldstable [amd64]) []
Inst mysql-common (5.8+1.1.0 Debian:12.15/oldstable [all])
Inst libhwloc15:amd64 (2.9.0-1 Debian:12.15/oldstable [amd64])
Conf libmunge2 (0.5.15-2 Debian:12.15/oldstable [amd64])
"""


def test_every_package_that_apt_would_install_is_named_with_its_version() -> None:
    assert packages.planned(PLAN) == (
        "libc6:amd64=2.36-10",
        "libhwloc15:amd64=2.9.0-1",
        "libmunge2:amd64=0.5.15-2",
        "mysql-common:all=5.8+1.1.0",
    )


def test_an_image_never_has_a_directory_where_every_machine_has_a_link(tmp_path: Path) -> None:
    for path in ("lib/systemd/x", "usr/lib/y", "usr/sbin/slurmd-wlm", "usr/share/doc/z", "etc/munge/key"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    packages.arrange(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {"usr/lib/systemd/x", "usr/lib/y", "usr/sbin/slurmd-wlm", "usr/sbin/slurmd"}
    assert not (tmp_path / "lib").exists()


def test_without_apt_and_without_a_cache_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssayError, match="no apt-cache"):
        packages.image("slurm", packages.SLURM, lambda _: None, tmp_path)


def test_packages_unpacked_before_serve_where_new_ones_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "images" / "k"
    root.mkdir(parents=True)
    (tmp_path / "slurm.json").write_text('{"stamp": "old", "key": "k", "packages": []}')
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert packages.image("slurm", packages.SLURM, said.append, tmp_path) == root
    assert "using the packages unpacked before" in said[0]


def test_the_cache_goes_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert packages.cache_directory() == Path("/x/assay/lab")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/u")
    assert packages.cache_directory() == Path("/home/u/.cache/assay/lab")
    monkeypatch.delenv("HOME")
    assert packages.cache_directory() == Path("/var/cache/assay-lab")
