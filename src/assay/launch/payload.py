"""The programs that are piped to `python3 -`: sources of assay.node or assay.workloads, and one call."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from assay.model import Probe

MODULES = ("redact", "files", "commands", "clock", "reader", "collector")
_RELAY = ("files", "commands", "relay")
LOADER = """\
import sys, types
sys.dont_write_bytecode = True
for name, source in SOURCES:
    module = sys.modules[name] = types.ModuleType(name)
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except ImportError:  # a small Python without ctypes: only what needs it goes without
        del sys.modules[name]
"""


def payload(
    probes: Iterable[Probe], root: str = "", parallel: int = 4, deadline_s: float = 50.0, *, framed: bool = False
) -> bytes:
    """Python source that answers `probes`; `root` prefixes file paths, `deadline_s` bounds the whole answer.

    `framed` = in short labelled lines, for tasks whose output a scheduler mixes.
    """
    request = {"probes": list(probes), "root": root, "parallel": parallel, "deadline_s": deadline_s}
    modules = (*MODULES, "framed") if framed else MODULES
    return _program("node", modules, request)


def relay(argv: Sequence[str], data: bytes, cancel: Sequence[str], deadline_s: float, tidy_s: float = 0.0) -> bytes:
    """Python source for a login node that runs argv with `data` as its input and leaves no job behind."""
    request = {"argv": list(argv), "cancel": list(cancel), "deadline_s": deadline_s, "tidy_s": tidy_s}
    return _program("node", _RELAY, request, packed(data))


def batch(**request: Any) -> bytes:
    """Python source for a login node that submits, follows or cancels a batch job."""
    return _program("node", (*_RELAY, "batch"), request)


def storage_pair(**request: Any) -> bytes:
    """Python source for two nodes that try directories together."""
    return _program("workloads", ("meeting", "storage_pair"), request)


def packed(data: bytes) -> str:
    """Bytes as text without anything that Python or a shell would take for syntax."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _program(package: str, modules: Sequence[str], request: Any, *more: str) -> bytes:
    """The sources, and a call of the last one's main."""
    folder = files(f"assay.{package}")
    sources = tuple((f"assay.{package}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in modules)
    arguments = ", ".join(ascii(text) for text in (msgspec.json.encode(request).decode(), *more))
    call = f"sys.modules['assay.{package}.{modules[-1]}'].main({arguments})"
    return f"SOURCES = {sources!a}\n{LOADER}{call}\n".encode("ascii")
