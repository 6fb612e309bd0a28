"""The pictures of a site: each with the same figures as a table, and links to the runs behind
them.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from msgspec import UNSET

from vibe_gate.domain.calibration import earned
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Trust
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.verdict import TrustBadge
from vibe_gate.report import feedback, run_list, svg
from vibe_gate.report.markup import Html, and_more, join_html, render_html_table, table_row, tag
from vibe_gate.report.outcome_words import OUTCOME_WORDS, outcome_style
from vibe_gate.report.sentences import advice_sentence
from vibe_gate.report.site.site_runs import (
    MOST_PATHS,
    DaySpan,
    Site,
    SiteRun,
    cut_for_table,
    format_tenths,
    link_to_runs,
)
from vibe_gate.report.statistics import AuthorRuns
from vibe_gate.report.svg import STYLES, Bar, Part, Range, Series

COLUMN_ORDER = (
    "pass",
    "checks-only",
    "nothing",
    "done",
    "approval",
    "fail",
    "inconclusive",
    "error",
)
"""How columns of outcomes are built from below; a list's other words follow."""

PASSES = ("checks-only", "nothing", "done", "approval")
"""Outcomes that are a pass in a summary, and less than one."""

MOST_ROWS = 12
"""Rows of a picture; its table has a few more, and the selection above the list of runs has all."""

MOST_NAMED = 3
"""Files that a sentence names."""

MOST_LINES = 100
"""Rows of a table of figures."""

AS_OF_NOW = (
    "This is how it stands now, with what people said of findings since; a run's page says what held when it ran. "
    "Checks always block and are not listed."
)

FEWEST = 5
"""Runs of which a sentence compares the share or the median."""

_AUTHORS = {"agent": "agents", "human": "people"}

WAIVED_MEANINGS = (
    "Accepted: right, but let pass. Overridden: let pass, neither called right nor wrong."
)

_WORD_STYLES = dict(zip(feedback.WORDS, ("s2", "s0", "s3", "s1", "s7"), strict=True))


def render_pictures(site: Site) -> Iterator[Html]:
    """Those for which there are figures."""
    if site.spans:
        yield draw_outcomes(site)
        yield from filter(None, (draw_spending(site), draw_durations(site), draw_reuse(site)))
    yield from filter(
        None,
        (
            draw_criteria(site),
            draw_authors(site),
            draw_files(site),
            draw_judges(site),
            *draw_calibration(site),
        ),
    )


def draw_outcomes(site: Site) -> Html:
    """Runs over time by outcome."""
    by_span = {
        span: Counter(run_list.run_word(run.entry) for run in runs)
        for span, runs in site.by_span.items()
    }
    there = {word for counts in by_span.values() for word in counts}
    words = [*(word for word in COLUMN_ORDER if word in there), *sorted(there - {*COLUMN_ORDER})]
    series = [Series(word, outcome_style(word)) for word in words]
    told = " · ".join(f"{word}: {OUTCOME_WORDS[word].meaning}" for word in words if word in PASSES)
    return _over_time(
        "runs-over-time",
        f"Runs by outcome, {site.unit}",
        series,
        [
            (span, [(counts[word], link_to_runs(span, outcome=word)) for word in words])
            for span, counts in by_span.items()
        ],
        _count,
        told=told,
    )


def draw_spending(site: Site) -> Html | None:
    """US dollars over time by model, the dearest first; of many, the others as one."""
    dearest = Counter[str](site.total.usd_by_model)
    names = [name for name, usd in dearest.most_common(len(STYLES) - 1) if usd > 0]
    if not site.total.usd:
        return None
    rows = []
    for span, runs in site.by_span.items():
        usd = Counter[str]()
        for run in runs:
            usd.update(run.figures.usd_by_model)
        rest = sum(run.entry.cost_usd for run in runs) - sum(usd[name] for name in names)
        parts = [(usd[name], link_to_runs(span, model=name)) for name in names]
        rows.append((span, [*parts, (rest if rest > 1e-6 else 0.0, span.link)]))
    series = [
        Series(cut_for_table(name), style) for name, style in zip(names, STYLES, strict=False)
    ]
    if any(parts[-1][0] for _, parts in rows):
        series.append(Series("other", STYLES[-1]))
    rows = [(span, parts[: len(series)]) for span, parts in rows]
    title = f"US dollars by model, {site.unit}"
    return _over_time(
        "usd-over-time", title, series, rows, _dollars, ".4f", _dearest(site), adds_up=True
    )


