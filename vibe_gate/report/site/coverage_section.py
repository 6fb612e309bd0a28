"""The commits of a site: which of them were reviewed since the first run, one by one, and as a
picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.receipts.commit_status import GOOD, ChangeIdentity, CommitStatus
from vibe_gate.report import svg
from vibe_gate.report.markup import Html, join_html, render_html_table, table_row, tag
from vibe_gate.report.sentences import SHORT_ID
from vibe_gate.report.site.site_runs import Site, cut_for_table, link_to_runs
from vibe_gate.report.svg import Bar, Part, Series

MOST_COMMITS = 1_000
"""Commits that are listed one by one: as many as `verify` takes."""

MOST_OPEN = 30
"""Commits that stand open: more would hide the runs below."""

MOST_WHY = 240
"""Characters of the reason for a status: ours, with what a person wrote of an override."""

NEVER = ("missing", "bypassed")
"""Statuses of commits that nobody reviewed."""

WITHOUT_TRACE = ("missing", "empty")
"""Statuses that say nothing of a commit that is older than the first run."""

STATUS_STYLES = {
    "reviewed": "s2",
    "empty": "s6",
    "overridden": "s3",
    "failed": "s1",
    "missing": "s4",
    "bypassed": "s5",
}
"""Of a commit; of the others the last colour."""

_Commit = tuple[ChangeIdentity, CommitStatus]


class CommitTime(Struct, frozen=True):
    """When a commit was made, and which commits it follows."""

    made_at: int | None
    """Seconds since 1970; None if the commit has no date that can be read."""
    parents: tuple[str, ...]


def commits_before(
    first_run: float, now: float, newest_first: Sequence[str], times: Mapping[str, CommitTime]
) -> frozenset[str]:
    """The commits that were made before the first run.

    Whoever makes a commit chooses its date. So a commit that follows one of after the first run
    is not older, whatever its date says. A commit without a date, or of the future, is not older
    either, but says nothing of those that follow it.

    Args:
        first_run: When it began, in seconds since 1970.
        now: The time, in seconds since 1970.
        newest_first: The commits, each before its parents.
        times: Their dates and parents.
    """
    older, newer = set[str](), set[str]()
    for commit in reversed(newest_first):
        time = times.get(commit, CommitTime(None, ()))
        if not newer.isdisjoint(time.parents):
            newer.add(commit)
        elif time.made_at is None or time.made_at > now:
            continue
        elif time.made_at >= first_run:
            newer.add(commit)
        else:
            older.add(commit)
    return frozenset(older)


def render_coverage_section(site: Site) -> Iterator[Html]:
    """The commits by status, without those that no run could have reviewed; nothing without
    commits.
    """
    if site.coverage is None or not site.coverage.commits:
        return
    by_status, uncounted = _group_commits(site, site.coverage.commits)
    counts = Counter({word: len(commits) for word, commits in by_status.items()})
    words = [word for word in STATUS_STYLES if word in counts]
    words += sorted({*counts} - {*STATUS_STYLES})
    sentence = _coverage_sentence(site, counts, words, len(uncounted))
    parts = [_coverage_figure(site, counts, words, sentence)]
    for word in sorted(words, key=_fold_order):
        is_open = word in NEVER and counts[word] <= MOST_OPEN
        parts.append(_fold_commits(word, word, by_status[word], site, is_open=is_open))
    if uncounted:
        name = "without a run"
        if site.first_run:
            name = "older than the first run"
        parts.append(_fold_commits("uncounted", name, uncounted, site))
    title = tag("h2", f"Commits: {cut_for_table(site.commits)}")
    yield tag("section", title, *parts, id="commits")


def _group_commits(
    site: Site, commits: Iterable[_Commit]
) -> tuple[dict[str, list[_Commit]], list[_Commit]]:
    """The commits by status, and those that no run could have reviewed."""
    by_status: dict[str, list[_Commit]] = {}
    uncounted: list[_Commit] = []
    for commit in commits:
        identity, status = commit
        if identity.commit in site.older and status.status in WITHOUT_TRACE:
            uncounted.append(commit)
        else:
            by_status.setdefault(status.status, []).append(commit)
    return by_status, uncounted


def _fold_order(word: str) -> tuple[bool, bool, str]:
    """Commits that were never reviewed come first, accepted ones last."""
    return word not in NEVER, word in GOOD, word


def _coverage_figure(site: Site, counts: Counter[str], words: Sequence[str], sentence: str) -> Html:
    """The counts as a bar and as a table; the sentence alone if no commit counts."""
    caption = tag("p", sentence, class_="sentence")
    if not words:
        return caption
    series = []
    parts = []
    lines = []
    for word in words:
        count, link = f"{counts[word]:,}", f"#commits-{word}"
        series.append(Series(word, STATUS_STYLES.get(word, "s7")))
        parts.append(Part(counts[word], count, link))
        lines.append(table_row((svg.link_text(word, link), count)))
    picture = svg.draw_rows([Bar(site.commits, tuple(parts))], series)
    caption = join_html([caption, svg.draw_legend(series)])
    return svg.render_figure("coverage", "Commits", picture, caption, ("Status", "Commits"), lines)


def _coverage_sentence(
    site: Site, counts: Counter[str], words: Sequence[str], uncounted: int
) -> str:
    """What the counts come to, and what they leave out."""
    sentences = [_accepted_sentence(site, counts, words, is_since=uncounted > 0)]
    if counts["overridden"]:
        sentences.append("Overridden: reviewed, and a person let pass what failed.")
    if never := sum(counts[word] for word in NEVER):
        bypassed = ""
        if counts["bypassed"]:
            bypassed = f", {counts['bypassed']:,} of them bypassed"
        sentences.append(f"{never:,} {_was(never)} never reviewed{bypassed}.")
    if uncounted and site.first_run:
        verb = "are"
        if uncounted == 1:
            verb = "is"
        older = counted(uncounted, "older commit")
        sentences.append(f"{older} without a review {verb} not counted.")
    if "~" in site.commits:
        sentences.append(
            "Commits that merges brought in are listed, too. For others: --commits RANGE."
        )
    return " ".join(filter(None, sentences))


def _accepted_sentence(
    site: Site, counts: Counter[str], words: Sequence[str], *, is_since: bool
) -> str:
    """How many of the commits `verify` accepts; `is_since`: of those since the first run alone."""
    if is_since and not site.first_run and not words:
        return "No run is stored here yet; commits count from the first run on."
    good = sum(counts[word] for word in GOOD)
    accepted = ", ".join(f"{counts[word]:,} {word}" for word in words if word in GOOD)
    sentence = f"vibe-gate verify accepts {good:,} of {counted(counts.total(), 'commit')}"
    if accepted:
        sentence += f": {accepted}"
    sentence += "."
    if not is_since or not site.first_run:
        return sentence
    if not words:
        sentence = "no commit yet."
    return f"Reviewed since {site.first_run}, the first run stored here: {sentence}"


def _was(number: int) -> str:
    if number == 1:
        return "was"
    return "were"


def _fold_commits(
    word: str, name: str, commits: Sequence[_Commit], site: Site, *, is_open: bool = False
) -> Html:
    """Commits of one kind, one by one. `word` ends the fold's id."""
    run_ids = {run.entry.run_id for run in site.runs}
    lines = []
    for identity, status in commits[:MOST_COMMITS]:
        lines.append(_commit_row(identity, status, site, run_ids))
    heads = ("Commit", "Title", "Day", "Author", "Why", "Run")
    table = render_html_table(heads, lines, class_="commits")
    summary = tag("summary", f"{name}: {counted(len(commits), 'commit')}")
    open_attribute = None
    if is_open:
        open_attribute = ""
    return tag("details", summary, table, id=f"commits-{word}", open=open_attribute)


def _commit_row(
    identity: ChangeIdentity, status: CommitStatus, site: Site, run_ids: set[str]
) -> Html:
    run_id = ""
    if status.found:
        run_id = status.found.run_id
    run_cell: Html | str = cut_for_table(run_id)
    if run_id in run_ids:
        run_cell = svg.link_text(run_id, link_to_runs(run=run_id))
    reason = ""
    if status.why != status.status:
        reason = cut_for_table(status.why, MOST_WHY)
    day, author = site.authorship.get(identity.commit, ("", ""))
    cells = (
        tag("code", identity.commit[:SHORT_ID]),
        cut_for_table(identity.title),
        cut_for_table(day),
        cut_for_table(author),
        reason,
        run_cell,
    )
    return table_row(cells)
