"""The change and its votes at a glance: rounds, files by risk with their lines and findings,
criteria by vote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from urllib.parse import quote

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.event import Node
from vibe_gate.domain.summary import ChangedFile, Summary
from vibe_gate.domain.verdict import CriterionResult
from vibe_gate.report import queries, sentences, svg
from vibe_gate.report.html.addresses import (
    file_link,
    finding_element_id,
    link_to_element,
    place_link,
    round_element_id,
)
from vibe_gate.report.html.view import MOST_ROUNDS, EarlierRound, View, findings_on_page
from vibe_gate.report.markup import (
    Html,
    and_more,
    join_html,
    join_with_commas,
    render_html_table,
    table_row,
    tag,
)
from vibe_gate.report.reported_finding import ReportedFinding, finding_identity
from vibe_gate.report.round_record import RoundRecord
from vibe_gate.report.svg import Bar, Part, Series

MOST_FILES, MOST_VOTES, MOST_LINKS = 20, 20, 20
"""Files, votes of a criterion, and findings of a file that are shown; the tabs have the others."""

MOST_TOLD = 20
"""Findings of one round that are shown."""


class _Marked(Struct, frozen=True):
    """A finding of a round, and what became of it."""

    word: str
    finding: ReportedFinding


LINES = (Series("added", "s2"), Series("deleted", "s1"))
ROUNDS = (Series("new", "s1"), Series("still open", "s4"), Series("fixed", "s2"))


def render_rounds(view: View) -> Iterator[Html]:
    """What became of what was said before: by the run before this one, and by the gates of this run
    before the last.
    """
    if view.earlier is None and not view.rounds:
        return
    yield tag("h2", "Rounds")
    changed_paths = {file.path for file in view.files}
    if view.earlier is not None:
        yield from _earlier_round(view.earlier, changed_paths)
    listed: set[str] = set()  # chains of one beginning share gates, and an id stands once
    for number, chain in enumerate(view.rounds, start=1):
        yield from _gate_chain(view, number, chain, changed_paths, listed)
        listed |= _last_gates(chain).keys()


def _earlier_round(earlier: EarlierRound, changed_paths: Container[str]) -> Iterator[Html]:
    """What became of it in this run."""
    record = earlier.record
    title: Html | str = f"Round {record.number:,} of the pull request"
    if record.after:
        title = join_html(["Since run ", svg.link_text(record.after, quote(earlier.page))])
    yield tag("p", title, f": {record.counts}.")
    yield from _changed_findings(record, changed_paths)


def _last_gates(chain: Mapping[str, RoundRecord]) -> dict[str, RoundRecord]:
    """The last gates of the chain, which are shown."""
    return dict(list(chain.items())[-MOST_ROUNDS:])


def _gate_chain(
    view: View,
    number: int,
    chain: Mapping[str, RoundRecord],
    changed_paths: Container[str],
    listed: Container[str],
) -> Iterator[Html]:
    """The gates that looked at the same again. `listed`: gates that stand above already."""
    gates = _last_gates(chain)
    omitted = len(chain) - len(gates)
    omission = None
    if omitted:
        omission = f" (without the first {omitted:,})"
    yield tag("h3", "Gates of this run", omission)
    nodes = {node.id: node for node in view.graph.nodes}
    if len(gates) > 2:
        yield _draw_chain(f"rounds-{number}", gates, nodes, omitted + 1)
    on_page: set[str] = set()
    if view.summary:
        on_page = {finding_identity(finding) for finding in view.summary.findings}
    items = []
    for name, record in gates.items():
        parts = _gate_round(name, record, nodes.get(name), on_page, changed_paths)
        element_id = None
        if name not in listed:
            element_id = round_element_id(name)
        items.append(tag("li", *parts, id=element_id))
    yield tag("ol", *items, start=omitted + 1)


def _draw_chain(
    id: str, gates: Mapping[str, RoundRecord], nodes: Mapping[str, Node], first: int
) -> Html:
    """The findings of gates that looked again, as bars; `first`: the number of the first."""
    bars = []
    lines = []
    for number, (name, record) in enumerate(gates.items(), start=first):
        counts = (record.counts.new, record.counts.open, record.counts.fixed)
        texts = [f"{count:,}" for count in counts]
        parts = tuple(map(Part, counts, texts))
        outcome = ""
        if name in nodes:
            outcome = nodes[name].outcome
        bars.append(Bar(f"{number}. {name}", parts, outcome))
        lines.append(table_row((str(number), name, *texts)))
    heads = ("Round", "Gate", *(series.name.capitalize() for series in ROUNDS))
    picture, legend = svg.draw_rows(bars, ROUNDS), svg.draw_legend(ROUNDS)
    return svg.render_figure(id, "Findings by round", picture, legend, heads, lines)


def _gate_round(
    name: str,
    record: RoundRecord,
    node: Node | None,
    on_page: Container[str],
    changed_paths: Container[str],
) -> Iterator[Html]:
    """A gate's round, with the findings that were new in it; those `on_page`, by identity, stand in
    the page already.
    """
    badge = None
    if node and node.outcome:
        badge = tag("span", node.outcome, class_=f"badge {node.outcome}")
    if record.after:
        counts = str(record.counts)
    else:
        counts = counted(record.counts.new, "finding")
    yield tag("p", tag("code", name), " ", badge, f" {counts} ")
    new_findings = [finding for finding in record.new if finding.fingerprint not in on_page]
    yield from _changed_findings(record, changed_paths, new_findings)


def _changed_findings(
    record: RoundRecord,
    changed_paths: Container[str],
    new_findings: Sequence[ReportedFinding] = (),
) -> Iterator[Html]:
    """The findings that stand nowhere else in the page; `changed_paths`: of files that do."""
    new_word = "found"
    if record.after:
        new_word = "new"
    marked = []
    for finding in new_findings:
        marked.append(_Marked(new_word, finding))
    for finding in record.fixed:
        marked.append(_Marked("fixed", finding))
    for finding in record.unanswered:
        marked.append(_Marked("not found again", finding))
    if not marked:
        return
    items = []
    for entry in marked[:MOST_TOLD]:
        items.append(_marked_item(entry, changed_paths))
    yield tag("ul", *items, and_more(len(marked) - len(items), "li"), class_="told")


def _marked_item(marked: _Marked, changed_paths: Container[str]) -> Html:
    finding = marked.finding
    place = None
    if finding.path:
        words = sentences.place_words(finding.path, finding.line)
        # The file's link alone: its lines may stand elsewhere now.
        link = ""
        if finding.path in changed_paths:
            link = file_link(finding.path)
        place = tag("code", svg.link_text(words, link))
    is_fixed = marked.word == "fixed"
    badge = tag("span", marked.word, class_="badge pass" if is_fixed else "badge")
    message = tag("del" if is_fixed else "span", finding.message)
    return tag("li", badge, " ", message, " ", place)


def find_news(view: View) -> dict[str, str]:
    """The findings that were not said in the round before, by identity: "new", or "back" if they
    were called fixed.
    """
    if view.earlier:
        records = [view.earlier.record]
    else:
        records = []
        for chain in view.rounds:
            records.append(list(chain.values())[-1])
    news = {}
    for record in records:
        for finding in record.new:
            news[finding.fingerprint] = "back" if finding.fingerprint in record.back else "new"
    return news


def render_file_bars(summary: Summary) -> Iterator[Html]:
    """The changed files as bars, by risk, as the comment of a pull request lists them. One file
    needs no picture.
    """
    ranked = queries.riskiest_first(summary)
    if len(ranked) < 2:
        return
    indexes_by_path: dict[str, list[int]] = defaultdict(list)
    for index, finding in enumerate(summary.findings):
        for path in finding.paths:
            indexes_by_path[path].append(index)
    on_page = frozenset(findings_on_page(summary))
    bars = []
    lines = []
    for file, reason in ranked[:MOST_FILES]:
        bars.append(_file_bar(file, reason))
        links = _finding_links(indexes_by_path[file.path], on_page)
        lines.append(_file_line(file, reason, links))
    notes = _notes_on_files(summary, len(ranked) - len(bars))
    caption = join_html([*notes, svg.draw_legend(LINES)])
    picture = svg.draw_rows(bars, LINES)
    heads = ("File", "Lines", "Look at", "Findings")
    yield svg.render_figure("files", "Changed files, by risk", picture, caption, heads, lines)


def _notes_on_files(summary: Summary, omitted: int) -> Iterator[Html]:
    """What the picture leaves out, and what it counts twice."""
    if omitted:
        yield tag("p", f"The {omitted:,} others stand in Changes.", class_="none")
    if any(len(finding.paths) > 1 for finding in summary.findings):
        text = "A finding with places in several files counts once in each of them."
        yield tag("p", text, class_="none")


def _file_bar(file: ChangedFile, reason: str) -> Bar:
    """Its lines; of several reasons to look at it there is room for the first."""
    added, deleted = (0, 0) if file.binary else (file.added, file.deleted)
    parts = (Part(added, f"+{added:,}"), Part(deleted, f"−{deleted:,}"))
    text, _, further_reasons = reason.partition(", ")
    if further_reasons:
        text += ", …"
    if not text and file.binary:
        text = "binary"
    return Bar(file.path, parts, text, file_link(file.path))


def _file_line(file: ChangedFile, reason: str, links: Html) -> Html:
    if file.binary:
        size = "binary"
    else:
        size = f"+{file.added:,} −{file.deleted:,}"
    return table_row((tag("a", file.path, href=file_link(file.path)), size, reason, links))


def _finding_links(indexes: Sequence[int], on_page: Container[int]) -> Html:
    """The first of the findings that the page shows, and how many more there are."""
    linked = [index for index in indexes if index in on_page][:MOST_LINKS]
    links: list[str] = []
    for index in linked:
        link = link_to_element(finding_element_id(index))
        links.append(tag("a", f"finding {index + 1}", href=link))
    if len(indexes) > len(linked):
        links.append(f"{len(indexes) - len(linked):,} more")
    return join_with_commas(links)


def render_vote_rows(summary: Summary) -> Iterator[Html]:
    """A line for each criterion that several votes decided, and a cell for each vote."""
    criteria = []
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            if len(criterion.votes) > 1:
                criteria.append((f"{rubric.id}/{criterion.id}", criterion))
    if not criteria:
        return
    most = min(max(len(criterion.votes) for _, criterion in criteria), MOST_VOTES)
    heads = ("Criterion", *(f"Vote {number}" for number in range(1, most + 1)), "Outcome")
    rows = []
    for name, criterion in criteria:
        rows.append(_vote_row(name, criterion, most))
    yield tag("h3", "Votes")
    yield render_html_table(heads, rows, class_="votes-of")


def _vote_row(name: str, criterion: CriterionResult, columns: int) -> Html:
    cells: list[Html | str] = [tag("a", name, href=place_link("c", name))]
    for number, vote in enumerate(criterion.votes[:columns], start=1):
        link = place_link("c", f"{name}/{number}")
        cells.append(tag("a", vote.outcome, href=link, class_=f"badge {vote.outcome}"))
    cells += [""] * (columns + 1 - len(cells))
    words = criterion.outcome.replace("_", " ")
    cells.append(tag("span", words, class_=f"badge {criterion.outcome}"))
    return table_row(cells)
