"""The file-system layer that every host of the lab has on top of this machine's files."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from assay.lab import accounts, slurm_conf
from assay.lab.scenario import Scenario
from assay.lab.site import SCRIPTS, Site
from assay.lab.spec import CONTROL, Spec, hosts

TOOLS = "usr/lib/assay-lab"
DATABASE = f"{TOOLS}/database"
_COPY_S = 60
_MUNGE_KEY_BYTES, _JWT_KEY_BYTES = 128, 32
# what of this machine is nobody's business on an emulated one
_HIDDEN = (
    "root", "home", "mnt", "media", "srv", "var/log", "var/tmp", "var/spool", "var/cache", "var/lib/mysql", "etc/munge",
    "etc/slurm", "etc/ssh",
)  # fmt: skip
_MARKS = (".dockerenv",)  # of this machine, where it is a container: its hosts are none
_OPAQUE = "trusted.overlay.opaque"
_SCRIPTS = {
    "init": f"{TOOLS}/init",
    "control": f"{TOOLS}/control",
    "reboot": "usr/sbin/reboot",
    "program": f"{TOOLS}/kernel-log",
}


def build(site: Site, spec: Spec, scenario: Scenario, image: Path) -> None:
    """Everything the hosts share: packages, scripts, accounts, Slurm's configuration, /shared."""
    subprocess.run(["cp", "-a", f"{image}/.", site.layer], check=True, timeout=_COPY_S)
    for directory in _HIDDEN:
        _hide(site.layer / directory)
    for mark in _MARKS:  # a device 0:0 hides what is below
        os.mknod(site.layer / mark, stat.S_IFCHR, os.makedev(0, 0))
    for source, target in _SCRIPTS.items():
        put(site.layer / target, (SCRIPTS / source).read_text(encoding="utf-8"), 0o755)
    _etc(site.layer / "etc", spec)
    _owned(site.layer)
    share(site, spec, scenario)


def _hide(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    os.setxattr(directory, _OPAQUE, b"y")


def _etc(etc: Path, spec: Spec) -> None:
    passwd = accounts.passwd(Path("/etc/passwd").read_text(encoding="utf-8"))
    put(etc / "passwd", passwd)
    put(etc / "group", accounts.group(Path("/etc/group").read_text(encoding="utf-8")))
    put(etc / "shadow", accounts.shadow(passwd), 0o600)
    put(etc / "hosts", hosts_file(spec))
    put(etc / "nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    put(etc / "resolv.conf", "")


def hosts_file(spec: Spec) -> str:
    """/etc/hosts: gpu01 in the management network, gpu01-ib in the fabric."""
    lines = ["127.0.0.1 localhost"]
    for host in hosts(spec):
        lines.append(f"{host.management} {host.name}")
        if host.fabric:
            lines.append(f"{host.fabric} {host.name}-ib")
    return "\n".join(lines) + "\n"


def _owned(layer: Path) -> None:
    """Directories of the daemons, which their packages' scripts would have made."""
    uid = {account.name: account.uid for account in accounts.ALL}
    for path, owner, mode in (
        ("root", "", 0o700), ("var/tmp", "", 0o1777), ("var/spool/slurmd", "", 0o755),
        ("var/spool/slurmctld", "slurm", 0o700), ("var/lib/munge", "munge", 0o700), ("var/log/munge", "munge", 0o700),
        ("var/lib/mysql", "mysql", 0o700), ("var/log/slurm", "slurm", 0o755), ("etc/munge", "munge", 0o700),
    ):  # fmt: skip
        directory = layer / path
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        os.chown(directory, uid.get(owner, 0), uid.get(owner, 0))


def share(site: Site, spec: Spec, scenario: Scenario) -> None:
    """What hosts share and change: Slurm's configuration, homes, the socket of munge. Anew where there is some."""
    for directory in (site.slurm, site.shared, site.munge):
        _empty(directory)
    for name, text in slurm_conf.files(spec, scenario).items():
        put(site.slurm / name, text)
    for path, file in scenario.files.get("*", {}).items():
        if path.startswith("/etc/slurm/"):
            put(site.slurm / path.removeprefix("/etc/slurm/"), file.now(), file.mode)
    for person in accounts.PEOPLE:
        home = site.shared / person.home.removeprefix("/shared/")
        home.mkdir(parents=True)
        home.chmod(0o700)
        os.chown(home, person.uid, person.uid)
    site.shared.chmod(0o1777)
    munge = next(account.uid for account in accounts.DAEMONS if account.name == "munge")
    os.chown(site.munge, munge, munge)


def _empty(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def private_files(name: str, spec: Spec) -> Mapping[str, tuple[str | bytes, int, str]]:
    """Path -> (content, mode, owner) of what only one host has: on ctl the keys, which no other host can see."""
    if name != CONTROL:
        return {}
    found: dict[str, tuple[str | bytes, int, str]] = {
        "etc/munge/munge.key": (secrets.token_bytes(_MUNGE_KEY_BYTES), 0o400, "munge"),
        slurm_conf.JWT_KEY[1:]: (secrets.token_bytes(_JWT_KEY_BYTES), 0o400, "slurm"),
    }
    if spec.accounting:
        password = secrets.token_urlsafe(24)
        found["etc/slurmdbd/slurmdbd.conf"] = (slurm_conf.slurmdbd_conf(password), 0o600, "slurm")
        found["etc/slurmdbd/grants.sql"] = (grants(password), 0o600, "mysql")
        found["etc/slurmdbd/associations"] = (associations(), 0o644, "")
    return found


def grants(password: str) -> str:
    """What the database is told when it starts."""
    return (
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
        f"CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';\n"
    )


def associations() -> str:
    """The cluster, an account per tenant and who may use which, as `sacctmgr load` reads it."""
    lines = ["Cluster - 'lab'", "Parent - 'root'", "User - 'root':DefaultAccount='root':AdminLevel='Administrator'"]
    accounts_ = slurm_conf.ACCOUNTS.values()
    lines += [f"Account - '{name}':Description='{name}':Organization='{name}'" for name in accounts_]
    for user, account in slurm_conf.ACCOUNTS.items():
        lines += [f"Parent - '{account}'", f"User - '{user}':DefaultAccount='{account}'"]
    return "\n".join(lines) + "\n"


def put(path: Path, content: str | bytes, mode: int = 0o644, owner: str = "") -> None:
    """Write a file with its mode and owner; directories above are made. A link in its place is not followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    number = next((account.uid for account in accounts.ALL if account.name == owner), 0)
    os.chown(path, number, number)
