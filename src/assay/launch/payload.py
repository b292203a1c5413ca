"""The programs that are piped to `python3 -`: sources of assay.node and one call."""

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
    return _program((*MODULES, "framed"), "framed", request) if framed else _program(MODULES, "collector", request)


def relay(argv: Sequence[str], data: bytes, cancel: Sequence[str], deadline_s: float) -> bytes:
    """Python source for a login node that runs argv with `data` as its input and leaves no job behind."""
    request = {"argv": list(argv), "cancel": list(cancel), "deadline_s": deadline_s}
    return _program(_RELAY, "relay", request, packed(data))


def batch(**request: Any) -> bytes:
    """Python source for a login node that submits, follows or cancels a batch job."""
    return _program((*_RELAY, "batch"), "batch", request)


def packed(data: bytes) -> str:
    """Bytes as text without anything that Python or a shell would take for syntax."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _program(modules: Sequence[str], main: str, request: Any, *more: str) -> bytes:
    sources = tuple((f"assay.node.{name}", (files("assay.node") / f"{name}.py").read_text("utf-8")) for name in modules)
    arguments = ", ".join(ascii(text) for text in (msgspec.json.encode(request).decode(), *more))
    return f"SOURCES = {sources!a}\n{LOADER}sys.modules['assay.node.{main}'].main({arguments})\n".encode("ascii")
