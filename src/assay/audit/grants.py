"""What was refused for want of root, so that the provider can be asked for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from assay.audit.judgement import Grant
from assay.checks.registry import Check
from assay.facts.source import Source
from assay.model import Finding, Probe, RawFact

_SHOWN = 8


def refused(probe: Probe, raw: RawFact) -> tuple[str, ...]:
    """Paths and commands of a probe that one node denied."""
    paths = [path for read in raw.reads for path, error in read.errors.items() if error in ("EACCES", "EPERM")]
    commands = [" ".join(read.argv) for read in raw.reads if read.state == "denied" and read.argv]
    return tuple(sorted({*paths, *commands})) if probe.root else ()


def grants(
    by_probe: Mapping[str, Mapping[str, tuple[str, ...]]],
    findings: Iterable[Finding],
    known: Mapping[str, Check],
    sources: Mapping[str, Source],
    fold: Callable[[list[str]], str],
) -> tuple[Grant, ...]:
    """One entry per probe: from reads that were denied, and from rules that say so of what a tool printed."""
    asked = {
        probe: Grant(probe, sources[probe].probe.root, fold(list(nodes)), next(iter(nodes.values()))[:_SHOWN])
        for probe, nodes in by_probe.items()
    }
    for finding in findings:
        if finding.reason == "denied":
            for name, source in sources.items():
                if source.probe.root and source.fact in known[finding.check].needs and name not in asked:
                    asked[name] = Grant(name, source.probe.root, finding.subject, (finding.message,))
    return tuple(asked[name] for name in sorted(asked))
