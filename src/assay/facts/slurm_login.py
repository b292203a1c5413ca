"""The login node of a Slurm cluster: what kind of machine it is, what users find on it, and what its srun can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import field

from assay.facts.mounts import Mount, mountinfo
from assay.facts.slurm_session import homes
from assay.facts.source import source, why_missing
from assay.model import Env, Exec, Fact, Files, Links, Missing, Probe, RawFact, Stat, Which

_TOOLS = ("python3", "git", "curl", "wget", "vim", "vi", "nano", "apt", "apt-get", "dnf", "yum", "zypper", "sudo")
_BUILD = ("nvcc", "mpirun", "mpicc", "enroot", "apptainer", "singularity", "docker", "podman")
_GROUPS = ("sudo", "wheel", "admin", "google-sudoers")
_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_GIDS = re.compile(r"^Groups:[ \t]*([\d \t]*)$", re.MULTILINE)
_OPTION = re.compile(r"^\s*(?:-\w,?\s+)?--([a-z][\w-]*)", re.MULTILINE)
_PLUGINS = "Options provided by plugins:"


class LoginNode(Fact, frozen=True):
    """The machine that users log in to. `root_fs` and `home_fs` = types of file system, "" = not told.

    `home_on_root` = homes lie on the root file system; `container` = what says that this is one, "" = nothing does.
    `sudo` = sudo is there and may give rights; `admin` = this user is root or in a group of administrators.
    """

    hostname: str = ""
    container: str = ""
    root_fs: str = ""
    home: str = ""
    home_fs: str = ""
    home_source: str = ""
    home_on_root: bool | None = None
    gpus: int = 0
    slurmctld: bool | None = None
    slurmd: bool | None = None
    tools: tuple[str, ...] = ()
    build: dict[str, str] = field(default_factory=dict)
    sudo: bool | None = None
    admin: bool | None = None


class SrunOptions(Fact, frozen=True):
    """What srun on the login node offers: MPI plugins, releases of PMIx, options that SPANK plugins add."""

    mpi: tuple[str, ...] = ()
    pmix: tuple[str, ...] = ()
    plugin_options: tuple[str, ...] = ()

    @property
    def pyxis(self) -> bool:
        """Pyxis is loaded: srun takes container images."""
        return "container-image" in self.plugin_options


@source(
    Probe(
        "slurm.login",
        (
            Files("hostname", ("/proc/sys/kernel/hostname",), cap=256),
            Files("mountinfo", ("/proc/self/mountinfo",), cap=1 << 20),
            Files("passwd", ("/etc/passwd",), cap=1 << 20),
            Files("group", ("/etc/group",), cap=1 << 18),
            Files("status", ("/proc/self/status",)),
            Env("env", ("HOME", "KUBERNETES_SERVICE_HOST", "container")),
            Stat("marks", ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")),
            Stat("sudo", ("/usr/bin/sudo",)),
            Links("gpus", ("/sys/bus/pci/drivers/nvidia/*:*", "/sys/bus/pci/drivers/amdgpu/*:*")),
            Stat(
                "daemons",
                (
                    "/run/slurmctld.pid",
                    "/var/run/slurmctld.pid",
                    "/run/slurm/slurmctld.pid",
                    "/run/slurmctld/slurmctld.pid",
                    "/run/slurmd.pid",
                    "/var/run/slurmd.pid",
                    "/run/slurm/slurmd.pid",
                ),
            ),
            Which("tools", (*_TOOLS, *_BUILD), also=("/usr/local/cuda*/bin/nvcc", "/opt/hpcx*/ompi/bin/mpirun")),
        ),
        place="scheduler",
    ),
    sees_missing=True,
)
def login_node(raw: RawFact) -> LoginNode | Missing:
    """Files of the login node only."""
    if missing := why_missing([raw.read("mountinfo")], "no /proc/self/mountinfo on the login node"):
        return missing
    mounts = {m.target: m for m in mountinfo(raw.out("mountinfo")).mounts}
    home, held = _home(raw, mounts)
    daemons = {path.rsplit("/", 1)[1] for path in raw.files("daemons")}
    programs = {name: path for path, name in sorted(raw.files("tools").items(), reverse=True)}
    root = mounts.get("/")
    return LoginNode(
        hostname=raw.out("hostname").strip(),
        container=_container(raw),
        root_fs=root.fstype if root else "",
        home=home,
        home_fs=held.fstype if held else "",
        home_source=held.source if held else "",
        home_on_root=held.target == "/" if held else None,
        gpus=len(raw.files("gpus")),
        slurmctld="slurmctld.pid" in daemons,
        slurmd="slurmd.pid" in daemons,
        tools=tuple(name for name in _TOOLS if name in programs),
        build={name: programs[name] for name in _BUILD if name in programs},
        sudo=_sudo(raw, programs),
        admin=_admin(raw),
    )  # fmt: skip


def _home(raw: RawFact, mounts: Mapping[str, Mount]) -> tuple[str, Mount | None]:
    """Where users' homes lie and the mount that holds them; root's own home tells nothing about users'."""
    own = raw.files("env").get("HOME", "")
    places = homes(raw.out("passwd"))
    home = own if own.count("/") > 1 else next(iter(places), "/home" if "/home" in mounts else own)
    place = home
    while place and place not in mounts:
        place = place.rpartition("/")[0]
    return home, mounts.get(place or "/")


