"""The findings of a comment: this round's with their places and tests, and what became of earlier
ones. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from textwrap import indent

from msgspec import UNSET

from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import (
    SHORT_FINGERPRINT,
    CheckedEvidence,
    Finding,
    Proof,
    SecondLook,
)
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.comment_diffs import FindingDiffs
from vibe_gate.report.comment_markup import join_first, link_commit, list_first
from vibe_gate.report.finding_places import QuotedPlace
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import (
    Block,
    cut_lines,
    escape_code,
    escape_html_code,
    escape_prose,
    fence_code,
    link_code,
    render_fold,
)
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import ReportedFinding, finding_identity
from vibe_gate.report.round import Round
from vibe_gate.report.round_record import ACCEPTED, REFUTED, settled_title

MAX_TEST = 4_000
"""Characters of a finding's test."""

MAX_LINKED_PLACES = 5
"""Places of a finding that are linked."""


def finding_blocks(
    report: Report,
    diffs: FindingDiffs | None = None,
    *,
    is_complete: bool = False,
    without: Collection[str] = (),
) -> Iterator[Block]:
    """The findings of this round, the gravest first, each with its place; equal ones as one item.

    `diffs`: the lines of the change that stand with them; None: no lines. `is_complete`: those too
    that are otherwise only counted; `without`: the identities of findings to leave out.
    """
    written_tests: set[str] = set()
    for title, group in _titled_groups(report.round, is_complete=is_complete):
        title_if_settled = ""
        if title in (REFUTED, ACCEPTED):
            title_if_settled = title
        findings = []
        for finding in group:
            is_left_out = finding_identity(finding) in without
            if not is_left_out and settled_title(finding) == title_if_settled:
                findings.append(finding)
        heading = f"#### {title} ({len(findings):,})\n\n"
        for equal_findings in _equal_findings(findings, report):
            first = equal_findings[0]
            rank = 3
            if first.level == "failure":
                rank = 2
            test = ""
            if first.proof:
                test = first.proof.test
            item = _findings_item(equal_findings, report, with_test=test not in written_tests)
            yield Block(heading + item, rank, "finding", "findings", len(equal_findings))
            if diffs is not None:
                yield diffs.make_block(first, rank, is_settled=bool(title_if_settled))
            heading = ""
            written_tests.add(test)


def _titled_groups(round: Round, *, is_complete: bool) -> list[tuple[str, tuple[Finding, ...]]]:
    """The findings by the title under which they may stand; what is settled stands in two of
    these.
    """
    withheld: tuple[Finding, ...] = ()
    if is_complete:
        withheld = round.withheld
    groups = [("New findings", round.new), ("Still open", round.open)]
    if round.number == 1:
        groups = [("Findings", round.reportable)]
    groups.append(("Held back", withheld))
    for title in (REFUTED, ACCEPTED):
        groups.append((title, (*round.reportable, *withheld)))
    return groups


def _equal_findings(findings: Sequence[Finding], report: Report) -> list[list[Finding]]:
    """The findings, the gravest first; those that differ in their place alone together."""
    groups: dict[object, list[Finding]] = {}
    for finding in queries.worst_first(findings, report.summary):
        content = (
            finding.level,
            finding.criterion,
            finding.message,
            queries.counterexample_of(finding, report.summary),
            finding.remark,
            finding.also,
            finding_identity(finding) in report.round.reappeared,
            finding.second_look,
            finding.basis,
            finding.proof,
        )
        groups.setdefault(content, []).append(finding)
    return list(groups.values())


def _findings_item(equal_findings: Sequence[Finding], report: Report, *, with_test: bool) -> str:
    """Equal findings, such as a check's in several files, as an item of a list: their places and
    fingerprints.
    """
    finding = equal_findings[0]
    places: list[str] = []
    for equal in equal_findings:
        places += finding_place_links(equal, report.links)
    item = (
        f"- **{finding.level}**{_remarks(finding, report)} {_join_places(places)}: "
        f"{escape_prose(sentences.finding_sentence(finding))}"
    )
    source = _finding_source(equal_findings, report.summary)
    if source:
        item += f" ({source})"
    for line in _reason_lines(finding, report):
        item += f"\n  {line}"
    if with_test and finding.proof is not UNSET and finding.proof.test:
        item += f"\n\n{indent(test_fold(finding.proof), '  ')}"
    return item


def _join_places(places: Sequence[str]) -> str:
    """The first places, and how many more there are."""
    text = ", ".join(places[:MAX_LINKED_PLACES])
    surplus = len(places) - MAX_LINKED_PLACES
    if surplus > 0:
        return f"{text} and {counted(surplus, 'more place')}"
    return text


def _remarks(finding: Finding, report: Report) -> str:
    """That it would have blocked, and that it is back after it was fixed; else ""."""
    remarks = ""
    advice = queries.advice_behind(finding, report.summary)
    if advice:
        remarks += f" (would have blocked: {sentences.advice_cause(advice)})"
    if finding_identity(finding) in report.round.reappeared:
        remarks += " (back)"
    return remarks


