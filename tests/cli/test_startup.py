"""Start-up is part of the interface: --help imports no verb, and nothing heavy."""

import subprocess
import sys

HEAVY = (
    "jinja2",
    "sqlite3",
    "asyncio",
    "ClusterShell",
    "assay.facts",
    "assay.checks",
    "assay.audit",
    "rich",
    "msgspec",
)


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from assay.cli.main import run
try:
    run(["--help"])
except SystemExit as e:
    assert e.code == 0
print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "audit" in done.stdout
