"""A run as SARIF 2.1.0. Pure; the same run gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType

from vibe_gate.domain import paths
from vibe_gate.domain.escape import end_sentence, list_names, safe
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Finding,
    FindingPlace,
    Proof,
    short,
)
from vibe_gate.errors import FAIL, PASS, POLICY_CHANGED
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.links import Links
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.version import __version__

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

MAX_RESULTS = 5_000
"""Of a run; GitHub shows no more."""

MAX_RELATED = 100
"""Related locations of a result; GitHub shows no more locations of one."""

MAX_NOTIFICATIONS = 1_000
"""Sentences about what was not reviewed: enough to see which part of a change it was."""

ROOT = "%SRCROOT%"
"""What code scanning calls the root of the repository."""

_SARIF_LEVELS = {"failure": "error", "warning": "warning", "notice": "note"}
_RULES_WITHOUT_RUBRIC = {
    "policy": "Changes of the gate itself, and of what steers agents, diffs or test runs.",
    "addressed": "Text of the change that speaks to its reviewer.",
}
"""Criteria that no rubric has."""


def render_sarif(summary: Summary, links: Links | None = None) -> str:
    """The log as indented JSON with a final newline: the gravest `MAX_RESULTS`, and how many there
    are besides.
    """
    with_path = [finding for finding in summary.findings if finding.path]
    findings = queries.worst_first(with_path, summary)
    rules = _rules(summary)
    rule_indexes = {name: number for number, name in enumerate(rules)}
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
        "invocations": [_invocation(summary, len(findings) - MAX_RESULTS)],
        "results": [_result(item, rule_indexes, summary) for item in findings[:MAX_RESULTS]],
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
    """The rules that results may have, by id."""
    rules: dict[str, dict[str, Any]] = {}
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            rules.setdefault(_rule_id(criterion.id), _rule(criterion, rubric.id))
    for finding in summary.findings:
        name = _rule_id(finding.criterion)
        text = _RULES_WITHOUT_RUBRIC.get(name, f"Criterion {name}.")
        rules.setdefault(name, _described_rule(name, text, "warning", "policy"))
    return rules


def _rule(criterion: CriterionResult, rubric: str) -> dict[str, Any]:
    """A criterion as a rule: who decides it, what it counts for, what is known of its judge."""
    name = _rule_id(criterion.id)
    decider = "Deterministic code checks it"
    if criterion.kind == "judge":
        decider = "A model judges it, with evidence"
    is_advice = criterion.trust is not UNSET and not criterion.trust.blocks
    effect, level = "it counts towards the score", "warning"
    if is_advice:
        effect = "its fail only advises"
    elif criterion.must:
        effect, level = "it blocks whatever the score", "error"
    text = f"Criterion {name} of the rubric {safe(rubric)}. {decider}; {effect}."
    if criterion.trust is not UNSET:
        text += f" {_plain_text(end_sentence(sentences.criterion_badge(criterion)))}"
    return _described_rule(name, text, level, criterion.kind)


def _described_rule(name: str, text: str, level: str, kind: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": name},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": [kind]},
    }


def _rule_id(criterion: str) -> str:
    return safe(criterion) or "unnamed"


def _result(finding: Finding, rule_indexes: Mapping[str, int], summary: Summary) -> dict[str, Any]:
    name = finding_identity(finding)
    rule = _rule_id(finding.criterion)
    related_locations = _related_locations(finding)
    result: dict[str, Any] = {
        "ruleId": rule,
        "level": _SARIF_LEVELS[finding.level],
        "message": {"text": _result_message(finding, related_locations, summary)},
        "locations": [_location(finding, has_lines=not finding_places.is_removed(finding))],
        "partialFingerprints": {"vibeGateFinding/v1": name, "primaryLocationLineHash": f"{name}:1"},
        "ruleIndex": rule_indexes[rule],
    }
    if related_locations:
        result["relatedLocations"] = [related.location for related in related_locations]
    properties = _result_properties(finding, summary)
    if properties:
        result["properties"] = properties
    waiver = queries.waiver_text(finding)
    if waiver:
        suppression = {"kind": "external", "status": "accepted"}
        result["suppressions"] = [suppression | {"justification": _plain_text(waiver)}]
    return result


def _result_message(
    finding: Finding, related_locations: Sequence[_RelatedLocation], summary: Summary
) -> str:
    """What the finding says, with links to the related locations, and its counterexample."""
    sentence = sentences.removed_place_words(finding) + sentences.finding_sentence(finding)
    message = _plain_text(sentence) or "(no message)"
    for words in _RELATIONS:
        links = [related.link for related in related_locations if related.words == words]
        if links:
            named_links = list_names(links, finding_places.MAX_NAMED_PLACES)
            message = f"{end_sentence(message)} {words} {named_links}"
    counterexample = queries.counterexample_of(finding, summary)
    if counterexample:
        example = _plain_text(short(counterexample, sentences.MAX_COUNTEREXAMPLE))
        message = f"{end_sentence(message)} Counterexample: {example}"
    return message


class _RelatedLocation(Struct, frozen=True):
    """A location besides the one where a result is shown."""

    id: int
    """Unique in its result."""

    words: str
    """One of `_RELATIONS`."""

    place_words: str
    """The place, for people."""

    location: dict[str, Any]

    @property
    def link(self) -> str:
        """An embedded link (SARIF 3.11.6), which code scanning shows as one."""
        return f"[{_link_text(self.place_words)}]({self.id})"


_ALSO, _DECIDED = "Also at", "Decided by"
_RELATIONS = (_ALSO, _DECIDED)
"""What a related location is to its result."""


def _related_locations(finding: Finding) -> list[_RelatedLocation]:
    """Its further places, then the quoted lines that decide it."""
    related_locations: list[_RelatedLocation] = []
    for place in finding_places.quoted_places(finding)[1:MAX_RELATED]:
        location = _location(place.place, has_lines=not place.is_removed)
        quotes = [line.quote for line in place.lines]
        related = _relate(len(related_locations) + 1, _ALSO, place.place, location, quotes)
        related_locations.append(related)
    for line in finding_places.deciding_lines(finding):
        location = _location(line, has_lines=line.side == "after")
        related = _relate(len(related_locations) + 1, _DECIDED, line, location, [line.quote])
        related_locations.append(related)
    return related_locations[:MAX_RELATED]


def _relate(
    id: int,
    words: str,
    place: FindingPlace | CheckedEvidence,
    location: dict[str, Any],
    quotes: Sequence[str],
) -> _RelatedLocation:
    place_words = sentences.place_words_of(place)
    text = f"{words} {place_words}"
    if quotes:
        text += f": {quotes[0].strip()}"
    message = {"text": _plain_text(text)}
    return _RelatedLocation(id, words, place_words, {"id": id, "message": message} | location)


def _link_text(text: str) -> str:
    """Text inside the brackets of an embedded link."""
    escaped_text = safe(text).replace("\\", "\\\\")
    return escaped_text.replace("[", "\\[").replace("]", "\\]")


def _result_properties(finding: Finding, summary: Summary) -> dict[str, str]:
    """How a judge's finding is known, what came of its test, and why it is only a remark."""
    properties = {}
    basis = queries.finding_basis(finding)
    if basis:
        properties["basis"] = basis
        properties |= _proof_properties(finding.proof)
    if finding.remark is not UNSET:
        properties["remark"] = finding.remark
    return properties


