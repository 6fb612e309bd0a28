"""The index of a site as it stands without scripts: head, pictures, commits, and the newest
runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vibe_gate.domain.escape import counted
from vibe_gate.report import run_list
from vibe_gate.report.html import render_site_page
from vibe_gate.report.markup import Html, join_html, render_facts, render_html_table, table_row, tag
from vibe_gate.report.sentences import SHORT_ID
from vibe_gate.report.site import labels_section, tests_section
from vibe_gate.report.site.coverage_section import render_coverage_section
from vibe_gate.report.site.pictures import render_pictures
from vibe_gate.report.site.site_runs import (
    Site,
    SiteRun,
    build_script_data,
    cut_for_table,
    format_tenths,
)
from vibe_gate.report.statistics import largest_first

HEADS = (
    "Time (UTC)",
    "Outcome",
    "Author (agent)",
    "Change",
    "Lines",
    "Found",
    "USD",
    "Seconds",
    "Run",
)

MOST_STATIC = 300
"""Runs that the page lists without scripts; with them, all."""


def render_index_page(site: Site) -> str:
    """The page; the same runs give the same text."""
    pictures: list[Html] = []
    sections: list[Html] = []
    if not site.is_session:
        pictures += render_pictures(site)
        sections += _sections_of_all_runs(site, pictures)
    sections += tests_section.render_tests_section(site)
    sections.append(_runs_section(site))
    main = tag("main", *sections, id="main", class_="site")
    body = join_html([_page_head(site, pictures), main])
    return render_site_page(f"{_site_title(site)} · vibe-gate", body, build_script_data(site))


def _site_title(site: Site) -> str:
    if site.is_session:
        return counted(len(site.names), "test")
    return counted(len(site.runs), "run")


def _sections_of_all_runs(site: Site, pictures: Sequence[Html]) -> Iterator[Html]:
    if pictures:
        figures = tag("div", *pictures, class_="pictures")
        yield tag("section", tag("h2", "Pictures"), figures, id="pictures")
    yield from render_coverage_section(site)
    yield from labels_section.render_labels_section(site)


def _page_head(site: Site, pictures: Sequence[Html]) -> Html:
    """The head, with links to the parts that are there."""
    title = tag("h1", _site_title(site))
    links = tag("nav", *_part_links(site, pictures), aria_label="Parts of this page")
    return tag("header", title, links, render_facts(_head_facts(site)), class_="top")


def _head_facts(site: Site) -> list[tuple[str, str]]:
    """Days, outcomes or results, cost, and what was left out."""
    total = site.total
    days = ""
    if site.days:
        first_and_last = dict.fromkeys([str(site.days[0]), str(site.days[-1])])
        days = " to ".join(first_and_last)
    cost = f"${total.usd:,.4f}"
    if total.usd_at_most:
        cost += " at most"
    if site.replayed:
        cost += " as recorded"
    not_counted = [f"{number:,} {state}" for state, number in total.not_counted.items()]
    return [
        ("on" if site.is_session else "runs", days),
        ("runs" if site.is_session else "outcomes", _outcome_links(site)),
        ("cost", cost),
        ("only", cut_for_table(site.only)),
        ("not counted", ", ".join(not_counted)),
    ]


def _outcome_links(site: Site) -> Html:
    """How many runs had each outcome, or each result of a test, with links to them."""
    field, counts = "outcome", site.total.outcomes
    if site.is_session:
        field, counts = "result", Counter(run.tested.result for run in site.runs if run.tested)
    parts: list[str] = []
    for word, number in largest_first(counts):
        parts += [tag("a", f"{number:,} {word}", href=f"#{field}={word}"), " "]
    return join_html(parts)


def _part_links(site: Site, pictures: Sequence[Html]) -> Iterator[Html]:
    has_words = any(word != "no word yet" for word in site.words.values())
    parts = (
        ("pictures", "Pictures", bool(pictures)),
        ("commits", "Commits", bool(site.coverage)),
        ("said", "What people said", has_words and not site.is_session),
        ("tests", "Tests", bool(site.names)),
        ("runs", "Runs", True),
    )
    for name, title, is_present in parts:
        if is_present:
            yield tag("a", title, href=f"#{name}")


def _runs_section(site: Site) -> Html:
    """The newest runs; scripts show all."""
    runs = site.runs[:MOST_STATIC]
    notes: list[str] = []
    if not site.runs:
        notes.append(_no_runs_note(site))
    if any(not run.page for run in site.runs):
        notes.append("A run without a link has no page here; vibe-gate report RUN writes it.")
    static_note = None
    if len(site.runs) > len(runs):  # scripts remove it
        text = f"The newest {len(runs):,}; scripts show all, and sort and filter them. "
        static_note = tag("span", text, id="newest")
    table = render_html_table(HEADS, map(_run_row, runs), class_="runs", id="list")
    note = tag("p", static_note, " ".join(notes), class_="none", id="told")
    return tag("section", tag("h2", "Runs"), tag("div", id="tools"), note, table, id="runs")


def _no_runs_note(site: Site) -> str:
    if site.is_session:
        return "No agent ran."
    if site.only:
        return "No runs match."
    return "No runs yet; vibe-gate review records one."


def _run_row(run: SiteRun) -> Html:
    """As the script makes it, too."""
    entry = run.entry
    words = [run_list.run_word(entry)]
    if run.tested:
        words.append(run.tested.result)
    badges = [cut_for_table(word) for word in words]
    cells: list[Html | str] = [
        _time_of_run(entry.run_id),
        join_html(tag("span", badge, class_=f"badge {badge}") for badge in badges),
    ]
    change = cut_for_table(run.shown_title) or entry.key[:SHORT_ID]
    if entry.outcome:
        lines = f"{counted(entry.files, 'file')} +{entry.added:,} −{entry.deleted:,}"
        figures = (f"{entry.findings:,}", f"{entry.cost_usd:.4f}", format_tenths(entry.duration_ms))
        cells += [run.by, change, lines, *figures]
    else:
        cells += ["", change, "", "", "", ""]
    cells.append(tag("a", entry.run_id, href=run.page) if run.page else entry.run_id)
    return table_row(cells)


def _time_of_run(run_id: str) -> str:
    """When it began: of a run without a verdict nothing else says it."""
    day, _, time = run_id.partition("T")
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}:{time[4:6]}"
