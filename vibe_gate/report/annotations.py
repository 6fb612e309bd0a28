"""The check run of a commit: its title, its conclusion, and findings as annotations. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import UNSET

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe, shorten_text
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding, short
from vibe_gate.errors import PASS, POLICY_CHANGED
from vibe_gate.forge import CheckAnnotation, CheckRun, Conclusion
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.comment import check_summary_blocks
from vibe_gate.report.comment_opening import claimed_verdict, deciding_facts
from vibe_gate.report.finding_places import QuotedPlace
from vibe_gate.report.markdown import fit_blocks
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import finding_identity
from vibe_gate.report.run_files import place_beside_comment

MAX_TEXT = 65_000
"""Bytes of summary and of text; GitHub takes 65,535 characters each."""

MAX_TITLE = 200
"""Characters of a title; GitHub cuts what it cannot show."""

MAX_ANNOTATIONS = 1_000
"""Of one check run: twenty requests, a quarter of what GitHub lets an app write in a minute. The
rest is counted.
"""


def make_check_run(
    report: Report, downgrades: Sequence[str] = (), at_lines: Collection[str] = ()
) -> CheckRun:
    """The check run of the reviewed commit: new and open findings as annotations, the gravest
    `MAX_ANNOTATIONS`.

    Not those that have a comment at their lines (`at_lines`, identities).
    """
    findings = []
    annotations = []
    annotated = set(at_lines)
    for finding in queries.worst_first(report.round.reportable, report.summary):
        if finding_identity(finding) in at_lines:
            continue
        findings.append(finding)
        annotation = annotate_finding(finding, report)
        if annotation is not None:
            annotations.append(annotation)
            annotated.add(finding_identity(finding))
    if len(annotations) > MAX_ANNOTATIONS:
        note = (
            f"Of {len(findings):,} findings, {MAX_ANNOTATIONS:,} are annotations: "
            "the gravest first."
        )
        downgrades = (*downgrades, note)
    blocks = check_summary_blocks(report, downgrades, annotated)
    return CheckRun(
        title=check_title(report),
        summary=fit_blocks(blocks, MAX_TEXT, {"": place_beside_comment(report)}),
        text="",
        conclusion=check_conclusion(report),
        annotations=tuple(annotations[:MAX_ANNOTATIONS]),
    )


def check_conclusion(report: Report) -> Conclusion:
    """What the forge is told: neutral of anything but a pass if that is not to block."""
    if report.summary.exit_code == PASS:
        return "success"
    if not report.blocks:
        return "neutral"
    if report.summary.exit_code == POLICY_CHANGED:
        return "action_required"
    return "failure"


def check_title(report: Report) -> str:
    """The verdict and what decided, as plain text on one line; the comment says the same."""
    title = safe(" · ".join([claimed_verdict(report), *deciding_facts(report)]))
    if not report.blocks and report.summary.exit_code != PASS:
        title = f"would have failed: {title}"
    return shorten_text(title, MAX_TITLE)


def annotate_finding(finding: Finding, report: Report) -> CheckAnnotation | None:
    """The finding at the first of its places that the forge can show; None without one: no file, a
    deleted one, or no path that is text.
    """
    summary = report.summary
    deleted = {file.path for file in summary.change.files if file.change_type == "deleted"}
    for place in finding_places.quoted_places(finding):
        path = forge_path(place.path)
        if not path or place.path in deleted:
            continue
        line, end_line = place.lines_after
        return CheckAnnotation(
            path=path,
            start_line=line,
            end_line=end_line,
            annotation_level=finding.level,
            message=_annotation_message(finding, place),
            title=annotation_title(finding, summary),
            raw_details="\n".join(_annotation_details(finding, summary)),
        )
    return None


def _annotation_message(finding: Finding, place: QuotedPlace) -> str:
    """What the finding says; if it is shown at another place than its first, with that one, too."""
    message = sentences.located_message(finding)
    if place.place == finding.places[0]:
        return message
    return safe(f"(first at {sentences.place_words_of(finding)}) {message}")


def _annotation_details(finding: Finding, summary: Summary) -> Iterator[str]:
    """What the finding rests on, line by line; the forge folds it."""
    counterexample = queries.counterexample_of(finding, summary)
    if counterexample:
        yield f"Counterexample: {safe(short(counterexample, sentences.MAX_COUNTEREXAMPLE))}"
    for evidence in finding_places.deciding_lines(finding):
        yield safe(f"Decided by {sentences.place_words_of(evidence)}: {evidence.quote}")
    if finding.second_look is not UNSET:
        if dispute := sentences.dispute_sentence(finding.second_look):
            yield safe(dispute)
        yield safe(sentences.second_look_sentence(finding.second_look))
        for evidence in queries.grounds_of_look(finding.second_look):
            words = sentences.grounds_words(finding.second_look).capitalize()
            yield safe(f"{words} {sentences.place_words_of(evidence)}: {evidence.quote}")
    if finding.proof is not UNSET:
        yield safe(sentences.proof_sentence(finding.proof))
        if finding.proof.test:
            yield f"Repeat: {safe(finding.proof.command)}"
    if finding.fingerprint:
        yield f"Finding {safe(finding.fingerprint)}"
    advice = queries.advice_behind(finding, summary)
    if advice:
        yield f"Would have blocked: {safe(sentences.criterion_badge(advice))}"


def annotation_title(finding: Finding, summary: Summary) -> str:
    """The criterion, and how a judge's finding is known: the raw details are folded."""
    title = safe(finding.criterion)
    basis = queries.finding_basis(finding)
    if basis:
        title += f" ({basis})"
    return title[:MAX_TITLE]


def forge_path(path: str) -> str:
    """The path (as `paths.quote` shows it) as the forge knows it; "" where there is none, or none
    that is text.
    """
    own_path = paths.unquote(path)
    try:
        own_path.encode()
    except UnicodeEncodeError:
        return ""
    return own_path
