"""Container tools as people mail their outputs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.facts import containers, crictl, docker
from field_facts import FIELD, pair, same

FOLDER = FIELD / "containers"
if not FOLDER.is_dir():
    pytest.skip("the folder of field outputs is not here", allow_module_level=True)

CASES = sorted(FOLDER.glob("*.expected.json"))
WRONG: dict[tuple[str, str], str] = {}
FORMATS: dict[str, Callable[[str], Any]] = {**docker.FORMATS, **containers.FORMATS, **crictl.FORMATS}
SHORT = {"docker --version": "docker", "containerd --version": "containerd", "runc --version": "runc"}


def _engine(parsed: docker.DockerEngine) -> dict[str, Any]:
    seen = msgspec.to_builtins(parsed)
    seen["server_error"] = parsed.server_errors[0] if parsed.server_errors else None
    seen["errors"] = seen["server_errors"]
    seen["available"] = parsed.server_version is not None and not parsed.server_errors
    seen["cgroup"] = parsed.cgroup_driver
    if parsed.server_version:
        seen["docker"] = parsed.server_version
    seen["cdi"] = parsed.cdi_devices is not None
    seen["cdi_spec_dirs"] = list(parsed.cdi_dirs or ())
    seen["apparmor"] = "apparmor" in (parsed.security or {})
    seen["seccomp"] = (parsed.security or {}).get("seccomp")
    seen["userns"] = "userns" in (parsed.security or {})
    seen["insecure"] = seen["insecure_registries"]
    seen["bad_security_options"] = seen["odd_security"]
    seen["nvidia"] = "nvidia" in (parsed.runtimes or ())
    seen["nvidia_runtime"] = seen["nvidia"]
    seen["security_options"] = sorted(parsed.security or {})
    seen["seccomp_profile"] = (parsed.security or {}).get("seccomp")
    seen["rootless"] = "rootless" in (parsed.security or {})
    seen["nvidia_cdi_devices"] = [d for d in parsed.cdi_devices or () if d.startswith("nvidia.com/")]
    return seen


def view(tool: str, parsed: Any) -> dict[str, Any]:
    if isinstance(parsed, docker.DockerEngine):
        return _engine(parsed)
    if isinstance(parsed, crictl.CriInfo):
        seen = msgspec.to_builtins(parsed)
        nvidia = "nvidia" in (parsed.runtimes or ())
        return {**seen, "nvidia": nvidia, "nvidia_runtime": nvidia, "message": (*parsed.messages, None)[0]}
    if isinstance(parsed, list):
        return {
            "rows": len(parsed), "containers": len(parsed), "states": [r["state"] for r in parsed],
            "names": [r["name"] for r in parsed], "images": [r["image"] for r in parsed],
            "ids": [r.get("container") for r in parsed], "pod_ids": [r.get("pod_id") for r in parsed],
            "created": [r.get("created") for r in parsed], "exited": sum(r["state"] == "Exited" for r in parsed),
            "first": parsed[0] if parsed else None,
            "not_running": [r["name"] for r in parsed if r["state"] != "Running"],
            "running": sum(r["state"] == "Running" for r in parsed),
            "attempts": [int(r["attempt"]) for r in parsed], "pods": [r.get("pod") for r in parsed],
        }  # fmt: skip
    if isinstance(parsed, tuple):
        gpus = [d for d in parsed if d.startswith("nvidia.com/gpu=") and not d.endswith("=all")]
        return {
            "devices": list(parsed), "cdi_devices": list(parsed), "count": len(parsed),
            "gpus": gpus, "has_all": "nvidia.com/gpu=all" in parsed, "rows": len(parsed),
        }  # fmt: skip
    program = tool.partition(" ")[0]
    named = {program: parsed.get("version"), f"{program}_version": parsed.get("version")} if program != "docker" else {}
    product = {SHORT.get(tool, "product"): parsed.get("product", parsed.get("version"))}
    return {**named, **parsed, **product, **_names(parsed)}


def _names(parsed: dict[str, Any]) -> dict[str, Any]:
    names = {"client": "client_version", "server": "server_version", "client_api": "client_api_version",
             "server_api": "server_api_version", "runtimename": "runtime", "runtimeversion": "runtime_version",
             "runtimeapiversion": "api_version", "docker": "server_version"}  # fmt: skip
    return {new: parsed[old] for old, new in names.items() if old in parsed}


def tools(said: str) -> list[str]:
    plain = re.sub(r"\|.*", "", said)
    return [f for part in plain.split(";") for f in FORMATS if part.strip().startswith(f)]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_field_output(path: Path) -> None:
    text, expected = pair(path)
    seen: dict[str, Any] = {}
    known = tools(expected["tool"])
    assert known, f"no format for {expected['tool']}"
    for tool in known:
        seen |= view(tool, FORMATS[tool](text))
    for name, want in expected["facts"].items():
        if (path.name, name) in WRONG:
            continue
        assert name in seen, f"no such fact: {name}"
        assert same(seen[name], want), (name, seen[name], want)
