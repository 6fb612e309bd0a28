"""Tests of agents: how often each passed, by model, what that cost, and a cell for each time it was
carried out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from vibe_gate.domain.attempt import FAILED, PASSED, TestedRun, TestResult
from vibe_gate.domain.calibration import share
from vibe_gate.domain.escape import counted
from vibe_gate.domain.interval import Interval
from vibe_gate.report import svg
from vibe_gate.report.markup import Html, join_html, table_row, tag
from vibe_gate.report.site.picture_parts import MOST_LINES, MOST_ROWS
from vibe_gate.report.site.site_runs import MOST_NAME, Site, SiteRun, cut_for_table, link_to_runs
from vibe_gate.report.svg import Range

MARKS = {
    "passed": "✓",
    "failed": "✗",
    "undecided": "?",
    "error": "E",
    "skipped": "s",
    "xfailed": "x",
    "xpassed": "X",
}
"""Of a cell, so that colour alone tells nothing; letters are pytest's."""

MOST_MARKS = 20
"""Attempts that a cell shows: the newest."""

MOST_TESTS = 2_000
"""Rows of the grid."""

MOST_MODELS = 12
"""Columns of the grid: those with most attempts."""

NO_MODEL = "no model"
"""The column of attempts for which no model answered."""


class TestAttempt(Struct, frozen=True):
    """A test, carried out once, with its runs in the order in which they began; none if it never
    came so far.

    `usd`: what the agents cost, without their judges; None if that is not known, or none ran.
    """

    test: str
    model: str
    repetition: int
    result: TestResult
    usd: float | None = None
    runs: tuple[SiteRun, ...] = ()

    @property
    def telling(self) -> SiteRun | None:
        """The run that tells most: of a failed attempt the first that failed."""
        failed = (run for run in self.runs if run.entry.outcome == "fail" and self.result in FAILED)
        return next(failed, self.runs[0] if self.runs else None)


class PassRate(Struct, frozen=True):
    """How many attempts passed of those that decide, and what each cost that has a price;
    `is_priced`: all have.
    """

    passed: int
    decided: int
    usd: tuple[float, ...]
    is_priced: bool

    @classmethod
    def of(cls, attempts: Sequence[TestAttempt]) -> PassRate:
        """That of some attempts."""
        passed = sum(one.result in PASSED for one in attempts)
        failed = sum(one.result in FAILED for one in attempts)
        usd = tuple(one.usd for one in attempts if one.usd is not None)
        return cls(
            passed, passed + failed, usd, all(one.usd is not None for one in attempts if one.runs)
        )

    @property
    def interval(self) -> Interval | None:
        """The share that passed, with its 95 % interval; None if nothing decides."""
        return _share(self.passed, self.decided)

    @property
    def is_flaky(self) -> bool:
        """Whether it passed, and did not."""
        return 0 < self.passed < self.decided

    @property
    def mean_usd(self) -> float | None:
        """Of an attempt whose cost is known."""
        return sum(self.usd) / len(self.usd) if self.usd else None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Passed, share, interval, USD an attempt; as text."""
        usd, found = self.mean_usd, self.interval
        cost = "" if usd is None else f"{usd:.4f}"
        if found is None:
            return "", "", "", cost
        within = f"{found.low:.0%} to {found.high:.0%}"
        return f"{self.passed:,} of {self.decided:,}", f"{found.value:.0%}", within, cost


_share = cache(share)  # each takes milliseconds, and tests have few different counts


def attempts_of(site: Site) -> list[TestAttempt]:
    """Those of the runs, and those that have none; by test and model, then as they were carried
    out.
    """
    found: dict[tuple[str, str, str], list[SiteRun]] = {}
    for run in sorted(site.runs, key=lambda run: (run.entry.run_id, run.entry.key)):
        if run.tested:
            found.setdefault((run.tested.test, run.tested.model, run.tested.attempt), []).append(
                run
            )
    made = [
        (runs[0].entry.run_id, _attempt(runs[0].tested, runs))
        for runs in found.values()
        if runs[0].tested
    ]
    made += [("", _attempt(one, ())) for one in site.without_runs]
    # In one session the number tells which came first, whether there was a run or not.
    made.sort(key=lambda one: (one[1].repetition if site.is_session else 0, one[0], one[1].result))
    made.sort(key=lambda one: (_in_order(one[1].test), one[1].model))
    return [one for _, one in made]


def _in_order(test: str) -> tuple[list[tuple[int, str]], str]:
    """Numbers by their value: case_2 stands before case_10."""
    parts = re.split(r"([0-9]{1,9})", test[:MOST_NAME])
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)], test


def _attempt(one: TestedRun, runs: Sequence[SiteRun]) -> TestAttempt:
    told = [run.tested for run in runs if run.tested] or [one]
    costs = [one.usd for one in told if not one.judges] or [one.usd for one in told]
    known = [usd for usd in costs if usd is not None]
    usd = sum(known) if known and len(known) == len(costs) else None
    return TestAttempt(one.test, one.model, one.repetition, one.result, usd, tuple(runs))


Grid = Mapping[str, Mapping[str, list[TestAttempt]]]
"""Attempts by test and model."""


def grid_of(attempts: Iterable[TestAttempt]) -> Grid:
    """What no model answered stands with the test's only model, if it has one."""
    tests: dict[str, dict[str, list[TestAttempt]]] = {}
    for one in attempts:
        tests.setdefault(one.test, {}).setdefault(one.model, []).append(one)
    for by_model in tests.values():
        if len(by_model) == 2 and "" in by_model:
            bare = by_model.pop("")
            its = next(iter(by_model.values()))
            its += bare
            its.sort(key=lambda one: one.repetition)
    return tests