def _dearest(site: Site) -> Html | None:
    """The day on which most was spent, and its dearest run."""
    by_day = site.total.usd_by_day
    day = max(by_day, key=lambda day: (by_day[day], day))
    run = max(
        (run for run in site.runs if run.entry.created_at[:10] == day),
        key=lambda run: run.entry.cost_usd,
    )
    spent = tag("a", f"{day}: ${by_day[day]:,.4f}", href=f"#from={day}&to={day}&sort=-usd")
    dearest = tag("a", run.entry.run_id, href=run.page or link_to_runs(run=run.entry.run_id))
    on = f", ${run.entry.cost_usd:,.4f} of it on {cut_for_table(run.entry.workflow)} "
    return join_html(["Most was spent on ", spent, on, dearest, "."])


def draw_durations(site: Site) -> Html | None:
    """How long reviews took: the median and the slowest tenth of those that asked a model, the
    median of the others.

    Of other workflows the agents would count, too.
    """
    series = [
        Series("asked a model: median", "s0"),
        Series("slowest tenth", "s1"),
        Series("asked none: median", "s7"),
    ]
    bars, lines = [], []
    for span, runs in site.by_span.items():
        ended = [run.entry for run in runs if _is_review(run)]
        asked = [entry.duration_ms for entry in ended if entry.cost_basis != "none"]
        others = [entry.duration_ms for entry in ended if entry.cost_basis == "none"]
        wanted = ((asked, 0.5), (asked, 0.9), (others, 0.5))
        values = [_quantile(times, share) if times else None for times, share in wanted]
        shown = ["" if value is None else f"{format_tenths(value)} s" for value in values]
        parts = [
            None if value is None else Part(value / 1000, text)
            for value, text in zip(values, shown, strict=True)
        ]
        link = link_to_runs(span, workflow="review")
        bars.append(Bar(span.name, tuple(parts), "", link, span.shown))
        if ended:
            lines.append(table_row((svg.link_text(span.shown, link), *shown)))
    if not lines:
        return None
    drawn = svg.draw_lines(bars, series, lambda value: f"{value:,g} s")
    heads = ("Days", *(one.name for one in series))
    about = join_html([_sentence(_pace(site)), svg.draw_legend(series)])
    return svg.render_figure(
        "seconds", f"Seconds a review, {site.unit}", drawn, about, heads, lines
    )


def _is_review(run: SiteRun) -> bool:
    return run.entry.state == "sealed" and run.entry.workflow == "review"


def _pace(site: Site) -> Html | None:
    """The median of the newest week that is over beside that of four weeks earlier; None if either
    has few reviews that asked a model. Weeks end on Sunday.
    """
    last = site.days[-1] - timedelta((site.days[-1].weekday() + 1) % 7)
    weeks = [DaySpan(last - timedelta(ago + 6), last - timedelta(ago), "") for ago in (0, 28)]
    asked: list[list[int]] = []
    for week in weeks:
        days = {f"{day:%Y%m%d}" for day in week.days}
        runs = (run.entry for run in site.runs if run.entry.run_id[:8] in days and _is_review(run))
        asked.append([entry.duration_ms for entry in runs if entry.cost_basis != "none"])
    if min(map(len, asked)) < FEWEST:
        return None
    now, then = (_quantile(times, 0.5) for times in asked)
    change = (
        f"{abs(now / then - 1):.0%} {'slower' if now > then else 'faster'}" if then else "slower"
    )
    shown = [tag("a", week.shown, href=link_to_runs(week, workflow="review")) for week in weeks]
    told: list[str] = [
        f"Median of those that asked a model: {format_tenths(now)} s from ",
        shown[0],
    ]
    return join_html([*told, f", {format_tenths(then)} s from ", shown[1], f": {change}."])


