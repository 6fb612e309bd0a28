"""The pictures of a site: each with the same figures as a table, and links to the runs behind them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from urllib.parse import quote

from msgspec import UNSET

from vibe_gate.domain.escape import counted
from vibe_gate.domain.interval import Interval
from vibe_gate.report import feedback, listing, svg
from vibe_gate.report.markup import Html, joined, row, table, tag
from vibe_gate.report.site.runs import MOST_PATHS, DaySpan, Site, SiteRun, cut
from vibe_gate.report.statistics import AuthorRuns
from vibe_gate.report.svg import STYLES, Bar, Part, Range, Series

OUTCOMES = ("pass", "done", "approval", "fail", "inconclusive", "error")
"""In the order in which columns are built; a list's other words follow."""

MOST_ROWS = 12
"""Rows of a picture; its table has a few more, and the selection above the list of runs has all."""

MOST_LINES = 100
"""Rows of a table of figures."""

FEWEST = 5
"""Runs of which a sentence compares the share or the median."""

_AUTHORS = {"agent": "agents", "human": "people"}

_WORD_STYLES = dict(zip(feedback.WORDS, ("s2", "s0", "s3", "s1", "s7"), strict=True))


def pictures(site: Site) -> Iterator[Html]:
    """Those for which there are figures."""
    if site.spans:
        yield outcomes(site)
        yield from filter(None, (spending(site), seconds(site), reuse(site)))
    yield from filter(None, (criteria(site), authors(site), files(site), judges(site), *calibration(site)))


def outcomes(site: Site) -> Html:
    """Runs over time by outcome."""
    by_span = {span: Counter(listing.outcome(run.entry) for run in runs) for span, runs in site.by_span.items()}
    there = {word for counts in by_span.values() for word in counts}
    words = [*(word for word in OUTCOMES if word in there), *sorted(there - {*OUTCOMES})]
    series = [Series(word, word if word in OUTCOMES else "s7") for word in words]
    return _over_time(
        "runs-over-time",
        f"Runs by outcome, {site.unit}",
        series,
        [(span, [(counts[word], _link(span, outcome=word)) for word in words]) for span, counts in by_span.items()],
        _count,
    )


def spending(site: Site) -> Html | None:
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
        parts = [(usd[name], _link(span, model=name)) for name in names]
        rows.append((span, [*parts, (rest if rest > 1e-6 else 0.0, span.link)]))
    series = [Series(cut(name), style) for name, style in zip(names, STYLES, strict=False)]
    if any(parts[-1][0] for _, parts in rows):
        series.append(Series("other", STYLES[-1]))
    rows = [(span, parts[: len(series)]) for span, parts in rows]
    title = f"US dollars by model, {site.unit}"
    return _over_time("usd-over-time", title, series, rows, _dollars, ".4f", _dearest(site))


def _dearest(site: Site) -> Html | None:
    """The day on which most was spent, and its dearest run."""
    by_day = site.total.usd_by_day
    day = max(by_day, key=lambda day: (by_day[day], day))
    run = max((run for run in site.runs if run.entry.created_at[:10] == day), key=lambda run: run.entry.cost_usd)
    spent = tag("a", f"{day}: ${by_day[day]:,.4f}", href=f"#from={day}&to={day}&sort=-usd")
    dearest = tag("a", "one run", href=_link(run=run.entry.run_id))
    return joined(["Most was spent on ", spent, f", ${run.entry.cost_usd:,.4f} of it on ", dearest, "."])