def render_tests_section(site: Site) -> Iterator[Html]:
    """The grid and its pictures; nothing of runs that are no tests'."""
    if not (attempts := attempts_of(site)):
        return
    grid = grid_of(attempts)
    models = _models(grid)
    counts = _counts(grid)
    told = tag("p", f"{counted(len(grid), 'test')}: {counts}.", class_="none", id="tests-told")
    pictures = [*filter(None, (_costs(models), _by_test(site, grid)))]
    yield tag(
        "section",
        tag("h2", "Tests"),
        told,
        tag("div", id="tests-tools"),
        _grid(site, grid, models),
        tag("div", *pictures, class_="pictures"),
        id="tests",
    )


def _models(grid: Grid) -> dict[str, list[TestAttempt]]:
    """The attempts of each model, those with most first."""
    found: dict[str, list[TestAttempt]] = {}
    for by_model in grid.values():
        for model, its in by_model.items():
            found.setdefault(model, []).extend(its)
    return dict(sorted(found.items(), key=lambda item: (not item[0], -len(item[1]), item[0])))


STATES = ("passed", "failed", "flaky", "error", "undecided", "skipped")
"""Of a test, over all models."""


def state_of_attempts(by_model: Mapping[str, Sequence[TestAttempt]]) -> str:
    """One of STATES: "failed" if a model never did it, "flaky" if one did it now and then."""
    rates = [PassRate.of(its) for its in by_model.values()]
    if any(rate.decided and not rate.passed for rate in rates):
        return "failed"
    if any(rate.is_flaky for rate in rates):
        return "flaky"
    if any(rate.passed for rate in rates):
        return "passed"
    words = {one.result for its in by_model.values() for one in its}
    return next((word for word in ("error", "undecided") if word in words), "skipped")


def _counts(grid: Grid) -> str:
    states = Counter(map(state_of_attempts, grid.values()))
    return ", ".join(f"{states[word]:,} {word}" for word in STATES if states[word])


def _grid(site: Site, grid: Grid, models: Mapping[str, Sequence[TestAttempt]]) -> Html:
    shown = [*models][:MOST_MODELS]
    heads = (
        "Test",
        *(_shown(model) for model in shown),
        "Passed",
        "Share",
        "95 % interval",
        "USD an attempt",
    )
    lines = [_row(site, test, by_model, shown) for test, by_model in [*grid.items()][:MOST_TESTS]]
    totals = [_cell_of_model(model, models[model]) for model in shown]
    every = PassRate.of([one for its in models.values() for one in its])
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    last = tag("tfoot", table_row(("All", *totals, *every.cells)))
    made = tag("table", top, tag("tbody", *lines), last, class_="grid-of", id="grid")
    more = [
        f"{len(grid) - MOST_TESTS:,} more tests" if len(grid) > MOST_TESTS else "",
        f"{len(models) - MOST_MODELS:,} more models" if len(models) > MOST_MODELS else "",
    ]
    rest = " and ".join(filter(None, more))
    note = (
        tag("p", f"{rest} have no place here; the list of runs has theirs.", class_="none")
        if rest
        else None
    )
    region = tag("div", made, class_="wide", tabindex=0, role="region", aria_label="Tests by model")
    return join_html([region, note])


def _cell_of_model(model: str, its: Sequence[TestAttempt]) -> Html | str:
    passed, shown, within, _ = PassRate.of(its).cells
    if not passed:
        return ""
    return tag(
        "span",
        svg.link_text(passed, model and link_to_runs(model=cut_for_table(model))),
        tag("small", f"{shown} ({within})"),
    )


def _row(
    site: Site, test: str, by_model: Mapping[str, list[TestAttempt]], models: Sequence[str]
) -> Html:
    every = PassRate.of([one for its in by_model.values() for one in its])
    file, name = _split(site.names[test])
    link = link_to_runs(test=site.names[test])
    named = tag("a", tag("small", file) if file else None, name, href=link)
    cells = [
        _cell(
            by_model.get(model, ()), link_to_runs(test=site.names[test], model=cut_for_table(model))
        )
        for model in models
    ]
    shares = [PassRate.of(by_model.get(model, ())).interval for model in models]
    found, usd = every.interval, every.mean_usd
    # Of each column but the first, for the script that sorts.
    values = [
        *(one and one.value for one in shares),
        every.passed,
        found and found.value,
        found and found.low,
        usd,
    ]
    data = ",".join("" if value is None else f"{value:.6g}" for value in values)
    return table_row(
        (named, *cells, *every.cells), data_state=state_of_attempts(by_model), data_values=data
    )