def _container(raw: RawFact) -> str:
    if "KUBERNETES_SERVICE_HOST" in raw.files("env") or "/var/run/secrets/kubernetes.io" in raw.files("marks"):
        return "a pod of Kubernetes"
    if named := raw.files("env").get("container"):
        return f"a container ({named})"
    return "a container" if raw.files("marks") else ""


def _sudo(raw: RawFact, programs: Mapping[str, str]) -> bool | None:
    stat = next(iter(raw.files("sudo").values()), "").split()
    if len(stat) > 1:
        return stat[1][:1] in "4567"
    return None if "sudo" in programs or raw.read("sudo").state not in ("ok", "absent") else False


def _admin(raw: RawFact) -> bool | None:
    uid, gids = _UID.search(raw.out("status")), _GIDS.search(raw.out("status"))
    if not uid:
        return None
    rows = (line.split(":") for line in raw.out("group").splitlines())
    groups = {row[2] for row in rows if len(row) == 4 and row[0] in _GROUPS}
    return uid[1] == "0" or bool(gids and groups.intersection(gids[1].split()))


@source(
    Probe(
        "slurm.srun",
        (Exec("mpi", ("srun", "--mpi=list"), timeout_s=10.0), Exec("help", ("srun", "--help"), timeout_s=10.0)),
        place="scheduler",
    )
)
def srun_options(raw: RawFact) -> SrunOptions | Missing:
    """`srun --mpi=list` and `srun --help`, which start nothing and ask nobody."""
    listed = raw.read("mpi")
    if listed.rc:
        said = " ".join(f"{listed.err} {listed.out}".split())[:200]
        return Missing("failed", f"srun --mpi=list: {said or f'exit status {listed.rc}'}")
    plugins, pmix = mpi_list(f"{listed.out}\n{listed.err}")
    return SrunOptions(mpi=plugins, pmix=pmix, plugin_options=plugin_options(raw.out("help")))


def mpi_list(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`srun --mpi=list` of every release: names of plugins and of PMIx releases. Old releases prefix "srun: "."""
    plugins: list[str] = []
    pmix: list[str] = []
    for line in text.splitlines():
        bare = line.removeprefix("srun:").strip()
        if bare.startswith("specific pmix plugin versions available:"):
            pmix += re.split(r"[\s,]+", bare.partition(":")[2].strip())
        elif re.fullmatch(r"[a-z]\w{1,30}", bare):
            plugins.append(bare)
    if not plugins or not re.search(r"MPI (?:plugin )?types are", text):
        raise ValueError("not the output of srun --mpi=list")
    versions = [p for p in (*pmix, *plugins) if re.fullmatch(r"pmix_v\d+", p)]
    return tuple(dict.fromkeys(plugins)), tuple(dict.fromkeys(versions))


def plugin_options(text: str) -> tuple[str, ...]:
    """The options that SPANK plugins add, from `srun --help`."""
    _, found, rest = text.partition(_PLUGINS)
    block = re.split(r"\n\s*\n(?=\S)", rest, maxsplit=1)[0] if found else ""
    return tuple(dict.fromkeys(_OPTION.findall(block)))


FORMATS: dict[str, Callable[[str], Any]] = {"srun --mpi=list": mpi_list}