def draw_reuse(site: Site) -> Html | None:
    """Answers of judges that earlier runs gave already."""
    if not site.total.hits:
        return None
    series = [Series("answered by an earlier run", "s2"), Series("asked", "s7")]
    rows = []
    for span, runs in site.by_span.items():
        hits, misses = (
            sum(getattr(run.figures, name) for run in runs) for name in ("hits", "misses")
        )
        rows.append((span, [(hits, link_to_runs(span, reused="1")), (misses, span.link)]))
    total = site.total
    share = total.hits / (total.hits + total.misses)
    saved = ""
    if total.saved_usd is not None:
        saved = f"; ${total.saved_usd:,.4f} were not paid again, as far as the runs that paid it are stored"
    using = sum(run.figures.hits > 0 for run in site.runs)
    answers = counted(total.hits + total.misses, "answer")
    told = join_html(
        [
            f"{total.hits:,} of {answers} ({share:.0%}) from earlier runs, in ",
            tag("a", counted(using, "run"), href="#reused=1"),
            f"{saved}.",
        ]
    )
    return _over_time("reuse", f"Answers used again, {site.unit}", series, rows, _count, told=told)


def draw_criteria(site: Site) -> Html | None:
    """Findings by criterion, with what people said of them; those that are wrong most often come
    first.
    """
    said: dict[str, Counter[str]] = {}
    for (source, _), word in site.words.items():
        said.setdefault(source, Counter())[word] += 1
    if not said:
        return None
    series = [Series(word, _WORD_STYLES[word]) for word in feedback.WORDS]
    most = sorted(said.items(), key=lambda item: (-item[1]["wrong"], -item[1].total(), item[0]))
    rows = [
        (
            cut_for_table(name),
            f"{words.total():,}",
            link_to_runs(criterion=name),
            [(words[word], link_to_runs(criterion=name, said=word)) for word in feedback.WORDS],
        )
        for name, words in most
    ]
    title = "Findings by criterion, and what people said"
    return _by_row(
        "findings", title, ("Criterion", "Found"), series, rows, _of_findings(site, *most[0])
    )


def _of_findings(site: Site, name: str, words: Counter[str]) -> Html | None:
    """Which criterion is wrong most often, and what two of the words mean if they stand there."""
    has_waived = not {"accepted", "overridden"}.isdisjoint(site.words.values())
    parts = [*filter(None, (_wrong(site, name, words), WAIVED_MEANINGS if has_waived else ""))]
    return join_html(parts) if parts else None


def _wrong(site: Site, name: str, words: Counter[str]) -> Html | None:
    if not words["wrong"]:
        return None
    labelled = counted(words["right"] + words["accepted"] + words["wrong"], "finding")
    having = sum(
        any(
            name in one.sources and site.words[name, one.fingerprint] == "wrong"
            for one in run.figures.findings
        )
        for run in site.runs
    )
    runs = tag("a", counted(having, "run"), href=link_to_runs(criterion=name, said="wrong"))
    told = f"Wrong most often: {cut_for_table(name)}, {words['wrong']:,} of {labelled} that people labelled, in "
    return join_html([told, runs, ". "])


def draw_authors(site: Site) -> Html | None:
    """Runs of people's and agents' changes: how many failed, and of how many commits."""
    total = site.total
    if not total.runs:
        return None
    series = [Series("failed", "fail"), Series("others", "s7")]
    every = [
        (_AUTHORS.get(name, cut_for_table(name)), one, link_to_runs(author=name))
        for name, one in _most_runs(total.authors)
    ]
    every += [(name, one, link_to_runs(agent=name)) for name, one in _most_runs(total.agents)]
    rows = [
        (
            cut_for_table(name),
            f"{one.failed:,} of {one.runs:,} failed",
            link,
            [(one.failed, f"{link}&outcome=fail"), (one.runs - one.failed, link)],
        )
        for name, one, link in every
    ]
    commits = _failed_commits(site)
    told = _most_failed(site, commits)
    also = ("Commits", {link: f"{number} failed" for link, number in commits.items()})
    return _by_row("authors", "Who wrote the change", ("Author", "Runs"), series, rows, told, also)


