"""The judgement as JUnit XML: one suite per category, one case per finding."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import datetime, timezone

from assay.audit.judgement import Judgement
from assay.model import CATEGORIES, Finding, Status
from assay.report.clean import clean


def render(judgement: Judgement) -> str:
    """An XML document. fail -> failure, unknown and error -> error, skip -> skipped, warn -> system-out."""
    suites = ET.Element("testsuites", name=f"assay {clean(judgement.target)}")
    for category in CATEGORIES:
        findings = [f for f in judgement.findings if f.category == category]
        if findings:
            suites.append(_suite(judgement, category, findings))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _suite(judgement: Judgement, category: str, findings: list[Finding]) -> ET.Element:
    suite = ET.Element(
        "testsuite",
        name=category,
        tests=str(len(findings)),
        failures=str(sum(f.status is Status.FAIL for f in findings)),
        errors=str(sum(f.status in (Status.UNKNOWN, Status.ERROR) for f in findings)),
        skipped=str(sum(f.status is Status.SKIP for f in findings)),
        timestamp=datetime.fromtimestamp(judgement.started, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S"),
    )
    suite.extend(_case(f) for f in findings)
    return suite


def _case(finding: Finding) -> ET.Element:
    case = ET.Element(
        "testcase", classname=f"assay.{finding.category}", name=f"{finding.check} [{clean(finding.subject)}]"
    )
    message = clean(finding.message)
    if finding.status is Status.FAIL:
        ET.SubElement(case, "failure", message=message, type=finding.severity).text = clean(finding.fix)
    elif finding.status in (Status.UNKNOWN, Status.ERROR):
        ET.SubElement(case, "error", message=message, type=finding.reason or finding.status.value)
    elif finding.status is Status.SKIP:
        ET.SubElement(case, "skipped", message=f"{message} ({finding.reason})")
    elif finding.status is Status.WARN:
        ET.SubElement(case, "system-out").text = f"warn: {message}"
    return case
