"""One table of exit codes for every verb, and how errors are told."""

from __future__ import annotations

OK = 0
FINDINGS = 1
ERROR = 2
NO_VERDICT = 3
INTERRUPTED = 130

TABLE = """\
Exit codes, the same for every verb:
  0    nothing at or above --fail-on
  1    findings at or above --fail-on
  2    usage, configuration or our own error
  3    no verdict: a required check unknown or denied, or too little evidence
  130  interrupted; the same command goes on where it stopped"""
