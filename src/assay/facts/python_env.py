"""Python as a user finds it: version, venv, pip, and which PyTorch it would import."""

from __future__ import annotations

import json
import re

from msgspec import Struct

from assay.facts.source import source
from assay.model import Env, Exec, Fact, Files, Missing, Probe, RawFact, Which

_ASSIGNED = re.compile(r"""^(\w+)(?::[^=]+)?\s*=\s*(?:'([^']*)'|"([^"]*)"|None)""", re.MULTILINE)
_PLACES = (
    "/usr/lib/python3*/dist-packages", "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
    "/usr/lib64/python3*/site-packages", "/usr/local/lib64/python3*/site-packages",
    "/opt/*/lib/python3*/site-packages", "/opt/*/envs/*/lib/python3*/site-packages", "/venv/lib/python3*/site-packages",
)  # fmt: skip
# Looks modules up without importing them: importing torch takes seconds and touches the GPU.
_SCRIPT = """
import importlib.util as u, json, os, sys
names = ("venv", "ensurepip", "pip", "torch", "jax", "vllm", "sglang", "transformers", "numpy")
where = {}
for name in names:
    try:
        spec = u.find_spec(name)
        where[name] = spec and (spec.origin or "namespace")
    except Exception as e:
        where[name] = None
text = ""
if where["torch"]:
    path = os.path.join(os.path.dirname(where["torch"]), "version.py")
    text = open(path).read(4096) if os.path.exists(path) else ""
print(json.dumps({"version": sys.version.split()[0], "executable": sys.executable, "where": where, "torch": text}))
"""


class Torch(Struct, frozen=True, kw_only=True):
    """One installed PyTorch: its version and what it was built for; cuda and hip both None = CPU only."""

    path: str
    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None

    @property
    def cpu_only(self) -> bool:
        """True when it was built for no accelerator."""
        return self.cuda is None and self.hip is None and self.xpu is None


class PythonEnv(Fact, frozen=True):
    """The python3 on PATH and its packages. `venv` counts only with ensurepip: Debian ships one without the other."""

    version: str | None = None
    path: str | None = None
    venv: bool | None = None
    pip: bool | None = None
    tools: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    torch: Torch | None = None
    others: tuple[Torch, ...] = ()
    active: str = ""

    @property
    def torches(self) -> tuple[Torch, ...]:
        """Every PyTorch found, the one of python3 on PATH first."""
        return ((self.torch,) if self.torch else ()) + self.others


@source(
    Probe(
        "python.env",
        (
            Exec("python", ("python3", "-I", "-c", _SCRIPT), timeout_s=5.0),
            Which("which", ("python3", "pip", "pip3", "uv", "conda", "mamba", "micromamba", "pixi", "virtualenv")),
            Env("active", ("VIRTUAL_ENV", "CONDA_PREFIX")),
            Files("torch", tuple(f"{place}/torch/version.py" for place in _PLACES), cap=4096, limit=32),
        ),
    ),
    sees_missing=True,
)
def python_env(raw: RawFact) -> PythonEnv | Missing:
    """What python3 says about itself, and the version file of every PyTorch in the usual places."""
    read = raw.read("python")
    others = [t for path, text in raw.files("torch").items() if (t := torch_version(text, path))]
    tools = tuple(dict.fromkeys(raw.files("which").values()))
    if read.state == "timed-out":
        return Missing("timed-out", "python3 did not answer in time")
    if not read.out.strip():
        if read.state == "ok" or others or "python3" in tools:
            return Missing("failed", (read.err.strip() or "python3 printed nothing").splitlines()[-1][:200])
        return Missing("absent", "no python3 on PATH")
    said = json.loads(read.out.strip().splitlines()[-1])
    where: dict[str, str | None] = said["where"]
    own = torch_version(said["torch"], (where["torch"] or "").rsplit("/", 1)[0] + "/version.py")
    return PythonEnv(
        version=said["version"],
        path=said["executable"],
        venv=bool(where["venv"] and where["ensurepip"]) or "virtualenv" in tools or "uv" in tools,
        pip=bool(where["pip"]),
        tools=tuple(t for t in tools if t != "python3"),
        packages=tuple(name for name, place in where.items() if place and name not in ("venv", "ensurepip", "pip")),
        torch=own,
        others=tuple(t for t in others if own is None or t.path != own.path),
        active=next(iter(raw.files("active").values()), ""),
    )


def torch_version(text: str, path: str = "") -> Torch | None:
    """torch/version.py; None when it names no version."""
    values = {name: single or double or None for name, single, double in _ASSIGNED.findall(text)}
    version = values.get("__version__")
    if not version:
        return None
    return Torch(path=path, version=version, cuda=values.get("cuda"), hip=values.get("hip"), xpu=values.get("xpu"))
