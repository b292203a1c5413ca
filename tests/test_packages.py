"""Formats of package lists beside those that the source reads."""

import pytest

from assay.facts.packages import FORMATS

TEXTS = {
    "dpkg-query -W": ("libc6:amd64\t2.39-0ubuntu8.6\nrunc\t1.3.3-0ubuntu1\nremoved\t\n", "runc", "1.3.3-0ubuntu1"),
    "dnf list": ("Installed Packages\nrunc.x86_64    4:1.2.4-2.el9    @appstream\n", "runc", "4:1.2.4-2.el9"),
    "yum list": ("Loaded plugins\nkmod-kvdo.x86_64   8.2.6.3-165.el9   installed\n", "kmod-kvdo", "8.2.6.3-165.el9"),
    "rpm -qa": ("make-devel-4.3-8.el9.x86_64\ngpg-pubkey-8483c65d-5ccc5b19\n", "make-devel", "4.3-8.el9"),
    "dpkg -l": ("hi  docker-ce   5:29.9.2-1 amd64  Docker\nrc  runc 1.1.0-1 amd64 x\n", "docker-ce", "5:29.9.2-1"),
    "apt list --installed": ("Listing...\nrunc/noble,now 1.3.3-0ubuntu1 amd64 [installed]\n", "runc", "1.3.3-0ubuntu1"),
}  # fmt: skip


@pytest.mark.parametrize("tool", sorted(TEXTS))
def test_format_names_package_and_version(tool: str) -> None:
    text, name, version = TEXTS[tool]
    found = FORMATS[tool](text)
    assert found.installed[name] == version
    assert "removed" not in found.installed
    assert len(found.installed) <= 2


@pytest.mark.parametrize("tool", sorted(FORMATS))
@pytest.mark.parametrize("text", ["", "bash: command not found\n", "<html></html>", "\x00\xff" * 20])
def test_other_text_is_refused(tool: str, text: str) -> None:
    with pytest.raises(ValueError, match=tool.split(maxsplit=1)[0]):
        FORMATS[tool](text)