def _finding_source(equal_findings: Sequence[Finding], summary: Summary) -> str:
    """The criterion, the fingerprints, and what the finding rests on."""
    finding = equal_findings[0]
    prefixes = []
    for equal in equal_findings:
        if equal.fingerprint:
            prefixes.append(escape_code(equal.fingerprint[:SHORT_FINGERPRINT]))
    criterion = ""
    if finding.criterion != "policy":
        criterion = escape_code(finding.criterion, 64)
    sources = [criterion, join_first(prefixes, 3), queries.finding_basis(finding)]
    return ", ".join(filter(None, sources))


def _reason_lines(finding: Finding, report: Report) -> Iterator[str]:
    """Lines that decide it, a counterexample, what a test came to, and what a second look came to."""
    yield from deciding_line_links(finding, report.links)
    counterexample = queries.counterexample_of(finding, report.summary)
    if counterexample:
        yield f"Counterexample: {escape_prose(counterexample, sentences.MAX_COUNTEREXAMPLE)}"
    if finding.proof is not UNSET:
        yield escape_prose(sentences.proof_sentence(finding.proof))
    if finding.second_look is not UNSET:
        yield from _second_look(finding.second_look, report.links)


def test_fold(proof: Proof) -> str:
    """The test as a file to take over, with the command that repeats it; "" without one."""
    if not proof.test:
        return ""
    text, omitted_lines = cut_lines(proof.test, MAX_TEST)
    language = ""
    if proof.path.endswith(".py"):
        language = "python"
    test = fence_code(text, language)
    if omitted_lines:
        test += f"\n\n{counted(omitted_lines, 'more line')}; summary.json has all of it."
    command = f"To repeat it: {escape_code(proof.command)}"
    return render_fold(f"Test {escape_html_code(proof.path)}", f"{test}\n\n{command}")


def _second_look(look: SecondLook, links: Links | None) -> Iterator[str]:
    """What a second look came to, unless the finding says it, and the lines that prevent or intend
    it; before that what was said against the finding.
    """
    if dispute := sentences.dispute_sentence(look):
        yield escape_prose(dispute)
    if look.outcome != "refuted":
        yield escape_prose(sentences.second_look_sentence(look))
    for line in queries.grounds_of_look(look):
        yield f"{sentences.grounds_words(look).capitalize()} {_quoted_line_link(line, links)}"


def _quoted_line_link(line: CheckedEvidence, links: Links | None) -> str:
    """A quoted line behind its place."""
    address = ""
    if links:
        is_before = line.side == "before"
        address = links.permalink(line.path, line.line, line.end_line, before=is_before)
    place = link_code(sentences.place_words_of(line), address)
    return f"{place}: {escape_code(line.quote.strip(), 200)}"


def deciding_line_links(finding: Finding, links: Links | None) -> Iterator[str]:
    """The quoted lines that decide the finding, a line of text each."""
    for line in finding_places.deciding_lines(finding)[: finding_places.MAX_DECIDING_LINES]:
        yield f"Decided by {_quoted_line_link(line, links)}"


def finding_place_links(finding: Finding, links: Links | None) -> list[str]:
    """The places of the finding, each with a link to its lines."""
    return [place_link_of(place, links) for place in finding_places.quoted_places(finding)]


def place_link_of(place: QuotedPlace, links: Links | None) -> str:
    """A place of a finding, with a link to its lines."""
    if not place.path:
        return "the change"
    address = ""
    if links:
        first, last = place.place.line, place.place.end_line
        address = links.permalink(place.path, first, last, before=place.is_removed)
    link = link_code(sentences.place_words_of(place.place), address)
    if place.is_removed:
        return f"{link} (removed)"
    return link


def earlier_finding_blocks(report: Report) -> Iterator[Block]:
    """What was said before and is gone, and since which commit; what nobody fixed; what this run
    could not look for.
    """
    groups = {
        "Fixed": report.round.fixed,
        "Not raised again, on lines that did not change": report.round.unraised,
        "Not found again, but this run could not tell whether it is gone": report.round.unanswered,
    }
    for title, group in groups.items():
        fold = ""
        if group:
            rows = list_first(group, lambda reported: _earlier_finding(reported, report.links))
            fold = render_fold(f"{title} ({len(group):,})", rows)
        yield Block(fold, 4, "list of earlier findings", "lists of earlier findings")


def _earlier_finding(reported: ReportedFinding, links: Links | None) -> str:
    place = sentences.place_words(reported.path, reported.line)
    if reported.path:
        address = ""
        if links:
            links_then = Links(links.server, links.repository, reported.since)
            address = links_then.permalink(reported.path, reported.line)
        place = link_code(place, address)
    since = ""
    if reported.fixed:
        since = f"fixed at {link_commit(reported.fixed, links)}: "
    message = escape_prose(reported.message, 280)
    return f"{since}{place}: {message} ({escape_code(reported.criterion, 64)})"
