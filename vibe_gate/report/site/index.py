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
    drawn = () if site.is_session else tuple(render_pictures(site))
    of_all = () if site.is_session else _of_all_runs(site, drawn)
    sections = [*of_all, *tests_section.render_tests_section(site), _runs(site)]
    body = join_html([_top(site, drawn), tag("main", *sections, id="main", class_="site")])
    return render_site_page(f"{_title(site)} · vibe-gate", body, build_script_data(site))


def _title(site: Site) -> str:
    return counted(len(site.names), "test") if site.is_session else counted(len(site.runs), "run")


def _of_all_runs(site: Site, drawn: Sequence[Html]) -> Iterator[Html]:
    if drawn:
        yield tag(
            "section", tag("h2", "Pictures"), tag("div", *drawn, class_="pictures"), id="pictures"
        )
    yield from render_coverage_section(site)
    yield from labels_section.render_labels_section(site)


def _top(site: Site, drawn: Sequence[Html]) -> Html:
    """The head, with links to the parts that are there; `drawn`: the pictures."""
    total = site.total
    span = " to ".join(dict.fromkeys(map(str, (*site.days[:1], *site.days[-1:]))))
    results = Counter(run.tested.result for run in site.runs if run.tested)
    field, counts = ("result", results) if site.is_session else ("outcome", total.outcomes)
    words = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    outcomes = join_html(
        part
        for word, number in words
        for part in (tag("a", f"{number:,} {word}", href=f"#{field}={word}"), " ")
    )
    recorded = " as recorded" if site.replayed else ""
    told = [
        ("on" if site.is_session else "runs", span),
        ("runs" if site.is_session else "outcomes", outcomes),
        ("cost", f"${total.usd:,.4f}{' at most' if total.usd_at_most else ''}{recorded}"),
        ("only", cut_for_table(site.only)),
        (
            "not counted",
            ", ".join(f"{number:,} {state}" for state, number in total.not_counted.items()),
        ),
    ]
    is_said = not site.is_session and any(word != "no word yet" for word in site.words.values())
    there = (
        ("pictures", "Pictures", drawn),
        ("commits", "Commits", site.coverage),
        ("said", "What people said", is_said),
        ("tests", "Tests", site.names),
        ("runs", "Runs", True),
    )
    places = (tag("a", name, href=f"#{at}") for at, name, is_there in there if is_there)
    return tag(
        "header",
        tag("h1", _title(site)),
        tag("nav", *places, aria_label="Parts of this page"),
        render_facts(told),
        class_="top",
    )


def _runs(site: Site) -> Html:
    shown = site.runs[:MOST_STATIC]
    more = len(site.runs) - len(shown)
    newest = f"The newest {len(shown):,}; scripts show all, and sort and filter them. "
    told = []
    if not site.runs:
        none = "No runs match." if site.only else "No runs yet; vibe-gate review records one."
        told.append("No agent ran." if site.is_session else none)
    if any(not run.page for run in site.runs):
        told.append("A run without a link has no page here; vibe-gate report RUN writes it.")
    made = render_html_table(HEADS, map(_run, shown), class_="runs", id="list")
    bare = tag("span", newest, id="newest") if more > 0 else None  # which scripts remove
    notes = tag("p", bare, " ".join(told), class_="none", id="told")
    return tag("section", tag("h2", "Runs"), tag("div", id="tools"), notes, made, id="runs")


def _run(run: SiteRun) -> Html:
    """As the script makes it, too."""
    entry = run.entry
    day, _, time = entry.run_id.partition(
        "T"
    )  # of a run without a verdict nothing else says when it began
    word = run_list.run_word(entry)
    change = cut_for_table(run.shown_title) or entry.key[:SHORT_ID]
    name = tag("a", entry.run_id, href=run.page) if run.page else entry.run_id
    words = (word, run.tested.result) if run.tested else (word,)
    cells: list[Html | str] = [
        f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}:{time[4:6]}",
        join_html(
            tag("span", cut_for_table(word), class_=f"badge {cut_for_table(word)}")
            for word in words
        ),
    ]
    if entry.outcome:
        lines = f"{counted(entry.files, 'file')} +{entry.added:,} −{entry.deleted:,}"
        figures = (f"{entry.findings:,}", f"{entry.cost_usd:.4f}", format_tenths(entry.duration_ms))
        cells += [run.by, change, lines, *figures]
    else:
        cells += ["", change, "", "", "", ""]
    return table_row((*cells, name))