def _failed_commits(site: Site) -> dict[str, str]:
    """By the link to an author's runs, how many of the author's commits failed once or more: "19 of
    36".
    """
    every: dict[str, tuple[set[str], set[str]]] = {}
    for run in site.runs:
        if run.entry.state == "sealed" and run.entry.is_of_commit:
            links = (
                link_to_runs(author=run.entry.author),
                *(link_to_runs(agent=name) for name in run.figures.agents),
            )
            for link in links:
                commits, failed = every.setdefault(link, (set(), set()))
                commits.add(run.entry.key)
                failed.update({run.entry.key} if run.entry.outcome == "fail" else ())
    return {
        link: f"{len(failed):,} of {len(commits):,}" for link, (commits, failed) in every.items()
    }


def _most_failed(site: Site, commits: Mapping[str, str]) -> Html | None:
    """Of several agents that with the greatest share of failed runs."""
    known = {name: one for name, one in site.total.agents.items() if one.runs >= FEWEST}
    if len(known) < 2 or not any(one.failed for one in known.values()):
        return None
    name, one = max(known.items(), key=lambda item: (item[1].failed / item[1].runs, item[0]))
    number = tag(
        "a", f"{one.failed:,} of {one.runs:,} runs", href=link_to_runs(agent=name, outcome="fail")
    )
    of_commits = commits.get(link_to_runs(agent=name), "")
    of_commits = of_commits and f", and {of_commits} commits"
    return join_html(
        [
            f"Of agents, {cut_for_table(name)} fails most: ",
            number,
            f" ({one.failed / one.runs:.0%}){of_commits}.",
        ]
    )


def draw_files(site: Site) -> Html | None:
    """The files that most failed runs change."""
    runs, failed = Counter[str](), Counter[str]()
    for run in site.runs:
        runs.update({*run.entry.paths[:MOST_PATHS]})
        failed.update({*run.entry.paths[:MOST_PATHS]} if run.entry.outcome == "fail" else ())
    if not failed:
        return None
    series = [Series("failed", "fail"), Series("others", "s7")]
    rows = []
    for path, number in sorted(failed.items(), key=lambda item: (-item[1], item[0]))[:MOST_LINES]:
        link = link_to_runs(path=path)
        parts = [(number, f"{link}&outcome=fail"), (runs[path] - number, link)]
        rows.append((cut_for_table(path), f"{number:,} of {runs[path]:,} failed", link, parts))
    title = "Files that failed runs change"
    return _by_row("files", title, ("File", "Runs"), series, rows, _most_changed(failed))


def _most_changed(failed: Counter[str]) -> Html | None:
    """The files that most failed runs change, unless they are many or the runs few."""
    most = max(failed.values())
    names = sorted(path for path, number in failed.items() if number == most)
    if most < 2 or len(names) > MOST_NAMED:
        return None
    links = [
        tag("a", cut_for_table(path), href=link_to_runs(path=path, outcome="fail"))
        for path in names
    ]
    between = [join_html([", " if at else "", link]) for at, link in enumerate(links)]
    return join_html(
        [
            "Most: ",
            *between,
            f", changed by {most:,} failed runs{' each' if len(names) > 1 else ''}.",
        ]
    )


