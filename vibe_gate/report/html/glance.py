"""The change and its votes at a glance: files by risk with their changed lines and findings, criteria by vote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from vibe_gate.domain.summary import ChangedFile, Summary
from vibe_gate.domain.verdict import CriterionResult, Vote
from vibe_gate.report import queries, svg
from vibe_gate.report.html.addresses import file_link, finding_id, place_link, to
from vibe_gate.report.markup import Html, joined, row, table, tag
from vibe_gate.report.svg import Bar, Part, Series

MOST_FILES, MOST_VOTES = 20, 20
"""Files and votes of a criterion that are shown; the tabs have the others."""

LINES = (Series("added", "s2"), Series("deleted", "s1"))


def files(summary: Summary) -> Iterator[Html]:
    """The changed files as bars, by risk, as the comment of a pull request lists them. One file needs no picture."""
    ranked = queries.riskiest_first(summary)
    if len(ranked) < 2:
        return
    found: dict[str, list[int]] = defaultdict(list)
    for index, finding in enumerate(summary.findings):
        found[finding.path].append(index)
    bars = [_bar(file, reason) for file, reason in ranked[:MOST_FILES]]
    lines = [_file_line(file, reason, found[file.path]) for file, reason in ranked[:MOST_FILES]]
    more = f"The {len(ranked) - len(bars):,} others stand in Changes." if len(ranked) > len(bars) else ""
    told = joined([tag("p", more, class_="none") if more else None, svg.legend(LINES)])
    heads = ("File", "Lines", "Look at", "Findings")
    yield svg.figure("files", "Changed files, by risk", svg.rows(bars, LINES), told, heads, lines)


def _bar(file: ChangedFile, reason: str) -> Bar:
    """Its lines; of several reasons to look at it there is room for the first."""
    added, deleted = (0, 0) if file.binary else (file.added, file.deleted)
    parts = (Part(added, f"+{added:,}"), Part(deleted, f"−{deleted:,}"))
    first, _, more = reason.partition(", ")
    shown = (f"{first}, …" if more else first) or ("binary" if file.binary else "")
    return Bar(_end(file.path), parts, shown, file_link(file.path))


def _end(path: str) -> str:
    """The end of a path, which tells files apart."""
    return path if len(path) <= svg.NAME_CHARS else f"…{path[1 - svg.NAME_CHARS :]}"


def _file_line(file: ChangedFile, reason: str, found: list[int]) -> Html:
    parts = [part for at in found for part in (", ", tag("a", f"finding {at + 1}", href=to(finding_id(at))))]
    size = "binary" if file.binary else f"+{file.added:,} −{file.deleted:,}"
    return row((tag("a", file.path, href=file_link(file.path)), size, reason, joined(parts[1:])))


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
