"""Environment modules: Lmod or Environment Modules, and the module files a user finds."""

from __future__ import annotations

from assay.facts.source import source
from assay.model import Env, Fact, Files, Missing, Probe, RawFact, Stat

_LMOD = (
    "/usr/share/lmod/lmod/libexec/lmod", "/usr/share/lmod/*/libexec/lmod", "/opt/apps/lmod/lmod/libexec/lmod",
    "/opt/lmod/*/libexec/lmod", "/usr/local/lmod/lmod/libexec/lmod", "/cm/local/apps/lmod/*/libexec/lmod",
    "/opt/ohpc/admin/lmod/lmod/libexec/lmod",
)  # fmt: skip
_TCL = (
    "/usr/share/modules/init/bash", "/usr/share/Modules/init/bash", "/usr/lib/*/modulecmd.tcl",
    "/usr/share/Modules/libexec/modulecmd.tcl", "/usr/local/Modules/init/bash", "/opt/modules/init/bash",
    "/cm/local/apps/environment-modules/*/init/bash",
)  # fmt: skip
_PROFILE = (
    "/etc/profile.d/*lmod*.sh", "/etc/profile.d/*modules*.sh", "/etc/profile.d/*cray-pe*.sh",
)  # fmt: skip
_PLACES = (
    "/usr/share/modules/modulefiles", "/usr/share/Modules/modulefiles", "/usr/share/modulefiles", "/etc/modulefiles",
    "/usr/share/lmod/lmod/modulefiles/Core", "/opt/modulefiles", "/opt/*/modulefiles", "/usr/local/modulefiles",
    "/cm/shared/modulefiles", "/cm/local/modulefiles", "/opt/ohpc/pub/modulefiles", "/shared/modulefiles",
    "/opt/hpcx*/modulefiles", "/opt/nvidia/hpc_sdk/modulefiles",
)  # fmt: skip
_OWN = frozenset({"dot", "module-git", "module-info", "modules", "null", "use.own", "lmod", "settarg"})


class ModuleSystem(Fact, frozen=True):
    """`kind` = lmod, tcl or "" (none). `shell` = a login shell gets the command `module`.

    `names` = module files (or their directories) in the usual places, without those that come with the system itself.
    """

    kind: str = ""
    shell: bool = False
    modulepath: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@source(
    Probe(
        "slurm.modules",
        (
            Stat("lmod", _LMOD),
            Stat("tcl", _TCL),
            Stat("profile", _PROFILE),
            Files("paths", ("/etc/lmod/modulespath", "/etc/environment-modules/modulespath"), cap=1 << 13),
            Stat("files", tuple(f"{place}/*" for place in _PLACES), limit=512),
            Env("env", ("MODULEPATH", "LMOD_CMD", "MODULESHOME")),
        ),
    ),
    sees_missing=True,
)
def module_system(raw: RawFact) -> ModuleSystem | Missing:
    """Files and environment only: a login shell's functions are not started."""
    if all(read.state in ("error", "denied", "timed-out") for read in raw.reads):
        return Missing("failed", "could not look for a module system")
    env = raw.files("env")
    lmod = bool(raw.files("lmod")) or "LMOD_CMD" in env
    kind = "lmod" if lmod else "tcl" if raw.files("tcl") or "MODULESHOME" in env else ""
    listed = [line.split("#")[0].strip() for text in raw.files("paths").values() for line in text.splitlines()]
    names = {path.rsplit("/", 1)[-1] for path in raw.files("files")}
    return ModuleSystem(
        kind=kind,
        shell=bool(raw.files("profile")) or "MODULEPATH" in env,
        modulepath=tuple(dict.fromkeys(p for p in (*env.get("MODULEPATH", "").split(":"), *listed) if p)),
        names=tuple(sorted(n for n in names if n not in _OWN and not n.startswith("."))),
    )
