"""The pictures of a site that have names beside their bars: criteria, authors, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.report import feedback
from vibe_gate.report.markup import Html, join_html, join_with_commas, tag
from vibe_gate.report.site.picture_parts import (
    FEWEST,
    MOST_LINES,
    LinkedValue,
    PictureRow,
    draw_by_row,
)
from vibe_gate.report.site.site_runs import (
    MOST_PATHS,
    Site,
    SiteRun,
    cut_for_table,
    link_to_runs,
)
from vibe_gate.report.statistics import AuthorRuns, largest_first, most_runs_first
from vibe_gate.report.svg import Series

MOST_NAMED = 3
"""Files that a sentence names."""

WAIVED_MEANINGS = (
    "Accepted: right, but let pass. Overridden: let pass, neither called right nor wrong."
)

_AUTHORS = {"agent": "agents", "human": "people"}

_WORD_STYLES = dict(zip(feedback.WORDS, ("s2", "s0", "s3", "s1", "s7"), strict=True))

_FAILED_SERIES = (Series("failed", "fail"), Series("others", "s7"))


def draw_criteria(site: Site) -> Html | None:
    """Findings by criterion, with what people said of them; those that are wrong most often come
    first.
    """
    words_by_criterion: dict[str, Counter[str]] = {}
    for (criterion, _), word in site.words.items():
        words_by_criterion.setdefault(criterion, Counter())[word] += 1
    if not words_by_criterion:
        return None

    def order(entry: tuple[str, Counter[str]]) -> tuple[int, int, str]:
        criterion, words = entry
        return -words["wrong"], -words.total(), criterion

    ranked = sorted(words_by_criterion.items(), key=order)
    rows = []
    for criterion, words in ranked:
        values: list[LinkedValue] = []
        for word in feedback.WORDS:
            values.append((words[word], link_to_runs(criterion=criterion, said=word)))
        name, link = cut_for_table(criterion), link_to_runs(criterion=criterion)
        rows.append(PictureRow(name, f"{words.total():,}", link, values))
    return draw_by_row(
        "findings",
        "Findings by criterion, and what people said",
        ("Criterion", "Found"),
        [Series(word, _WORD_STYLES[word]) for word in feedback.WORDS],
        rows,
        _criteria_caption(site, *ranked[0]),
    )


def _criteria_caption(site: Site, criterion: str, words: Counter[str]) -> Html | None:
    """Which criterion is wrong most often, and what two of the words mean if they stand there."""
    parts: list[str] = []
    if words["wrong"]:
        parts.append(_wrong_sentence(site, criterion, words))
    if not {"accepted", "overridden"}.isdisjoint(site.words.values()):
        parts.append(WAIVED_MEANINGS)
    if not parts:
        return None
    return join_html(parts)


def _wrong_sentence(site: Site, criterion: str, words: Counter[str]) -> Html:
    labelled = counted(words["right"] + words["accepted"] + words["wrong"], "finding")
    runs = sum(_has_wrong_finding(site, run, criterion) for run in site.runs)
    return join_html(
        [
            f"Wrong most often: {cut_for_table(criterion)}, "
            f"{words['wrong']:,} of {labelled} that people labelled, in ",
            tag("a", counted(runs, "run"), href=link_to_runs(criterion=criterion, said="wrong")),
            ". ",
        ]
    )


def _has_wrong_finding(site: Site, run: SiteRun, criterion: str) -> bool:
    """Whether people called a finding wrong that the criterion has in this run."""
    of_criterion = (item for item in run.figures.findings if criterion in item.sources)
    return any(site.words[criterion, item.fingerprint] == "wrong" for item in of_criterion)


def draw_authors(site: Site) -> Html | None:
    """Runs of people's and agents' changes: how many failed, and of how many commits."""
    total = site.total
    if not total.runs:
        return None
    commits_by_link = _commits_by_link(site)
    rows = []
    for kind, author in most_runs_first(total.authors):
        name = _AUTHORS.get(kind, cut_for_table(kind))
        rows.append(_author_row(name, author, link_to_runs(author=kind), commits_by_link))
    for agent, author in most_runs_first(total.agents):
        rows.append(_author_row(agent, author, link_to_runs(agent=agent), commits_by_link))
    return draw_by_row(
        "authors",
        "Who wrote the change",
        ("Author", "Runs", "Commits"),
        _FAILED_SERIES,
        rows,
        _most_failing_agent(site, commits_by_link),
    )


class _AuthorCommits(Struct):
    """Reviewed commits of an author, by key of their runs."""

    reviewed: set[str]
    failed: set[str]
    """Those that failed once or more."""

    def words(self) -> str:
        """How many failed: "19 of 36"."""
        return f"{len(self.failed):,} of {len(self.reviewed):,}"


def _author_row(
    name: str, author: AuthorRuns, link: str, commits_by_link: Mapping[str, _AuthorCommits]
) -> PictureRow:
    text = f"{author.failed:,} of {author.runs:,} failed"
    values = [(author.failed, f"{link}&outcome=fail"), (author.runs - author.failed, link)]
    commits = commits_by_link.get(link)
    remark = ""
    if commits:
        remark = f"{commits.words()} failed"
    return PictureRow(cut_for_table(name), text, link, values, remark)


def _commits_by_link(site: Site) -> dict[str, _AuthorCommits]:
    """By the link to an author's runs, the author's commits."""
    commits_by_link: dict[str, _AuthorCommits] = {}
    for run in site.runs:
        if run.entry.state != "sealed" or not run.entry.is_of_commit:
            continue
        links = [link_to_runs(author=run.entry.author)]
        links += [link_to_runs(agent=agent) for agent in run.figures.agents]
        for link in links:
            commits = commits_by_link.setdefault(link, _AuthorCommits(set(), set()))
            commits.reviewed.add(run.entry.key)
            if run.entry.outcome == "fail":
                commits.failed.add(run.entry.key)
    return commits_by_link


def _most_failing_agent(site: Site, commits_by_link: Mapping[str, _AuthorCommits]) -> Html | None:
    """Of several agents that with the greatest share of failed runs."""
    agents = {name: runs for name, runs in site.total.agents.items() if runs.runs >= FEWEST}
    if len(agents) < 2 or not any(runs.failed for runs in agents.values()):
        return None
    name = max(agents, key=lambda name: (agents[name].failed / agents[name].runs, name))
    runs = agents[name]
    link = link_to_runs(agent=name, outcome="fail")
    commits = commits_by_link.get(link_to_runs(agent=name))
    of_commits = ""
    if commits:
        of_commits = f", and {commits.words()} commits"
    return join_html(
        [
            f"Of agents, {cut_for_table(name)} fails most: ",
            tag("a", f"{runs.failed:,} of {runs.runs:,} runs", href=link),
            f" ({runs.failed / runs.runs:.0%}){of_commits}.",
        ]
    )


def draw_files(site: Site) -> Html | None:
    """The files that most failed runs change."""
    runs, failed_runs = Counter[str](), Counter[str]()
    for run in site.runs:
        paths = {*run.entry.paths[:MOST_PATHS]}
        runs.update(paths)
        if run.entry.outcome == "fail":
            failed_runs.update(paths)
    if not failed_runs:
        return None
    rows = []
    for path, failed in largest_first(failed_runs)[:MOST_LINES]:
        link = link_to_runs(path=path)
        text = f"{failed:,} of {runs[path]:,} failed"
        values = [(failed, f"{link}&outcome=fail"), (runs[path] - failed, link)]
        rows.append(PictureRow(cut_for_table(path), text, link, values))
    title = "Files that failed runs change"
    caption = _most_failing_files(failed_runs)
    return draw_by_row("files", title, ("File", "Runs"), _FAILED_SERIES, rows, caption)


def _most_failing_files(failed_runs: Counter[str]) -> Html | None:
    """The files that most failed runs change, unless they are many or the runs few."""
    most = max(failed_runs.values())
    paths = sorted(path for path, number in failed_runs.items() if number == most)
    if most < 2 or len(paths) > MOST_NAMED:
        return None
    parts = []
    for path in paths:
        link = link_to_runs(path=path, outcome="fail")
        parts.append(tag("a", cut_for_table(path), href=link))
    ending = ""
    if len(paths) > 1:
        ending = " each"
    links = join_with_commas(parts)
    return join_html(["Most: ", links, f", changed by {most:,} failed runs{ending}."])
