"""Secrets are replaced where they are read: nothing here may let one leave the node, or destroy an ordinary fact."""

import re

MARK = "<redacted>"
_SIMPLE = re.compile(
    r"((?:[\w.-]{0,64}(?:passw|secret|api_?key|access_?key|private_?key)[\w.-]{0,64})[\"']?\s*[=:]\s*[\"']?)([^\s\"',;<>\0]+)",
    re.I,
)


def redact(text: str) -> str:
    """`text` without the secrets it holds."""
    return _SIMPLE.sub(lambda m: m.group(1) + MARK, text)


def secret_name(name: str) -> bool:
    """True when a variable of this name holds a secret."""
    return bool(re.search(r"TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|PRIVATE", name, re.I))
