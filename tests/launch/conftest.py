"""A fake `ssh` whose behaviour is chosen by the node's name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SSH = r"""#!/bin/sh
for last; do destination=$command; command=$last; done
node=${destination#*@}
echo "$node $$ $*" >> "$(dirname "$0")/calls"
case $node in
  ok*) exec sh -c "$command" ;;
  banner)
    printf 'Welcome to the cluster\nno newline at the end: '; echo 'known hosts added' >&2
    exec sh -c "$command" ;;
  garbage) printf '@assay {broken\n@assay {"probe":"not.asked","reads":[]}\n@assay []\n'; exec sh -c "$command" ;;
  partial) sh -c "$command" | head -n 2; exit 1 ;;
  stops) sh -c "$command" | head -n 2; exec sleep 60 ;;
  hangs) exec sleep 60 ;;
  stubborn) trap '' TERM INT HUP; while :; do sleep 60; done ;;
  floods) exec yes 'motd motd motd' ;;
  refused*) echo "ssh: connect to host $node port 22: Connection refused" >&2; exit 255 ;;
  unknown) echo "ssh: Could not resolve hostname $node: Name or service not known" >&2; exit 255 ;;
  login) echo "me@$node: Permission denied (publickey,password)." >&2; exit 255 ;;
  hostkey)
    echo "No ED25519 host key is known for $node and you have requested strict checking." >&2
    echo 'Host key verification failed.' >&2; exit 255 ;;
  changed)
    printf '@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n@@@@\n' >&2
    echo 'Host key verification failed.' >&2; exit 255 ;;
  nopython) echo 'bash: line 1: python3: command not found' >&2; exit 127 ;;
  oldpython) echo '  File "<stdin>", line 3' >&2; echo 'SyntaxError: invalid syntax' >&2; exit 1 ;;
  sudo) echo 'sudo: a password is required' >&2; exit 1 ;;
  slurm)
    echo 'Access denied by pam_slurm_adopt: you have no active jobs on this node' >&2
    echo 'Connection closed by 192.0.2.1 port 22' >&2; exit 255 ;;
  nologin) echo 'This account is currently not available.'; exit 1 ;;
  odd) printf '\377\000 what\n' >&2; exit 42 ;;
  killed) kill -KILL $$ ;;
esac
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the fake ssh notes its calls: node, pid, arguments."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ssh").write_text(SSH)
    (directory / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory / "calls"
