"""The pictures of a site that have time below them: runs by outcome, dollars, seconds, answers used
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted
from vibe_gate.report import run_list, svg
from vibe_gate.report.markup import Html, join_html, table_row, tag
from vibe_gate.report.outcome_words import OUTCOME_WORDS, outcome_style
from vibe_gate.report.site.picture_parts import (
    FEWEST,
    LinkedValue,
    count_tick,
    draw_over_time,
    quantile,
    render_sentence,
)
from vibe_gate.report.site.site_runs import (
    DaySpan,
    Site,
    SiteRun,
    cut_for_table,
    format_tenths,
    link_to_runs,
)
from vibe_gate.report.svg import STYLES, Bar, Part, Series

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


def draw_outcomes(site: Site) -> Html:
    """Runs over time by outcome."""
    counts_by_span = {}
    present_words: set[str] = set()
    for span, runs in site.by_span.items():
        counts_by_span[span] = Counter(run_list.run_word(run.entry) for run in runs)
        present_words.update(counts_by_span[span])
    words = [word for word in COLUMN_ORDER if word in present_words]
    words += sorted(present_words - {*COLUMN_ORDER})
    rows = []
    for span, counts in counts_by_span.items():
        values: list[LinkedValue] = []
        for word in words:
            values.append((counts[word], link_to_runs(span, outcome=word)))
        rows.append((span, values))
    passes = [word for word in words if word in PASSES]
    meanings = [f"{word}: {OUTCOME_WORDS[word].meaning}" for word in passes]
    return draw_over_time(
        "runs-over-time",
        f"Runs by outcome, {site.unit}",
        [Series(word, outcome_style(word)) for word in words],
        rows,
        count_tick,
        caption=" · ".join(meanings),
    )


def draw_spending(site: Site) -> Html | None:
    """US dollars over time by model, the dearest first; of many, the others as one."""
    if not site.total.usd:
        return None
    dearest = Counter[str](site.total.usd_by_model).most_common(len(STYLES) - 1)
    models = [model for model, usd in dearest if usd > 0]
    rows = []
    for span, runs in site.by_span.items():
        rows.append((span, _spending_of(span, runs, models)))
    series = []
    for model, style in zip(models, STYLES, strict=False):
        series.append(Series(cut_for_table(model), style))
    if any(values[-1][0] for _, values in rows):
        series.append(Series("other", STYLES[-1]))
    return draw_over_time(
        "usd-over-time",
        f"US dollars by model, {site.unit}",
        series,
        [(span, values[: len(series)]) for span, values in rows],
        _dollar_tick,
        form=".4f",
        caption=_dearest_day(site),
        adds_up=True,
    )


def _spending_of(
    span: DaySpan, runs: Sequence[SiteRun], models: Sequence[str]
) -> list[LinkedValue]:
    """US dollars of each of the models, and of all others."""
    usd_by_model = Counter[str]()
    for run in runs:
        usd_by_model.update(run.figures.usd_by_model)
    values: list[LinkedValue] = []
    for model in models:
        values.append((usd_by_model[model], link_to_runs(span, model=model)))
    all_usd = sum(run.entry.cost_usd for run in runs)
    other_usd = all_usd - sum(usd_by_model[model] for model in models)
    values.append((other_usd if other_usd > 1e-6 else 0.0, span.link))
    return values


def _dearest_day(site: Site) -> Html | None:
    """The day on which most was spent, and its dearest run."""
    by_day = site.total.usd_by_day
    day = max(by_day, key=lambda day: (by_day[day], day))
    runs = [run for run in site.runs if run.entry.created_at[:10] == day]
    run = max(runs, key=lambda run: run.entry.cost_usd)
    day_link = tag("a", f"{day}: ${by_day[day]:,.4f}", href=f"#from={day}&to={day}&sort=-usd")
    run_id = run.entry.run_id
    run_link = tag("a", run_id, href=run.page or link_to_runs(run=run_id))
    share = f", ${run.entry.cost_usd:,.4f} of it on {cut_for_table(run.entry.workflow)} "
    return join_html(["Most was spent on ", day_link, share, run_link, "."])


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
    bars = []
    lines = []
    for span, runs in site.by_span.items():
        reviews = [run.entry for run in runs if _is_review(run)]
        parts = tuple(map(_duration_part, _durations_of(reviews)))
        link = link_to_runs(span, workflow="review")
        bars.append(Bar(span.name, parts, "", link, span.text))
        if reviews:
            texts = [part.text if part else "" for part in parts]
            lines.append(table_row((svg.link_text(span.text, link), *texts)))
    if not lines:
        return None
    title = f"Seconds a review, {site.unit}"
    picture = svg.draw_lines(bars, series, lambda value: f"{value:,g} s")
    caption = join_html([render_sentence(_pace_sentence(site)), svg.draw_legend(series)])
    heads = ("Days", *(entry.name for entry in series))
    return svg.render_figure("seconds", title, picture, caption, heads, lines)


def _duration_part(ms: float | None) -> Part | None:
    """In seconds; None without a figure."""
    if ms is None:
        return None
    return Part(ms / 1000, f"{format_tenths(ms)} s")


def _durations_of(reviews: Sequence[RunEntry]) -> tuple[float | None, float | None, float | None]:
    """Milliseconds, one figure for each series; None of no reviews."""
    with_model: list[int] = []
    without_model: list[int] = []
    for review in reviews:
        durations = with_model
        if review.cost_basis == "none":
            durations = without_model
        durations.append(review.duration_ms)
    return (
        _quantile_if_any(with_model, 0.5),
        _quantile_if_any(with_model, 0.9),
        _quantile_if_any(without_model, 0.5),
    )


def _quantile_if_any(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    return quantile(values, share)


def _is_review(run: SiteRun) -> bool:
    return run.entry.state == "sealed" and run.entry.workflow == "review"


def _pace_sentence(site: Site) -> Html | None:
    """The median of the newest week that is over beside that of four weeks earlier; None if either
    has few reviews that asked a model. Weeks end on Sunday.
    """
    newest_day = site.days[-1]
    sunday = newest_day - timedelta((newest_day.weekday() + 1) % 7)
    week = DaySpan(sunday - timedelta(6), sunday, "")
    earlier_week = DaySpan(sunday - timedelta(34), sunday - timedelta(28), "")
    durations = _durations_with_model(site, week)
    earlier_durations = _durations_with_model(site, earlier_week)
    if min(len(durations), len(earlier_durations)) < FEWEST:
        return None
    median = quantile(durations, 0.5)
    earlier_median = quantile(earlier_durations, 0.5)
    change = _describe_change(median, earlier_median)
    return join_html(
        [
            f"Median of those that asked a model: {format_tenths(median)} s from ",
            tag("a", week.text, href=link_to_runs(week, workflow="review")),
            f", {format_tenths(earlier_median)} s from ",
            tag("a", earlier_week.text, href=link_to_runs(earlier_week, workflow="review")),
            f": {change}.",
        ]
    )


def _describe_change(median: float, earlier_median: float) -> str:
    """By how much of the earlier one the median is slower or faster."""
    if not earlier_median:
        return "slower"
    share = f"{abs(median / earlier_median - 1):.0%}"
    if median > earlier_median:
        return f"{share} slower"
    return f"{share} faster"


def _durations_with_model(site: Site, span: DaySpan) -> list[int]:
    """Milliseconds that the span's reviews took which asked a model."""
    days = {f"{day:%Y%m%d}" for day in span.days}
    durations = []
    for run in site.runs:
        if run.entry.run_id[:8] in days and _is_review(run) and run.entry.cost_basis != "none":
            durations.append(run.entry.duration_ms)
    return durations