def seconds(site: Site) -> Html | None:
    """How long reviews took: the median and the slowest tenth of those that asked a model, the median of the others.

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
        asked = [entry.duration_ms / 1000 for entry in ended if entry.cost_basis != "none"]
        others = [entry.duration_ms / 1000 for entry in ended if entry.cost_basis == "none"]
        values = [_quantile(asked, 0.5), _quantile(asked, 0.9), _quantile(others, 0.5)]
        shown = ["" if value is None else f"{value:,.1f} s" for value in values]
        parts = [None if value is None else Part(value, text) for value, text in zip(values, shown, strict=True)]
        link = _link(span, workflow="review")
        bars.append(Bar(span.name, tuple(parts), "", link))
        if ended:
            lines.append(row((svg.linked(str(span.first), link), *shown)))
    if not lines:
        return None
    drawn = svg.lines(bars, series, lambda value: f"{value:,g} s")
    heads = ("From", *(one.name for one in series))
    about = joined([_sentence(_pace(site)), svg.legend(series)])
    return svg.figure("seconds", f"Seconds a review, {site.unit}", drawn, about, heads, lines)


def _is_review(run: SiteRun) -> bool:
    return run.entry.state == "sealed" and run.entry.workflow == "review"


def _pace(site: Site) -> Html | None:
    """The newest week's median beside that of four weeks earlier; None if either has few reviews that asked a model."""
    last = site.days[-1]
    weeks = [DaySpan(last - timedelta(ago + 6), last - timedelta(ago), "") for ago in (0, 28)]
    asked: list[list[float]] = []
    for week in weeks:
        days = {f"{day:%Y%m%d}" for day in week.days}
        runs = (run.entry for run in site.runs if run.entry.run_id[:8] in days and _is_review(run))
        asked.append([entry.duration_ms / 1000 for entry in runs if entry.cost_basis != "none"])
    if min(map(len, asked)) < FEWEST:
        return None
    now, then = map(statistics.median, asked)
    change = f"{abs(now / then - 1):.0%} {'slower' if now > then else 'faster'}" if then else "slower"
    shown = [tag("a", f"{week.first} to {week.last}", href=_link(week, workflow="review")) for week in weeks]
    told: list[str] = [f"Median of those that asked a model: {now:,.1f} s from ", shown[0], f", {then:,.1f} s from "]
    return joined([*told, shown[1], f": {change}."])


def reuse(site: Site) -> Html | None:
    """Answers of judges that earlier runs gave already."""
    if not site.total.hits:
        return None
    series = [Series("answered by an earlier run", "s2"), Series("asked", "s7")]
    rows = []
    for span, runs in site.by_span.items():
        hits, misses = (sum(getattr(run.figures, name) for run in runs) for name in ("hits", "misses"))
        rows.append((span, [(hits, _link(span, reused="1")), (misses, span.link)]))
    total = site.total
    share = total.hits / (total.hits + total.misses)
    saved = "" if total.saved_usd is None else f"; at least ${total.saved_usd:,.4f} were not paid again"
    using = sum(run.figures.hits > 0 for run in site.runs)
    answers = counted(total.hits + total.misses, "answer")
    told = joined([
        f"{total.hits:,} of {answers} ({share:.0%}) from earlier runs, in ",
        tag("a", counted(using, "run"), href="#reused=1"), f"{saved}.",
    ])  # fmt: skip
    return _over_time("reuse", f"Answers used again, {site.unit}", series, rows, _count, told=told)


def criteria(site: Site) -> Html | None:
    """Findings by criterion, with what people said of them; those that are wrong most often come first."""
    said: dict[str, Counter[str]] = {}
    for (source, _), word in site.words.items():
        said.setdefault(source, Counter())[word] += 1
    if not said:
        return None
    series = [Series(word, _WORD_STYLES[word]) for word in feedback.WORDS]
    most = sorted(said.items(), key=lambda item: (-item[1]["wrong"], -item[1].total(), item[0]))
    rows = [
        (cut(name), f"{words.total():,}", _link(criterion=name),
         [(words[word], _link(criterion=name, said=word)) for word in feedback.WORDS])
        for name, words in most
    ]  # fmt: skip
    title = "Findings by criterion, and what people said"
    return _by_row("findings", title, ("Criterion", "Found"), series, rows, _wrong(*most[0]))


