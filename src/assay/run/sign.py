"""Signatures over a run's head with the system's ssh-keygen (`-Y`), namespace `assay`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from assay.errors import StoreError
from assay.run.chain import head, seal

_NAMESPACE = "assay"
_TIMEOUT_S = 60


def sign(run: Path, key: Path) -> Path:
    """Seal the run and sign its head with an SSH private key; returns the signature's path."""
    (run / "head").write_text(seal(run) + "\n", encoding="ascii")
    signature = run / "head.sig"
    signature.unlink(missing_ok=True)
    _ssh_keygen(["-Y", "sign", "-q", "-f", str(key), "-n", _NAMESPACE, str(run / "head")])
    return signature


def check_signature(run: Path, signers: Path, identity: str) -> str:
    """Check the signature of `identity` (see allowed_signers) over the present head; returns ssh-keygen's words."""
    signed = (run / "head").read_text(encoding="ascii").strip() if (run / "head").exists() else ""
    if not (run / "head.sig").exists():
        raise StoreError(f"{run.name} is not signed", hint=f"assay runs sign {run.name} --key KEY")
    if signed != head(run):
        raise StoreError(f"{run.name} was signed at another head; records were added since", hint="sign it again")
    arguments = ["-Y", "verify", "-f", str(signers), "-I", identity, "-n", _NAMESPACE, "-s", str(run / "head.sig")]
    return _ssh_keygen(arguments, (run / "head").read_bytes())


def _ssh_keygen(arguments: list[str], stdin: bytes = b"") -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments], input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise StoreError(f"ssh-keygen cannot be used: {e}", hint="install openssh-client") from e
    if done.returncode:
        raise StoreError(f"ssh-keygen: {(done.stderr or done.stdout).decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace").strip()