def draw_reuse(site: Site) -> Html | None:
    """Answers of judges that earlier runs gave already."""
    if not site.total.hits:
        return None
    rows = []
    for span, runs in site.by_span.items():
        hits = sum(run.figures.hits for run in runs)
        misses = sum(run.figures.misses for run in runs)
        rows.append((span, [(hits, link_to_runs(span, reused="1")), (misses, span.link)]))
    title = f"Answers used again, {site.unit}"
    series = [Series("answered by an earlier run", "s2"), Series("asked", "s7")]
    caption = _reuse_sentence(site)
    return draw_over_time("reuse", title, series, rows, count_tick, caption=caption)


def _reuse_sentence(site: Site) -> Html:
    total = site.total
    answers = total.hits + total.misses
    saved = ""
    if total.saved_usd is not None:
        saved = (
            f"; ${total.saved_usd:,.4f} were not paid again, "
            "as far as the runs that paid it are stored"
        )
    runs = sum(run.figures.hits > 0 for run in site.runs)
    share = f"({total.hits / answers:.0%})"
    return join_html(
        [
            f"{total.hits:,} of {counted(answers, 'answer')} {share} from earlier runs, in ",
            tag("a", counted(runs, "run"), href="#reused=1"),
            f"{saved}.",
        ]
    )


def _dollar_tick(value: float) -> str:
    if 0 < value < 0.01:
        return f"${value:g}"
    return f"${value:,.2f}"