def _wrong(name: str, words: Counter[str]) -> Html | None:
    if not words["wrong"]:
        return None
    number = f"{words['wrong']:,} of {counted(words['right'] + words['accepted'] + words['wrong'], 'finding')}"
    link = tag("a", number, href=_link(criterion=name, said="wrong"))
    return joined([f"Wrong most often: {cut(name)}, ", link, " that people labelled."])


def authors(site: Site) -> Html | None:
    """Runs of people's and agents' changes: how many failed."""
    total = site.total
    if not total.runs:
        return None
    series = [Series("failed", "fail"), Series("others", "s7")]
    every = [(_AUTHORS.get(name, cut(name)), one, _link(author=name)) for name, one in _most_runs(total.authors)]
    every += [(name, one, _link(agent=name)) for name, one in _most_runs(total.agents)]
    rows = [
        (cut(name), f"{one.failed:,} of {one.runs:,} failed", link,
         [(one.failed, f"{link}&outcome=fail"), (one.runs - one.failed, link)])
        for name, one, link in every
    ]  # fmt: skip
    return _by_row("authors", "Who wrote the change", ("Author", "Runs"), series, rows, _most_failed(total.agents))


def _most_failed(agents: Mapping[str, AuthorRuns]) -> Html | None:
    """Of several agents that with the greatest share of failed runs."""
    known = {name: one for name, one in agents.items() if one.runs >= FEWEST}
    if len(known) < 2 or not any(one.failed for one in known.values()):
        return None
    name, one = max(known.items(), key=lambda item: (item[1].failed / item[1].runs, item[0]))
    number = tag("a", f"{one.failed:,} of {one.runs:,} runs", href=_link(agent=name, outcome="fail"))
    return joined([f"Of agents, {cut(name)} fails most: ", number, f" ({one.failed / one.runs:.0%})."])


def files(site: Site) -> Html | None:
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
        link = _link(path=path)
        parts = [(number, f"{link}&outcome=fail"), (runs[path] - number, link)]
        rows.append((cut(path), f"{number:,} of {runs[path]:,} failed", link, parts))
    return _by_row("files", "Files that failed runs change", ("File", "Runs"), series, rows)


def judges(site: Site) -> Html | None:
    """Whether each question's fail blocks, and what is known of its judge: a table alone."""
    if not site.judges:
        return None
    lines = []
    for (rubric, criterion), badge in site.judges.items():
        name = f"{rubric}/{criterion}"
        left = 0 if badge.needed is UNSET else badge.needed - badge.clean
        blocks = "blocks" if badge.blocks else f"advises{f'; blocks after {left:,} more clean answers' if left else ''}"
        found = (
            ""
            if badge.recall is UNSET
            else f"{badge.recall.value:.0%} ({badge.recall.low:.0%} to {badge.recall.high:.0%})"
        )
        lines.append(row((svg.linked(cut(name), _link(criterion=name)), blocks, found, badge.sentence)))
    caption = tag("figcaption", tag("h3", "Whether a judge's fail blocks, and how sure that judge is"))
    listed = table(("Criterion", "Its fail", "Defects found, 95 %", "Known"), lines, class_="figures")
    return tag("figure", caption, listed, id="judges", aria_label="Whether a judge's fail blocks")


def calibration(site: Site) -> Iterator[Html]:
    """How far judges can be trusted: shares with their 95 % intervals, of labelled findings and labelled cases."""
    labelled = [
        (f"{one.rubric}/{one.criterion}", one.precision, f"{one.right:,} of {one.right + one.wrong:,}")
        for one in site.total.criteria
    ]
    measured = [(f"{base.rubric}/{one.id}", one) for base in site.baselines for one in base.criterion]
    found = [(name, one.recall, f"{one.found:,} of {one.defective:,}") for name, one in measured]
    blocks = [(name, one.false_blocks, f"{one.clean_blocked:,} of {one.clean:,}") for name, one in measured]
    for name, title, shares in (
        ("precision", "Right, of the findings with a label", labelled),
        ("recall", "Found, of the defective cases of vibe-gate calibrate", found),
        ("false-blocks", "Blocked, of its clean cases", blocks),
    ):
        yield from _shares(name, title, shares)