def _cell(attempts: Sequence[TestAttempt], link: str) -> Html | None:
    """A mark for each attempt, the newest if there are many; of more than one, how many passed."""
    if not attempts:
        return None
    rate, more = PassRate.of(attempts), len(attempts) - MOST_MARKS
    marks = [_mark(one) for one in attempts[-MOST_MARKS:]]
    passed = rate.cells[0] if len(attempts) > 1 else ""
    about = tag("small", passed, class_="flaky" if rate.is_flaky else None) if passed else None
    before = tag("a", f"{more:,} more", href=link) if more > 0 else None
    return join_html([before, *marks, about])


def _mark(one: TestAttempt) -> Html:
    usd = "" if one.usd is None else f", ${one.usd:.4f}"
    took = sum(run.entry.duration_ms for run in one.runs) / 1000
    again = f"repetition {one.repetition}: " if one.repetition > 1 else ""
    title = f"{again}{one.result}{usd}{f', {took:.1f} s' if one.runs else ''}"
    run = one.telling
    leads = None if run is None else run.page or link_to_runs(run=run.entry.run_id)
    return tag(
        "a" if leads else "span",
        MARKS[one.result],
        class_=f"attempt {one.result}",
        title=title,
        href=leads,
    )


def _costs(models: Mapping[str, Sequence[TestAttempt]]) -> Html | None:
    """What an attempt cost, against how often it passed."""
    rates = [(model, PassRate.of(its), its) for model, its in models.items()]
    drawn, lines = list[svg.Dot](), list[Html]()
    for model, rate, its in rates[:MOST_LINES]:
        name, link = _shown(model), link_to_runs(model=cut_for_table(model))
        passed, shown, within, cost = rate.cells
        tests = len({one.test for one in its})
        lines.append(
            table_row(
                (
                    svg.link_text(name, link if model else ""),
                    f"{tests:,}",
                    passed,
                    shown,
                    within,
                    cost,
                    f"{sum(rate.usd):.4f}{'' if rate.is_priced else ' + ?'}",
                )
            )
        )
        if rate.interval is not None and rate.mean_usd is not None and len(drawn) < MOST_MODELS:
            told = f"{passed} passed ({shown}, {within}), ${cost} an attempt"
            drawn.append(svg.Dot(name, rate.mean_usd, rate.interval, told, link))
    if not drawn:
        return None
    sentence = (
        "What an attempt cost (without judges), and the share that passed, with its 95 % interval."
    )
    some = {frozenset(one.test for one in its) for model, _, its in rates if model}
    sentence += " The models had different tests." if len(some) > 1 else ""
    heads = ("Model", "Tests", "Passed", "Share", "95 % interval", "USD an attempt", "USD")
    about = tag("p", sentence, class_="none")
    return svg.render_figure(
        "cost-and-rate",
        "Cost against pass rate, by model",
        svg.draw_dots(drawn),
        about,
        heads,
        lines,
    )


def _by_test(site: Site, grid: Grid) -> Html | None:
    """The share of attempts that passed, the lowest first."""
    rates = [
        (test, PassRate.of([one for its in by_model.values() for one in its]))
        for test, by_model in grid.items()
    ]
    there = [(test, rate, rate.interval) for test, rate in rates if rate.interval is not None]
    there.sort(key=lambda one: (one[2].value, -one[1].decided, one[0]))
    if not there:
        return None
    ranges, lines = list[Range](), list[Html]()
    for test, rate, found in there[:MOST_LINES]:
        name, link = site.names[test], link_to_runs(test=site.names[test])
        passed, shown, within, cost = rate.cells
        ranges.append(Range(_split(name)[1], found, passed, link))
        lines.append(table_row((svg.link_text(name, link), passed, shown, within, cost)))
    more = len(there) - MOST_ROWS
    about = tag("p", f"The lowest first; {more:,} more.", class_="none") if more > 0 else None
    heads = ("Test", "Passed", "Share", "95 % interval", "USD an attempt")
    return svg.render_figure(
        "rate-by-test",
        "Pass rate by test",
        svg.draw_ranges(ranges[:MOST_ROWS]),
        about,
        heads,
        lines,
    )


def _split(name: str) -> tuple[str, str]:
    """The file of a test's id with its classes, and its own name; in parameters "::" divides
    nothing.
    """
    at = name.partition("[")[0].rfind("::")
    return (name[: at + 2], name[at + 2 :]) if at >= 0 else ("", name)


def _shown(model: str) -> str:
    return cut_for_table(model) or NO_MODEL
