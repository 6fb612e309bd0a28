"""A run as a JUnit report: a suite for each rubric, a test case for each criterion. Pure.

A case fails only where the run does: a criterion that failed in a rubric that passed,
or that somebody let pass, is skipped with its reason. One case more is the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, PASS
from vibe_gate.report import words
from vibe_gate.report.text import safe

Kind = Literal["failure", "error", "skipped", ""]


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    kind: Kind = ""
    type: str = ""
    message: str = ""
    details: str = ""


def junit(summary: Summary) -> str:
    """The report as XML with a final newline."""
    suites = [("verdict", [_verdict(summary)])]
    suites += [(rubric.id, [_case(one, rubric, summary) for one in rubric.criteria]) for rubric in summary.rubrics]
    counts = Counter(case.kind for _, cases in suites for case in cases)
    total = sum(len(cases) for _, cases in suites)
    seconds = f"{summary.duration_ms / 1000:.3f}"
    head = (
        f'<testsuites name="vibe-gate" tests="{total}" failures="{counts["failure"]}" errors="{counts["error"]}" '
        f'time="{seconds}">'
    )
    body = [line for name, cases in suites for line in _suite(name, cases)]
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', head, *body, "</testsuites>")) + "\n"


def _suite(name: str, cases: Sequence[_Case]) -> list[str]:
    counts = Counter(case.kind for case in cases)
    numbers = f'failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
    lines = [f' <testsuite name="{_xml(name)}" tests="{len(cases)}" {numbers}>']
    for case in cases:
        opened = f'  <testcase name="{_xml(case.name)}" classname="vibe-gate.{_xml(name)}"'
        if not case.kind:
            lines.append(f"{opened}/>")
            continue
        said = f'<{case.kind} type="{_xml(case.type)}" message="{_xml(case.message)}"'
        lines += [f"{opened}>", f"   {said}>{_lines(case.details)}</{case.kind}>", "  </testcase>"]
    return [*lines, " </testsuite>"]


def _verdict(summary: Summary) -> _Case:
    said = f"{words.verdict(summary)}: {words.why(summary)}".removesuffix(": ")
    if summary.exit_code == PASS:
        return _Case("verdict")
    whole = "\n".join(_told(finding) for finding in summary.findings if not finding.path)
    return _Case("verdict", "failure" if summary.exit_code == FAIL else "error", summary.outcome, said, whole)


def _case(one: CriterionResult, rubric: RubricResult, summary: Summary) -> _Case:
    own = [finding for finding in summary.findings if finding.criterion == one.id]
    kind, type_ = _kind(one, rubric, own)
    return (
        _Case(one.id, kind, type_, one.reason, "\n".join(_told(finding) for finding in own)) if kind else _Case(one.id)
    )


def _kind(one: CriterionResult, rubric: RubricResult, own: Sequence[Finding]) -> tuple[Kind, str]:
    if one.outcome == "pass":
        return "", ""
    if one.outcome == "not_applicable":
        return "skipped", "not applicable"
    if words.is_waived(one.id, own):
        return "skipped", "let pass"
    if rubric.outcome == "pass":
        return "skipped", "advisory"
    return ("failure", "fail") if one.outcome == "fail" else ("error", one.outcome)


def _told(finding: Finding) -> str:
    return f"{finding.level} {words.place(finding.path, finding.line, finding.end_line)} {finding.message}"


def _lines(text: str) -> str:
    return "\n".join(_xml(line) for line in text.split("\n"))


def _xml(text: str) -> str:
    """Text in XML 1.0; characters that may not stand there are written out, as everything invisible is."""
    shown = safe(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace('"', "&quot;")
