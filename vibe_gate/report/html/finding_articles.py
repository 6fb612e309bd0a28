"""The findings of a page, each with its lines, its test, where it comes from, and who wrote it."""

from __future__ import annotations

from collections.abc import Container, Iterator

from vibe_gate.domain.gate import CRITERIA_WITHOUT_RUBRIC
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, CheckedEvidence, Finding, FindingPlace
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.finding_places import QuotedPlace
from vibe_gate.report.html.addresses import finding_element_id, place_link
from vibe_gate.report.html.authors import Authors
from vibe_gate.report.html.authors_section import claimed_name, claimed_tool, writer_element_id
from vibe_gate.report.html.page_parts import (
    link_conversation,
    render_counterexample,
    render_place,
    render_proof,
    render_second_look,
)
from vibe_gate.report.html.view import View
from vibe_gate.report.markup import Html, join_html, join_with_commas, tag, text_block

MAX_SHOWN_PLACES = 9
"""Further places of a finding whose lines are shown; to the others there are links."""

MAX_FINDING_WRITERS = 3
"""Turns that wrote a finding's lines that stand at the finding."""


def render_finding(finding: Finding, number: int, view: View, summary: Summary, news: str) -> Html:
    """A finding; `number`: its index in the summary; `news`: "new" or "back" in this round, or
    "".
    """
    is_waived = bool(queries.waiver_text(finding))
    changed_paths = {file.path for file in view.files}
    message = finding.message
    if is_waived:
        message = sentences.finding_sentence(finding)
    parts = [
        _head(finding, summary, news),
        tag("p", message, class_="said"),
        *_place_parts(finding, changed_paths),
        *_deciding_parts(finding, changed_paths),
        render_counterexample(queries.counterexample_of(finding, summary)),
        render_proof(finding.proof),
        render_second_look(finding.second_look, view),
        tag("p", *_source_links(finding, view, summary), class_="from"),
        _writers(finding, view.authors),
        None if is_waived else _next_step(finding, summary),
    ]
    style = f"finding {finding.level}"
    if is_waived:
        style += " waived"
    return tag("article", *parts, class_=style, id=finding_element_id(number))


def _head(finding: Finding, summary: Summary, news: str) -> Html:
    """Level and place; whether it is news, how it is known, and why it is only a remark."""
    level = tag("span", finding.level, class_="level")
    place = render_place(finding, before=finding_places.is_removed(finding), class_="place")
    count = len(finding.places)
    count_words = ""
    if count > 1:
        count_words = f"{count:,} places"
    basis = queries.finding_basis(finding)
    remark = finding_places.remark_words(finding)
    parts: list[Html | str] = [level, " ", place]
    for words in filter(None, (count_words, news, basis, remark)):
        parts += [" ", tag("span", words, class_="badge")]
    return tag("h3", *parts)


def _place_parts(finding: Finding, changed_paths: Container[str]) -> Iterator[Html]:
    """The quoted lines of each place: of the first, which stands in the head, alone; of the others
    behind a link to it. `changed_paths`: of the files that the page has.
    """
    first, *other_places = finding_places.quoted_places(finding)
    yield from _quotes(first)
    for place in other_places[:MAX_SHOWN_PLACES]:
        link = _link_place(place.place, place.is_removed, changed_paths)
        yield tag("p", "also at ", link, class_="from")
        yield from _quotes(place)
    links: list[str] = []
    for place in other_places[MAX_SHOWN_PLACES:]:
        links.append(_link_place(place.place, place.is_removed, changed_paths))
    if links:
        yield tag("p", "also at ", join_with_commas(links), class_="from")


def _quotes(place: QuotedPlace) -> Iterator[Html]:
    for line in place.lines:
        if line.quote:
            yield text_block(line.quote, class_="quote")


def _link_place(
    place: FindingPlace | CheckedEvidence, is_removed: bool, changed_paths: Container[str]
) -> Html:
    """The place, with a link to its lines if the page has the file."""
    if place.path in changed_paths:
        return render_place(place, before=is_removed, class_="place")
    return tag("span", sentences.place_words_of(place), class_="place")


def _deciding_parts(finding: Finding, changed_paths: Container[str]) -> Iterator[Html]:
    """The quoted lines, changed or not, that decide it."""
    for line in finding_places.deciding_lines(finding):
        link = _link_place(line, line.side == "before", changed_paths)
        yield tag("p", "decided by ", link, class_="from")
        yield text_block(line.quote, class_="quote")


def _next_step(finding: Finding, summary: Summary) -> Html | None:
    """What its reader can do, the command that tells more names the others; None if it fails no
    criterion of a rubric.
    """
    fails_nothing = finding.is_refuted or finding_places.remark_words(finding) != ""
    if fails_nothing or not finding.fingerprint or finding.criterion in CRITERIA_WITHOUT_RUBRIC:
        return None
    command = f"vibe-gate explain {finding.fingerprint[:SHORT_FINGERPRINT]}"
    ways_on = "label or accept it"
    if queries.may_be_disputed(finding, summary):
        ways_on = "label, dispute or accept it"
    text = f"Next: fix it, or see how to {ways_on}: "
    return tag("p", text, tag("code", command), class_="from")


def _source_links(finding: Finding, view: View, summary: Summary) -> Iterator[str]:
    """Links to the criterion, to each vote that gave this finding, and to the conversation it comes
    from.
    """
    sources = queries.sources_of_finding(finding, summary)
    if not sources:  # of no rubric: "policy", "addressed"
        yield tag("span", finding.criterion, class_="criterion")
    for rubric, criterion in sources:
        name = f"{rubric.id}/{criterion.id}"
        yield tag("a", criterion.id, href=place_link("c", name), class_="criterion")
        for number, vote in enumerate(criterion.votes, start=1):
            if not queries.has_evidence(vote, finding):
                continue
            yield " · "
            yield tag("a", f"vote {number}", href=place_link("c", f"{name}/{number}"))
            conversation = link_conversation(vote.turn, view)
            if conversation:
                yield join_html([" · ", conversation])
    if finding.fingerprint:
        fingerprint = finding.fingerprint[:SHORT_FINGERPRINT]
        yield join_html([" ", tag("code", fingerprint, class_="fingerprint")])


def _writers(finding: Finding, authors: Authors) -> Html | None:
    """Links to the turns of captured sessions that wrote its lines, and to their prompts.

    Nothing tells who removed a line, so there stand the turns that wrote others of the file.
    """
    has_lines = bool(finding.line) and not finding_places.is_removed(finding)
    first = 0
    if has_lines:
        first = finding.line
    last = max(first, finding.end_line)
    writers = authors.of(finding.path, first, last)[:MAX_FINDING_WRITERS]
    if not writers:
        return None
    # Claims of tools stand behind what was captured, and say so themselves.
    writers.sort(key=lambda index: bool(claimed_tool(authors.turns[index])))
    text = "lines of this file "
    if has_lines:
        text = ""
    if not claimed_tool(authors.turns[writers[0]]):
        text += "written by "
    links: list[str] = []
    for index in writers:
        links += [", " if links else "", _writer_link(index, authors)]
    return tag("p", text, *links, class_="from")


def _writer_link(index: int, authors: Authors) -> Html:
    """A link to the turn, and to its prompt if there is one."""
    turn = authors.turns[index]
    link = tag("a", claimed_name(turn), href=f"#{writer_element_id(index)}")
    if not turn.prompt:
        return link
    prompt = tag("a", "prompt", href=f"#{writer_element_id(index)}-prompt")
    return join_html([link, " (", prompt, ")"])
