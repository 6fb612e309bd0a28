"""A run as JUnit XML. Pure; the same run gives the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, PASS
from vibe_gate.report import queries, sentences
from vibe_gate.report.criterion_words import is_blocking


def render_junit(summary: Summary) -> str:
    """The report as XML with a final newline."""
    suites = [_suite("verdict", [_verdict_case(summary)])]
    for rubric in summary.rubrics:
        cases = []
        for criterion in rubric.criteria:
            cases.append(_criterion_case(criterion, rubric, summary))
        suites.append(_suite(rubric.id, cases))
    seconds = f"{summary.duration_ms / 1000:.3f}"
    root = ElementTree.Element("testsuites", name="vibe-gate", time=seconds)
    for name in ("tests", "failures", "errors"):
        total = sum(int(suite.get(name, "0")) for suite in suites)
        root.set(name, str(total))
    root.extend(suites)
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(name: str, cases: Sequence[ElementTree.Element]) -> ElementTree.Element:
    """A suite of these cases, with how many failed, broke and were skipped."""
    kinds = Counter[str]()
    for case in cases:
        kinds.update(child.tag for child in case)
        case.set("classname", f"vibe-gate.{safe(name)}")
    suite = ElementTree.Element("testsuite", name=safe(name), tests=str(len(cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(kinds[kind]))
    suite.extend(cases)
    return suite


def _testcase(
    name: str, kind: str = "", type_: str = "", message: str = "", details: str = ""
) -> ElementTree.Element:
    """A case; `kind`: the element that says why it did not pass, "" of one that did."""
    case = ElementTree.Element("testcase", name=safe(name))
    if kind:
        result = ElementTree.SubElement(case, kind, type=safe(type_), message=safe(message))
        result.text = "\n".join(map(safe, details.split("\n")))
    return case


def _verdict_case(summary: Summary) -> ElementTree.Element:
    """The run as a case, with the findings that no other case has."""
    headline = sentences.verdict_headline(summary)
    findings = _findings_of_no_criterion(summary)
    if summary.exit_code == FAIL:
        blocking_findings = _blocking_findings(summary)
        other_findings = [finding for finding in findings if finding not in blocking_findings]
        findings = [*blocking_findings, *other_findings]
    lines = list(map(sentences.finding_line, findings))
    if summary.exit_code == PASS:
        case = _testcase("verdict")
        output = "\n".join(map(safe, [headline, *lines]))
        ElementTree.SubElement(case, "system-out").text = output
        return case
    kind = "error"
    if summary.exit_code == FAIL:
        kind = "failure"
    return _testcase("verdict", kind, summary.outcome, headline, "\n".join(lines))


def _blocking_findings(summary: Summary) -> list[Finding]:
    """The findings for which the run fails, the worst first; if the score alone fails it, those of
    the criteria that lost it.
    """
    findings = queries.worst_first(summary.findings, summary)
    failures = [finding for finding in findings if finding.level == "failure"]
    if failures:
        return failures
    blocking_findings: dict[Finding, None] = {}
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            if not is_blocking(criterion, rubric):
                continue
            for finding in findings:
                if finding.level == "warning" and finding.is_of(rubric.id, criterion.id):
                    blocking_findings[finding] = None
    return list(blocking_findings)


def _findings_of_no_criterion(summary: Summary) -> list[Finding]:
    """The findings about the change as a whole, and those of criteria that no rubric has."""
    criterion_ids = {criterion.id for criterion in summary.criteria}
    findings = []
    for finding in summary.findings:
        if not finding.path or finding.criterion not in criterion_ids:
            findings.append(finding)
    return findings


def _criterion_case(
    criterion: CriterionResult, rubric: RubricResult, summary: Summary
) -> ElementTree.Element:
    findings = []
    for item in summary.findings:
        if item.is_of(rubric.id, criterion.id):
            findings.append(item)
    kind, type_ = _case_kind(criterion, rubric, findings)
    lines = list(map(sentences.finding_line, findings))
    case = _testcase(criterion.id, kind, type_, criterion.reason, "\n".join(lines))
    output = []
    if not kind:  # raised and refuted
        output += "\n".join(lines).split("\n")
    output.append(sentences.criterion_badge(criterion))
    text = "\n".join(map(safe, filter(None, output)))
    if text:
        ElementTree.SubElement(case, "system-out").text = text
    return case


def _case_kind(
    criterion: CriterionResult, rubric: RubricResult, findings: Sequence[Finding]
) -> tuple[str, str]:
    """The element that a case has, and its type; "" and "" of one that passed."""
    if criterion.outcome == "pass":
        return "", ""
    if criterion.outcome == "not_applicable":
        return "skipped", "not applicable"
    if queries.is_waived(rubric.id, criterion.id, findings):
        return "skipped", "let pass"
    if criterion.would_block is True:
        return "skipped", "would have blocked"
    levels = {finding.level for finding in findings}
    if criterion.outcome == "fail" and levels and "failure" not in levels:
        return "skipped", "warning"
    if rubric.outcome == "pass":
        return "skipped", "advisory"
    if criterion.outcome == "fail":
        return "failure", "fail"
    return "error", criterion.outcome