def _shares(name: str, title: str, shares: Iterable[tuple[str, Interval | None, str]]) -> Iterator[Html]:
    there = [(of, interval, shown) for of, interval, shown in shares if interval is not None]
    if not there:
        return
    drawn = svg.ranges([Range(cut(of), one, shown, _link(criterion=of)) for of, one, shown in there[:MOST_ROWS]])
    lines = [
        row((svg.linked(cut(of), _link(criterion=of)), shown, f"{one.value:.0%}", f"{one.low:.0%} to {one.high:.0%}"))
        for of, one, shown in there[:MOST_LINES]
    ]
    yield svg.figure(name, title, drawn, None, ("Criterion", "Cases", "Share", "95 % interval"), lines)


def _over_time(
    name: str,
    title: str,
    series: Sequence[Series],
    rows: Sequence[tuple[DaySpan, Sequence[tuple[float, str]]]],
    tick: Callable[[float], str],
    form: str = ",.0f",
    told: Html | None = None,
) -> Html:
    bars, lines = [], []
    for span, parts in rows:
        shown = [format(value, form) for value, _ in parts]
        each = (Part(value, text, link) for (value, link), text in zip(parts, shown, strict=True))
        bars.append(Bar(span.name, tuple(each), "", span.link))
        if any(value for value, _ in parts):
            cells = (svg.linked(text, link) if value else "" for text, (value, link) in zip(shown, parts, strict=True))
            lines.append(row((svg.linked(str(span.first), span.link), *cells)))
    about = joined([_sentence(told), svg.legend(series)])
    heads = ("From", *(one.name for one in series))
    return svg.figure(name, title, svg.columns(bars, series, tick), about, heads, lines)


def _by_row(
    name: str,
    title: str,
    heads: tuple[str, str],
    series: Sequence[Series],
    rows: Sequence[tuple[str, str, str, Sequence[tuple[int, str]]]],
    told: Html | None = None,
) -> Html:
    bars, lines = [], []
    for of, shown, link, parts in rows[:MOST_LINES]:
        each = tuple(Part(value, f"{value:,}", leads) for value, leads in parts)
        bars.append(Bar(of, each, shown, link))
        cells = (svg.linked(f"{value:,}", leads) if value else "" for value, leads in parts)
        lines.append(row((svg.linked(of, link), shown, *cells)))
    more = len(rows) - MOST_ROWS
    rest = tag("p", f"and {more:,} more", class_="none") if more > 0 else None
    about = joined([_sentence(told), svg.legend(series), rest])
    drawn = svg.rows(bars[:MOST_ROWS], series)
    return svg.figure(name, title, drawn, about, (*heads, *(one.name for one in series)), lines)


def _count(value: float) -> str:
    """No tick between 0 and 1: there is no half a run."""
    return f"{value:,.0f}" if value.is_integer() else ""


def _sentence(told: Html | None) -> Html | None:
    return tag("p", told, class_="sentence") if told else None


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${value:g}"


def _link(span: DaySpan | None = None, **only: str) -> str:
    """The index with these runs alone."""
    wanted = [f"{name}={quote(cut(value), safe='')}" for name, value in only.items()]
    return "&".join(filter(None, (span.link if span else "", *wanted))) if span else f"#{'&'.join(wanted)}"


def _most_runs(of: Mapping[str, AuthorRuns]) -> list[tuple[str, AuthorRuns]]:
    return sorted(of.items(), key=lambda item: (-item[1].runs, item[0]))


def _quantile(values: Sequence[float], share: float) -> float | None:
    """None of no values."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]