def _proof_properties(proof: Proof | UnsetType) -> dict[str, str]:
    if proof is UNSET:
        return {}
    return {"proof": proof.status, "test": safe(proof.path), "repeat": safe(proof.command)}


def _plain_text(text: str) -> str:
    """Text in which a viewer finds no embedded link (SARIF 3.11.6)."""
    return safe(text).replace("](", "] (")


def _location(
    place: Finding | FindingPlace | CheckedEvidence | Unreviewed, *, has_lines: bool = True
) -> dict[str, Any]:
    uri = quote(paths.encode(paths.unquote(place.path)), safe="/")
    location: dict[str, Any] = {"artifactLocation": {"uri": uri, "uriBaseId": ROOT}}
    if place.line and has_lines:
        last = max(place.line, place.end_line)
        location["region"] = {"startLine": place.line, "endLine": last}
    return {"physicalLocation": location}


def _invocation(summary: Summary, omitted: int) -> dict[str, Any]:
    return {
        "executionSuccessful": summary.exit_code in (PASS, FAIL, POLICY_CHANGED),
        "exitCode": summary.exit_code,
        "exitCodeDescription": safe(sentences.verdict_headline(summary)),
        "toolExecutionNotifications": list(_notifications(summary, omitted)),
    }


def _notifications(summary: Summary, omitted: int) -> Iterable[dict[str, Any]]:
    """How many results are left out, findings without a place, and what was not judged."""
    if omitted > 0:
        text = f"{omitted:,} more results are left out: code scanning shows no more."
        yield _notification("left-out", "error", text)
    for finding in summary.findings:
        if not finding.path:
            text = _plain_text(sentences.located_message(finding))
            level = _SARIF_LEVELS[finding.level]
            yield _notification(_rule_id(finding.criterion), level, text)
    places = queries.missed_places(summary)
    for place in places[:MAX_NOTIFICATIONS]:
        text = f"No judge saw this: {_plain_text(place.reason)}"
        notification = _notification("unreviewed", "warning", text)
        if place.path:
            notification["locations"] = [_location(place)]
        yield notification
    if len(places) > MAX_NOTIFICATIONS:
        text = f"{len(places) - MAX_NOTIFICATIONS:,} more places that no judge saw."
        yield _notification("unreviewed", "warning", text)


def _notification(name: str, level: str, text: str) -> dict[str, Any]:
    return {"descriptor": {"id": name}, "level": level, "message": {"text": text}}
