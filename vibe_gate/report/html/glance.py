"""The change and its votes at a glance: files by changed lines with their findings, criteria by vote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, Vote
from vibe_gate.report import queries, svg
from vibe_gate.report.html.addresses import file_link, finding_id, place_link, to
from vibe_gate.report.html.view import FileView, View
from vibe_gate.report.markup import Html, joined, row, table, tag
from vibe_gate.report.svg import Bar, Part, Series

MOST_FILES, MOST_VOTES = 20, 20
"""Files and votes of a criterion that are shown; the tabs have the others."""

LINES = (Series("added", "s2"), Series("deleted", "s1"))


def files(view: View, summary: Summary) -> Iterator[Html]:
    """The changed files as bars, those with the gravest findings first, then the largest. One file needs no picture."""
    if len(view.files) < 2:
        return
    found: dict[str, list[int]] = defaultdict(list)
    for index, finding in enumerate(summary.findings):
        found[finding.path].append(index)

    def rank(file: FileView) -> tuple[int, int, str]:
        worst = min((queries.GRAVITY[summary.findings[at].level] for at in found[file.path]), default=9)
        return worst, -file.added - file.deleted, file.path

    ranked = sorted(view.files, key=rank)
    bars = [_bar(file, [summary.findings[at] for at in found[file.path]]) for file in ranked[:MOST_FILES]]
    lines = [_file_line(file, found[file.path]) for file in ranked[:MOST_FILES]]
    more = f"The {len(ranked) - len(bars):,} others stand in Changes." if len(ranked) > len(bars) else ""
    told = joined([tag("p", more, class_="none") if more else None, svg.legend(LINES)])
    yield svg.figure("files", "Changed files", svg.rows(bars, LINES), told, ("File", "Lines", "Findings"), lines)


def _bar(file: FileView, findings: list[Finding]) -> Bar:
    parts = (Part(file.added, f"+{file.added:,}"), Part(file.deleted, f"−{file.deleted:,}"))
    shown = counted(len(findings), "finding") if findings else "binary" if file.binary else ""
    return Bar(_end(file.path), parts, shown, file_link(file.path))


def _end(path: str) -> str:
    """The end of a path, which tells files apart."""
    return path if len(path) <= svg.NAME_CHARS else f"…{path[1 - svg.NAME_CHARS :]}"


def _file_line(file: FileView, found: list[int]) -> Html:
    parts = [part for at in found for part in (", ", tag("a", f"finding {at + 1}", href=to(finding_id(at))))]
    size = f"+{file.added:,} −{file.deleted:,}"
    return row((tag("a", file.path, href=file_link(file.path)), size, joined(parts[1:])))


def votes(summary: Summary) -> Iterator[Html]:
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
        yield table(heads, [_votes(name, criterion, most) for name, criterion in several], class_="votes-of")


def _votes(name: str, criterion: CriterionResult, most: int) -> Html:
    cells = [_vote(vote, place_link("c", f"{name}/{at}")) for at, vote in enumerate(criterion.votes[:most], start=1)]
    blank = [""] * (most - len(cells))
    outcome = tag("span", criterion.outcome.replace("_", " "), class_=f"badge {criterion.outcome}")
    return row((tag("a", name, href=place_link("c", name)), *cells, *blank, outcome))


def _vote(vote: Vote, link: str) -> Html:
    return tag("a", vote.outcome, href=link, class_=f"badge {vote.outcome}")