def draw_judges(site: Site) -> Html | None:
    """Whether the fail of each judge question blocks now, and the figures that decide it: a table
    alone.
    """
    if not site.judges:
        return None
    lines = []
    for (rubric, criterion), badge in site.judges.items():
        name = f"{rubric}/{criterion}"
        told = (
            _may_block(badge, site.trust),
            _clean_blocked(badge),
            _defects_found(badge),
            _calibrated(badge),
        )
        lines.append(
            table_row((svg.link_text(cut_for_table(name), link_to_runs(criterion=name)), *told))
        )
    title = "May a judge's fail block?"
    caption = tag(
        "figcaption",
        tag("h3", title),
        tag("p", f"{_rule(site.trust)} {AS_OF_NOW}", class_="sentence"),
    )
    heads = (
        "Criterion",
        "May block",
        "Clean changes blocked",
        "Defects found (95 % interval)",
        "Calibration",
    )
    return tag(
        "figure",
        caption,
        render_html_table(heads, lines, class_="figures"),
        id="judges",
        aria_label=title,
    )


def _rule(trust: Trust) -> str:
    """What `[trust]` asks of a judge."""
    if trust.block == "earned":
        most = f"{trust.max_false_blocks:.1%}".replace(".0%", "%")
        return f"A fail blocks while labelled answers show that the judge blocks at most {most} of clean changes."
    if trust.uncalibrated == "advise":
        return "A fail blocks if its judge is calibrated."
    return (
        "Every fail blocks, whatever is known of its judge ([trust] in gate.toml can change that)."
    )


def _may_block(badge: TrustBadge, trust: Trust) -> str:
    if badge.blocks:
        return "yes"
    of_cases = badge.clean - badge.wrong, badge.blocked - badge.wrong
    is_lost = (
        trust.block == "earned" and badge.wrong > 0 and earned(*of_cases, trust.max_false_blocks)
    )
    labelled = counted(badge.wrong, "change")
    lost = f". It would block without the {labelled} labelled wrong" if is_lost else ""
    return f"no, {advice_sentence(badge)}{lost}"


def _clean_blocked(badge: TrustBadge) -> str:
    """Of cases, and of changes on which people called its findings wrong; both, as the run's page
    adds them up.
    """
    cases, labelled = badge.clean - badge.wrong, counted(badge.wrong, "change")
    of_cases = f"{badge.blocked - badge.wrong:,} of {counted(cases, 'case')}" if cases else ""
    if not (of_cases and badge.wrong):
        return of_cases or (f"{labelled} labelled wrong" if badge.wrong else "")
    return f"{badge.blocked:,} of {badge.clean:,}: {of_cases} and {labelled} labelled wrong"


def _defects_found(badge: TrustBadge) -> str:
    if badge.recall is UNSET:
        return ""
    share = f"{badge.recall.value:.0%} ({badge.recall.low:.0%} to {badge.recall.high:.0%})"
    return f"{badge.found:,} of {badge.defective:,}: {share}"


def _calibrated(badge: TrustBadge) -> str:
    """Whether there is a calibration, or why it does not count."""
    if badge.state == "unsteady":
        return f"unsteady: {counted(badge.flips, 'case')} flipped"
    return badge.state if badge.state == "calibrated" else badge.sentence


def draw_calibration(site: Site) -> Iterator[Html]:
    """How far judges can be trusted: shares with their 95 % intervals, of labelled findings and
    labelled cases.
    """
    labelled = [
        (
            f"{one.rubric}/{one.criterion}",
            one.precision,
            f"{one.right:,} of {one.right + one.wrong:,}",
        )
        for one in site.total.criteria
    ]
    measured = [
        (f"{base.rubric}/{one.id}", one) for base in site.baselines for one in base.criterion
    ]
    found = [(name, one.recall, f"{one.found:,} of {one.defective:,}") for name, one in measured]
    blocks = [
        (name, one.false_blocks, f"{one.clean_blocked:,} of {one.clean:,}")
        for name, one in measured
    ]
    beside = "Cases alone: changes that people labelled wrong are not among them."
    for name, title, shares, told in (
        ("precision", "Right, of the findings with a label", labelled, ""),
        ("recall", "Found, of the defective cases of vibe-gate calibrate", found, ""),
        ("false-blocks", "Blocked, of the clean cases of vibe-gate calibrate", blocks, beside),
    ):
        yield from _shares(name, title, shares, told)


