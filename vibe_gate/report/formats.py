"""A run for other programs: SARIF 2.1.0, JUnit XML, GitLab Code Quality. Pure; the same run gives
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from msgspec import UNSET

from vibe_gate.domain import paths
from vibe_gate.domain.escape import ended, safe
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.errors import FAIL, PASS, POLICY_CHANGED
from vibe_gate.report import queries, sentences
from vibe_gate.report.annotations import forge_path
from vibe_gate.report.links import Links
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.version import __version__

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

MAX_RESULTS = 5_000
"""Of a run; GitHub shows no more."""

MAX_NOTIFICATIONS = 1_000
"""Sentences about what was not reviewed: enough to see which part of a change it was."""

ROOT = "%SRCROOT%"
"""What code scanning calls the root of the repository."""

_LEVELS = {"failure": "error", "warning": "warning", "notice": "note"}
_POLICY_RULE = "Changes of the gate itself, and of what steers agents, diffs or test runs."


def render_sarif(summary: Summary, links: Links | None = None) -> str:
    """The log as indented JSON with a final newline: the gravest `MAX_RESULTS`, and how many there
    are besides.
    """
    placed = queries.worst_first([finding for finding in summary.findings if finding.path], summary)
    rules = _rules(summary)
    index = {name: number for number, name in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "vibe-gate",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": list(rules.values()),
            }
        },
        "automationDetails": {"id": f"vibe-gate/{safe(summary.workflow)}/{safe(summary.run_id)}"},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(summary, len(placed) - MAX_RESULTS)],
        "results": [_result(finding, index, summary) for finding in placed[:MAX_RESULTS]],
        "properties": {
            "outcome": summary.outcome,
            "exitCode": summary.exit_code,
            "key": safe(summary.key),
            "costUsd": summary.cost.usd,
            "costBasis": summary.cost.basis,
        },
    }
    if links is not None and summary.change.head_commit:
        server = f"{links.server.rstrip('/')}/{quote(links.repository, safe='/')}"
        provenance = {"repositoryUri": server, "revisionId": safe(summary.change.head_commit)}
        run["versionControlProvenance"] = [{**provenance, "mappedTo": {"uriBaseId": ROOT}}]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rules(summary: Summary) -> dict[str, dict[str, Any]]:
    rules: dict[str, dict[str, Any]] = {}
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            rules.setdefault(_id(criterion.id), _rule(criterion, rubric.id))
    for finding in summary.findings:
        name = _id(finding.criterion)
        told = _POLICY_RULE if name == "policy" else f"Criterion {name}."
        rules.setdefault(name, _described(name, told, "warning", "policy"))
    return rules


def _rule(criterion: CriterionResult, rubric: str) -> dict[str, Any]:
    how = (
        "A model judges it, with evidence"
        if criterion.kind == "judge"
        else "Deterministic code checks it"
    )
    binds = "it blocks whatever the score" if criterion.must else "it counts towards the score"
    advises = criterion.trust is not UNSET and not criterion.trust.blocks
    binds = "its fail only advises" if advises else binds
    known = (
        f" {_plain(ended(sentences.criterion_badge(criterion)))}"
        if criterion.trust is not UNSET
        else ""
    )
    text = f"Criterion {_id(criterion.id)} of the rubric {safe(rubric)}. {how}; {binds}.{known}"
    level = "error" if criterion.must and not advises else "warning"
    return _described(_id(criterion.id), text, level, criterion.kind)


def _described(name: str, text: str, level: str, kind: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": name},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": [kind]},
    }


def _id(criterion: str) -> str:
    return safe(criterion) or "unnamed"


def _result(finding: Finding, rules: Mapping[str, int], summary: Summary) -> dict[str, Any]:
    name = finding_identity(finding)
    said, against = (
        _plain(sentences.located_message(finding)),
        queries.counterexample_of(finding, summary),
    )
    result: dict[str, Any] = {
        "ruleId": _id(finding.criterion),
        "level": _LEVELS[finding.level],
        "message": {
            "text": f"{ended(said)} Counterexample: {_plain(against)}" if against else said
        },
        "locations": [_location(finding, has_lines=not queries.is_removed(finding))],
        "partialFingerprints": {"vibeGateFinding/v1": name, "primaryLocationLineHash": f"{name}:1"},
        "ruleIndex": rules[_id(finding.criterion)],
    }
    if known := queries.finding_basis(finding, summary):
        proof = finding.proof
        run = (
            {"proof": proof.status, "test": safe(proof.path), "repeat": safe(proof.command)}
            if proof
            else {}
        )
        result["properties"] = {"basis": known, **run}
    if waived := queries.waiver_sentence(finding):
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": _plain(waived)}
        ]
    return result


def _plain(text: str) -> str:
    """Text in which a viewer finds no embedded link (SARIF 3.11.6)."""
    return safe(text).replace("](", "] (")


def _location(of: Finding | Unreviewed, *, has_lines: bool = True) -> dict[str, Any]:
    uri = quote(paths.encode(paths.unquote(of.path)), safe="/")
    location: dict[str, Any] = {"artifactLocation": {"uri": uri, "uriBaseId": ROOT}}
    if of.line and has_lines:
        location["region"] = {"startLine": of.line, "endLine": max(of.line, of.end_line)}
    return {"physicalLocation": location}


def _invocation(summary: Summary, left_out: int) -> dict[str, Any]:
    return {
        "executionSuccessful": summary.exit_code in (PASS, FAIL, POLICY_CHANGED),
        "exitCode": summary.exit_code,
        "exitCodeDescription": safe(sentences.verdict_headline(summary)),
        "toolExecutionNotifications": list(_notifications(summary, left_out)),
    }


def _notifications(summary: Summary, left_out: int) -> Iterable[dict[str, Any]]:
    if left_out > 0:
        text = f"{left_out:,} more results are left out: code scanning shows no more."
        yield _notification("left-out", "error", text)
    for finding in summary.findings:
        if not finding.path:
            yield _notification(
                _id(finding.criterion),
                _LEVELS[finding.level],
                _plain(sentences.located_message(finding)),
            )
    missed = queries.missed_places(summary)
    for one in missed[:MAX_NOTIFICATIONS]:
        made = _notification("unreviewed", "warning", f"No judge saw this: {_plain(one.reason)}")
        yield made | ({"locations": [_location(one)]} if one.path else {})
    more = len(missed) - MAX_NOTIFICATIONS
    if more > 0:
        yield _notification("unreviewed", "warning", f"{more:,} more places that no judge saw.")


def _notification(name: str, level: str, text: str) -> dict[str, Any]:
    return {"descriptor": {"id": name}, "level": level, "message": {"text": text}}


def render_junit(summary: Summary) -> str:
    """The report as XML with a final newline."""
    suites = [_suite("verdict", [_verdict_case(summary)])]
    for rubric in summary.rubrics:
        suites.append(_suite(rubric.id, [_case(one, rubric, summary) for one in rubric.criteria]))
    root = ElementTree.Element(
        "testsuites", name="vibe-gate", time=f"{summary.duration_ms / 1000:.3f}"
    )
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(name: str, cases: Sequence[ElementTree.Element]) -> ElementTree.Element:
    kinds = Counter(child.tag for case in cases for child in case)
    suite = ElementTree.Element("testsuite", name=safe(name), tests=str(len(cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(kinds[kind]))
    for case in cases:
        case.set("classname", f"vibe-gate.{safe(name)}")
    suite.extend(cases)
    return suite


def _testcase(
    name: str, kind: str = "", type_: str = "", message: str = "", details: str = ""
) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name=safe(name))
    if kind:
        said = ElementTree.SubElement(case, kind, type=safe(type_), message=safe(message))
        said.text = "\n".join(map(safe, details.split("\n")))
    return case


def _verdict_case(summary: Summary) -> ElementTree.Element:
    said = sentences.verdict_headline(summary)
    if summary.exit_code == PASS:
        case = _testcase("verdict")
        ElementTree.SubElement(case, "system-out").text = safe(said)
        return case
    whole = "\n".join(
        sentences.finding_line(finding) for finding in summary.findings if not finding.path
    )
    return _testcase(
        "verdict", "failure" if summary.exit_code == FAIL else "error", summary.outcome, said, whole
    )


def _case(one: CriterionResult, rubric: RubricResult, summary: Summary) -> ElementTree.Element:
    own = [finding for finding in summary.findings if finding.is_of(rubric.id, one.id)]
    kind, type_ = _kind(one, rubric, own)
    details = "\n".join(sentences.finding_line(finding) for finding in own)
    case = _testcase(one.id, kind, type_, one.reason, details)
    told = [
        *(details.split("\n") if own and not kind else ()),
        sentences.criterion_badge(one),
    ]  # raised and refuted
    if any(told):
        ElementTree.SubElement(case, "system-out").text = "\n".join(map(safe, filter(None, told)))
    return case


def _kind(one: CriterionResult, rubric: RubricResult, own: Sequence[Finding]) -> tuple[str, str]:
    """The element that a case has, and its type; "" and "" of one that passed."""
    if one.outcome == "pass":
        return "", ""
    if one.outcome == "not_applicable":
        return "skipped", "not applicable"
    if queries.is_waived(rubric.id, one.id, own):
        return "skipped", "let pass"
    if one.would_block is True:
        return "skipped", "would have blocked"
    if one.outcome == "fail" and own and all(finding.level != "failure" for finding in own):
        return "skipped", "warning"
    if rubric.outcome == "pass":
        return "skipped", "advisory"
    return ("failure", "fail") if one.outcome == "fail" else ("error", one.outcome)


_SEVERITIES = {"failure": "critical", "warning": "minor", "notice": "info"}

_ROOT = "."
"""The path of what is about the change as a whole; GitLab wants one."""


def render_code_quality(summary: Summary) -> str:
    """The report as indented JSON with a final newline.

    A run that did not pass has an entry of its own: without one, a run that could not
    be carried out would look like one that found nothing.
    """
    made = [_gitlab_finding(finding) for finding in summary.findings]
    if summary.exit_code != PASS:
        name = hashlib.sha256(f"verdict\0{summary.exit_code}".encode()).hexdigest()[:16]
        made.insert(
            0, _gitlab_entry(safe(sentences.verdict_headline(summary)), "verdict", name, "blocker")
        )
    unique = {entry["fingerprint"]: entry for entry in reversed(made)}
    return json.dumps(list(unique.values())[::-1], indent=1) + "\n"


def _gitlab_finding(finding: Finding) -> dict[str, Any]:
    path = (forge_path(finding.path) or safe(finding.path)).lstrip("/") or _ROOT
    name, severity, lines = (
        safe(finding.criterion),
        _SEVERITIES[finding.level],
        queries.lines_after(finding),
    )
    return _gitlab_entry(
        sentences.located_message(finding), name, finding_identity(finding), severity, path, lines
    )


def _gitlab_entry(
    text: str,
    name: str,
    fingerprint: str,
    severity: str,
    path: str = _ROOT,
    lines: tuple[int, int] = (1, 1),
) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": name,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": lines[0], "end": lines[1]}},
    }
