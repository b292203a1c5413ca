"""Where log lines of this host go: journal storage, files of syslog, forwarding to another machine."""

from __future__ import annotations

import re

from assay.facts.source import source
from assay.model import Fact, Files, Missing, Probe, RawFact, Stat

_RSYSLOG = re.compile(
    r"^[^#\n]*(?:\s@{1,2}[\w\[(]|\btype\s*=\s*\"om(?:fwd|relp|kafka|elasticsearch|http)\"|:om(?:relp|kafka):)",
    re.MULTILINE | re.IGNORECASE,
)
_SYSLOG_NG = re.compile(
    r"^[ \t]*destination\s+\w+\s*\{[^}]*\b(?:network|syslog|tcp|udp|loki|kafka|elasticsearch-http|http)\s*\(",
    re.MULTILINE,
)
_UPLOAD = re.compile(r"^[ \t]*URL\s*=\s*\S", re.MULTILINE)
_STORAGE = re.compile(r"^[ \t]*Storage\s*=\s*(\w+)", re.MULTILINE | re.IGNORECASE)
_RETENTION = re.compile(r"^[ \t]*MaxRetentionSec\s*=\s*(\S.*?)\s*$", re.MULTILINE)


class LogPipeline(Fact, frozen=True):
    """`storage` = journald's setting; `persistent` = the journal survives a reboot (None: no journald here).

    `forwards` = programs configured to send log lines to another machine; `files` = local syslog files of the kernel.
    """

    storage: str = ""
    persistent: bool | None = None
    retention: str = ""
    forwards: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@source(
    Probe(
        "monitoring.logs",
        (
            Files("journald", ("/etc/systemd/journald.conf", "/etc/systemd/journald.conf.d/*.conf"), cap=1 << 14),
            Files("rsyslog", ("/etc/rsyslog.conf", "/etc/rsyslog.d/*.conf"), cap=1 << 15, limit=64),
            Files(
                "syslog_ng", ("/etc/syslog-ng/syslog-ng.conf", "/etc/syslog-ng/conf.d/*.conf"), cap=1 << 15, limit=64
            ),
            Files("upload", ("/etc/systemd/journal-upload.conf",), cap=1 << 14),
            Stat("journal", ("/var/log/journal", "/run/log/journal", "/run/systemd/journal")),
            Stat("files", ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")),
        ),
    ),
    sees_missing=True,
)
def log_pipeline(raw: RawFact) -> LogPipeline | Missing:
    """Drop-ins of journald are read in order, the last one wins, as systemd does."""
    if not any(read.files for read in raw.reads):
        return Missing("absent", "no journald and no syslog configuration here")
    settings = "\n".join(
        text for _, text in sorted(raw.files("journald").items(), key=lambda f: (f[0].count("/"), f[0]))
    )
    storage = (_STORAGE.findall(settings) or ["auto"])[-1].lower()
    upload = "systemd-journal-upload" if any(map(_UPLOAD.search, raw.files("upload").values())) else ""
    rsyslog = "rsyslogd" if any(map(_RSYSLOG.search, raw.files("rsyslog").values())) else ""
    syslog_ng = "syslog-ng" if any(map(_SYSLOG_NG.search, raw.files("syslog_ng").values())) else ""
    return LogPipeline(
        storage=storage,
        persistent=_persistent(storage, set(raw.files("journal"))),
        retention=(_RETENTION.findall(settings) or [""])[-1],
        forwards=tuple(name for name in (rsyslog, syslog_ng, upload) if name),
        files=tuple(sorted(raw.files("files"))),
    )


def _persistent(storage: str, directories: set[str]) -> bool | None:
    if "/run/systemd/journal" not in directories:
        return None
    if storage in {"persistent", "volatile", "none"}:
        return storage == "persistent"
    return "/var/log/journal" in directories