def _shares(
    name: str, title: str, shares: Iterable[tuple[str, Interval | None, str]], told: str
) -> Iterator[Html]:
    there = [(of, interval, shown) for of, interval, shown in shares if interval is not None]
    if not there:
        return
    drawn = svg.draw_ranges(
        [
            Range(cut_for_table(of), one, shown, link_to_runs(criterion=of))
            for of, one, shown in there[:MOST_ROWS]
        ]
    )
    lines = [
        table_row(
            (
                svg.link_text(cut_for_table(of), link_to_runs(criterion=of)),
                shown,
                f"{one.value:.0%}",
                f"{one.low:.0%} to {one.high:.0%}",
            )
        )
        for of, one, shown in there[:MOST_LINES]
    ]
    yield svg.render_figure(
        name, title, drawn, _sentence(told), ("Criterion", "Cases", "Share", "95 % interval"), lines
    )


def _over_time(
    name: str,
    title: str,
    series: Sequence[Series],
    rows: Sequence[tuple[DaySpan, Sequence[tuple[float, str]]]],
    tick: Callable[[float], str],
    form: str = ",.0f",
    told: Html | str | None = None,
    *,
    adds_up: bool = False,
) -> Html:
    """`adds_up`: the table has a column of totals."""
    bars, lines = [], []
    for span, parts in rows:
        shown = [format(value, form) for value, _ in parts]
        each = (Part(value, text, link) for (value, link), text in zip(parts, shown, strict=True))
        bars.append(Bar(span.name, tuple(each), "", span.link, span.shown))
        if any(value for value, _ in parts):
            cells = [
                svg.link_text(text, link) if value else ""
                for text, (value, link) in zip(shown, parts, strict=True)
            ]
            if adds_up:
                cells.append(
                    svg.link_text(format(sum(value for value, _ in parts), form), span.link)
                )
            lines.append(table_row((svg.link_text(span.shown, span.link), *cells)))
    about = join_html([_sentence(told), svg.draw_legend(series)])
    heads = ("Days", *(one.name for one in series), *(("total",) if adds_up else ()))
    return svg.render_figure(name, title, svg.draw_columns(bars, series, tick), about, heads, lines)


def _by_row(
    name: str,
    title: str,
    heads: tuple[str, str],
    series: Sequence[Series],
    rows: Sequence[tuple[str, str, str, Sequence[tuple[int, str]]]],
    told: Html | None = None,
    also: tuple[str, Mapping[str, str]] | None = None,
) -> Html:
    """`also`: the head of one more column of the table, and its cells by the link of the row."""
    bars, lines = [], []
    for of, shown, link, parts in rows[:MOST_LINES]:
        each = tuple(Part(value, f"{value:,}", leads) for value, leads in parts)
        bars.append(Bar(of, each, shown, link))
        cells = (svg.link_text(f"{value:,}", leads) if value else "" for value, leads in parts)
        more_told = (also[1].get(link, ""),) if also else ()
        lines.append(table_row((svg.link_text(of, link), shown, *more_told, *cells)))
    rest = and_more(len(rows) - MOST_ROWS, "p", class_="none")
    about = join_html([_sentence(told), svg.draw_legend(series), rest])
    drawn = svg.draw_rows(bars[:MOST_ROWS], series)
    every_head = (*heads, *(also[:1] if also else ()), *(one.name for one in series))
    return svg.render_figure(name, title, drawn, about, every_head, lines)


def _count(value: float) -> str:
    """No tick between 0 and 1: there is no half a run."""
    return f"{value:,.0f}" if value.is_integer() else ""


def _sentence(told: Html | str | None) -> Html | None:
    return tag("p", told, class_="sentence") if told else None


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${value:g}"


def _most_runs(of: Mapping[str, AuthorRuns]) -> list[tuple[str, AuthorRuns]]:
    return sorted(of.items(), key=lambda item: (-item[1].runs, item[0]))


def _quantile(values: Sequence[float], share: float) -> float:
    """Of one value at least."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]
