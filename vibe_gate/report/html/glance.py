"""The change and its votes at a glance: rounds, files by risk with their lines and findings,
criteria by vote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from urllib.parse import quote

from vibe_gate.domain.escape import counted
from vibe_gate.domain.event import Node
from vibe_gate.domain.summary import ChangedFile, Summary
from vibe_gate.domain.verdict import CriterionResult, Vote
from vibe_gate.report import queries, sentences, svg
from vibe_gate.report.html.addresses import (
    file_link,
    finding_element_id,
    link_to_element,
    place_link,
    round_element_id,
)
from vibe_gate.report.html.view import MOST_ROUNDS, View, findings_on_page
from vibe_gate.report.markup import Html, and_more, join_html, render_html_table, table_row, tag
from vibe_gate.report.reported_finding import ReportedFinding, finding_identity
from vibe_gate.report.round_record import RoundCounts, RoundRecord
from vibe_gate.report.svg import Bar, Part, Series

MOST_FILES, MOST_VOTES, MOST_LINKS = 20, 20, 20
"""Files, votes of a criterion, and findings of a file that are shown; the tabs have the others."""

MOST_TOLD = 20
"""Findings of one round that are shown."""

LINES = (Series("added", "s2"), Series("deleted", "s1"))
ROUNDS = (Series("new", "s1"), Series("still open", "s4"), Series("fixed", "s2"))


def render_rounds(view: View) -> Iterator[Html]:
    """What became of what was said before: by the run before this one, and by the gates of this run
    before the last.
    """
    if view.earlier is None and not view.rounds:
        return
    yield tag("h2", "Rounds")
    changed = {file.path for file in view.files}
    if view.earlier is not None:
        told = view.earlier.told
        since = svg.link_text(told.after, quote(view.earlier.page))
        before = (
            join_html(["Since run ", since])
            if told.after
            else f"Round {told.number:,} of the pull request"
        )
        yield tag("p", before, f": {told.counts}.")
        yield from _became(told, changed)
    gates = {node.id: node for node in view.graph.nodes}
    here = {finding_identity(one) for one in view.summary.findings} if view.summary else set()
    told_before: set[str] = set()  # chains of one beginning share gates, and an id stands once
    for number, chain in enumerate(view.rounds, start=1):
        left_out = max(len(chain) - MOST_ROUNDS, 0)
        last = dict(list(chain.items())[left_out:])
        yield tag(
            "h3", "Gates of this run", f" (without the first {left_out:,})" if left_out else None
        )
        if len(last) > 2:
            yield _by_round(f"rounds-{number}", last, gates, left_out + 1)
        items = (
            tag(
                "li",
                *_gate(name, told, gates.get(name), here, changed),
                id=None if name in told_before else round_element_id(name),
            )
            for name, told in last.items()
        )
        yield tag("ol", *items, start=left_out + 1)
        told_before |= last.keys()


def _by_round(
    id: str, chain: Mapping[str, RoundRecord], gates: Mapping[str, Node], first: int
) -> Html:
    """The findings of gates that looked again, as bars; `first`: the number of the first."""
    numbered = list(enumerate(chain.items(), start=first))
    outcomes = {name: gates[name].outcome for name in chain if name in gates}
    bars = [
        Bar(f"{at}. {name}", _parts(told.counts), outcomes.get(name, ""))
        for at, (name, told) in numbered
    ]
    lines = [
        table_row((str(at), name, *(part.text for part in _parts(told.counts))))
        for at, (name, told) in numbered
    ]
    heads = ("Round", "Gate", *(one.name.capitalize() for one in ROUNDS))
    return svg.render_figure(
        id, "Findings by round", svg.draw_rows(bars, ROUNDS), svg.draw_legend(ROUNDS), heads, lines
    )


def _parts(counts: RoundCounts) -> tuple[Part, ...]:
    return tuple(Part(number, f"{number:,}") for number in (counts.new, counts.open, counts.fixed))


def _gate(
    name: str, told: RoundRecord, node: Node | None, here: Container[str], changed: Container[str]
) -> Iterator[Html]:
    """A gate's round, with the findings that were new in it; those in `here` stand in the page
    already.
    """
    outcome = (
        tag("span", node.outcome, class_=f"badge {node.outcome}") if node and node.outcome else None
    )
    found = str(told.counts) if told.after else counted(told.counts.new, "finding")
    yield tag("p", tag("code", name), " ", outcome, f" {found} ")
    yield from _became(told, changed, [one for one in told.new if one.fingerprint not in here])


def _became(
    told: RoundRecord, changed: Container[str], new: Sequence[ReportedFinding] = ()
) -> Iterator[Html]:
    """The findings that stand nowhere else in the page; `changed`: paths of files that do."""
    named = [
        *(("new" if told.after else "found", one) for one in new),
        *(("fixed", one) for one in told.fixed),
    ]
    named += [("not found again", one) for one in told.unanswered]
    if not named:
        return
    items = [_was(word, one, changed) for word, one in named[:MOST_TOLD]]
    yield tag("ul", *items, and_more(len(named) - len(items), "li"), class_="told")


def _was(word: str, one: ReportedFinding, changed: Container[str]) -> Html:
    is_fixed = word == "fixed"
    said = tag("del" if is_fixed else "span", one.message)
    link = file_link(one.path) if one.path in changed else ""  # its lines may stand elsewhere now
    place = (
        tag("code", svg.link_text(sentences.place_words(one.path, one.line), link))
        if one.path
        else None
    )
    return tag(
        "li", tag("span", word, class_="badge pass" if is_fixed else "badge"), " ", said, " ", place
    )


def find_news(view: View) -> dict[str, str]:
    """The findings that were not said in the round before, by identity: "new", or "back" if they
    were called fixed.
    """
    last = (
        [view.earlier.told] if view.earlier else [list(chain.values())[-1] for chain in view.rounds]
    )
    return {
        one.fingerprint: "back" if one.fingerprint in told.back else "new"
        for told in last
        for one in told.new
    }


def render_file_bars(summary: Summary) -> Iterator[Html]:
    """The changed files as bars, by risk, as the comment of a pull request lists them. One file
    needs no picture.
    """
    ranked = queries.riskiest_first(summary)
    if len(ranked) < 2:
        return
    found: dict[str, list[int]] = defaultdict(list)
    for index, finding in enumerate(summary.findings):
        found[finding.path].append(index)
    bars = [_bar(file, reason) for file, reason in ranked[:MOST_FILES]]
    shown = frozenset(findings_on_page(summary))
    lines = [
        _file_line(file, reason, found[file.path], shown) for file, reason in ranked[:MOST_FILES]
    ]
    more = (
        f"The {len(ranked) - len(bars):,} others stand in Changes."
        if len(ranked) > len(bars)
        else ""
    )
    told = join_html([tag("p", more, class_="none") if more else None, svg.draw_legend(LINES)])
    heads = ("File", "Lines", "Look at", "Findings")
    yield svg.render_figure(
        "files", "Changed files, by risk", svg.draw_rows(bars, LINES), told, heads, lines
    )


def _bar(file: ChangedFile, reason: str) -> Bar:
    """Its lines; of several reasons to look at it there is room for the first."""
    added, deleted = (0, 0) if file.binary else (file.added, file.deleted)
    parts = (Part(added, f"+{added:,}"), Part(deleted, f"−{deleted:,}"))
    first, _, more = reason.partition(", ")
    shown = (f"{first}, …" if more else first) or ("binary" if file.binary else "")
    return Bar(file.path, parts, shown, file_link(file.path))


def _file_line(file: ChangedFile, reason: str, found: list[int], shown: Container[int]) -> Html:
    few = [at for at in found if at in shown][:MOST_LINKS]
    links = [
        tag("a", f"finding {at + 1}", href=link_to_element(finding_element_id(at))) for at in few
    ]
    more = [f"{len(found) - len(few):,} more"] if len(found) > len(few) else []
    parts = [part for link in (*links, *more) for part in (", ", link)]
    size = "binary" if file.binary else f"+{file.added:,} −{file.deleted:,}"
    return table_row(
        (tag("a", file.path, href=file_link(file.path)), size, reason, join_html(parts[1:]))
    )


def render_vote_rows(summary: Summary) -> Iterator[Html]:
    """A line for each criterion that several votes decided, and a cell for each vote."""
    several = [
        (f"{rubric.id}/{criterion.id}", criterion)
        for rubric in summary.rubrics
        for criterion in rubric.criteria
        if len(criterion.votes) > 1
    ]
    if several:
        most = min(max(len(criterion.votes) for _, criterion in several), MOST_VOTES)
        heads = ("Criterion", *(f"Vote {number}" for number in range(1, most + 1)), "Outcome")
        yield tag("h3", "Votes")
        yield render_html_table(
            heads, [_votes(name, criterion, most) for name, criterion in several], class_="votes-of"
        )


def _votes(name: str, criterion: CriterionResult, most: int) -> Html:
    cells = [
        _vote(vote, place_link("c", f"{name}/{at}"))
        for at, vote in enumerate(criterion.votes[:most], start=1)
    ]
    blank = [""] * (most - len(cells))
    outcome = tag("span", criterion.outcome.replace("_", " "), class_=f"badge {criterion.outcome}")
    return table_row((tag("a", name, href=place_link("c", name)), *cells, *blank, outcome))


def _vote(vote: Vote, link: str) -> Html:
    return tag("a", vote.outcome, href=link, class_=f"badge {vote.outcome}")
