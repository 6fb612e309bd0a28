"""The findings of a page, each with its lines, its test, where it comes from, and who wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding
from vibe_gate.report import queries, sentences
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
from vibe_gate.report.markup import Html, join_html, tag, text_block

MAX_FINDING_WRITERS = 3
"""Turns that wrote a finding's lines that stand at the finding."""


def render_finding(finding: Finding, number: int, view: View, summary: Summary, news: str) -> Html:
    """A finding; `number`: its index in the summary; `news`: "new" or "back" in this round, or
    "".
    """
    is_waived = bool(queries.waiver_text(finding))
    message = sentences.finding_sentence(finding) if is_waived else finding.message
    quotes = [evidence.quote for evidence in finding.evidence if evidence.quote]
    parts = [
        _head(finding, summary, news),
        tag("p", message, class_="said"),
        *(text_block(quote, class_="quote") for quote in quotes),
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
    """Level and place; whether it is news, and how it is known."""
    level = tag("span", finding.level, class_="level")
    place = render_place(finding, before=queries.is_removed(finding), class_="place")
    news_badge = tag("span", news, class_="badge") if news else None
    basis = queries.finding_basis(finding, summary)
    basis_badge = tag("span", basis, class_="badge") if basis else None
    return tag("h3", level, " ", place, " ", news_badge, " ", basis_badge)


def _next_step(finding: Finding, summary: Summary) -> Html | None:
    """What its reader can do: the command that tells more names the others."""
    if not finding.fingerprint:
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
    for rubric, criterion in queries.sources_of_finding(finding, summary):
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
    has_lines = bool(finding.line) and not queries.is_removed(finding)
    first = finding.line if has_lines else 0
    last = max(first, finding.end_line)
    writers = authors.of(finding.path, first, last)[:MAX_FINDING_WRITERS]
    if not writers:
        return None
    # Claims of tools stand behind what was captured, and say so themselves.
    writers.sort(key=lambda index: bool(claimed_tool(authors.turns[index])))
    text = "" if has_lines else "lines of this file "
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
