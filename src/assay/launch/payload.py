"""The program that is piped to `python3 -` on a node: sources of assay.node and one call."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import msgspec

from assay.model import Probe

MODULES = ("redact", "files", "commands", "clock", "reader", "collector")
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


def payload(probes: Iterable[Probe], root: str = "", parallel: int = 4, deadline_s: float = 50.0) -> bytes:
    """Python source that answers `probes`; `root` prefixes file paths, `deadline_s` bounds the whole answer."""
    request = {"probes": list(probes), "root": root, "parallel": parallel, "deadline_s": deadline_s}
    sources = tuple((f"assay.node.{name}", (files("assay.node") / f"{name}.py").read_text("utf-8")) for name in MODULES)
    call = f"sys.modules['assay.node.collector'].main({msgspec.json.encode(request).decode()!a})\n"
    return f"SOURCES = {sources!a}\n{LOADER}{call}".encode("ascii")
