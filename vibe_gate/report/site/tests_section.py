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
    """A test, carried out once."""

    test: str
    model: str
    repetition: int
    result: TestResult
    usd: float | None = None
    """What the agents cost, without their judges; None if that is not known, or none ran."""
    runs: tuple[SiteRun, ...] = ()
    """In the order in which they began; none if it never came so far."""

    @property
    def telling(self) -> SiteRun | None:
        """The run that tells most: of a failed attempt the first that failed."""
        if self.result in FAILED:
            for run in self.runs:
                if run.entry.outcome == "fail":
                    return run
        if not self.runs:
            return None
        return self.runs[0]


class PassRate(Struct, frozen=True):
    """How many attempts passed."""

    passed: int
    decided: int
    """Attempts that passed or failed."""
    usd: tuple[float, ...]
    """What each cost that has a price."""
    is_priced: bool
    """All that had runs have a price."""

    @classmethod
    def of(cls, attempts: Sequence[TestAttempt]) -> PassRate:
        """That of some attempts."""
        passed = failed = 0
        usd = []
        is_priced = True
        for attempt in attempts:
            passed += attempt.result in PASSED
            failed += attempt.result in FAILED
            if attempt.usd is not None:
                usd.append(attempt.usd)
            elif attempt.runs:
                is_priced = False
        return cls(passed, passed + failed, tuple(usd), is_priced)

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
        if not self.usd:
            return None
        return sum(self.usd) / len(self.usd)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Passed, share, interval, USD an attempt; as text."""
        usd, interval = self.mean_usd, self.interval
        cost = ""
        if usd is not None:
            cost = f"{usd:.4f}"
        if interval is None:
            return "", "", "", cost
        passed = f"{self.passed:,} of {self.decided:,}"
        share = f"{interval.value:.0%}"
        return passed, share, f"{interval.low:.0%} to {interval.high:.0%}", cost


_share = cache(share)  # each takes milliseconds, and tests have few different counts


def attempts_of(site: Site) -> list[TestAttempt]:
    """Those of the runs, and those that have none; by test and model, then as they were carried
    out.
    """
    runs_by_attempt: dict[tuple[str, str, str], list[SiteRun]] = {}
    for run in sorted(site.runs, key=lambda run: (run.entry.run_id, run.entry.key)):
        if run.tested:
            key = (run.tested.test, run.tested.model, run.tested.attempt)
            runs_by_attempt.setdefault(key, []).append(run)
    attempts = [("", _attempt_without_runs(tested)) for tested in site.without_runs]
    for runs in runs_by_attempt.values():
        attempts.append((runs[0].entry.run_id, _attempt_of_runs(runs)))

    def order(item: tuple[str, TestAttempt]) -> tuple[object, ...]:
        first_run, attempt = item
        # In one session the number tells which came first, whether there was a run or not.
        repetition = 0
        if site.is_session:
            repetition = attempt.repetition
        name = _order_of_test(attempt.test)
        return name, attempt.model, repetition, first_run, attempt.result

    return [attempt for _, attempt in sorted(attempts, key=order)]


def _order_of_test(test: str) -> tuple[list[tuple[int, str]], str]:
    """Numbers by their value: case_2 stands before case_10."""
    parts: list[tuple[int, str]] = []
    for index, part in enumerate(re.split(r"([0-9]{1,9})", test[:MOST_NAME])):
        is_number = index % 2 == 1
        parts.append((int(part), "") if is_number else (0, part))
    return parts, test


def _attempt_without_runs(tested: TestedRun) -> TestAttempt:
    return TestAttempt(
        tested.test, tested.model, tested.repetition, tested.result, _usd_of([tested])
    )


def _attempt_of_runs(runs: Sequence[SiteRun]) -> TestAttempt:
    tested_runs = [run.tested for run in runs if run.tested]
    tested = tested_runs[0]
    usd = _usd_of(tested_runs)
    return TestAttempt(
        tested.test, tested.model, tested.repetition, tested.result, usd, tuple(runs)
    )


def _usd_of(tested_runs: Sequence[TestedRun]) -> float | None:
    """What the agents cost, without judges if there were others; None if that is not known."""
    of_agents = [tested for tested in tested_runs if not tested.judges] or tested_runs
    total = 0.0
    for tested in of_agents:
        if tested.usd is None:
            return None
        total += tested.usd
    return total


Grid = Mapping[str, Mapping[str, list[TestAttempt]]]
"""Attempts by test and model."""


def grid_of(attempts: Iterable[TestAttempt]) -> Grid:
    """What no model answered stands with the test's only model, if it has one."""
    grid: dict[str, dict[str, list[TestAttempt]]] = {}
    for attempt in attempts:
        by_model = grid.setdefault(attempt.test, {})
        by_model.setdefault(attempt.model, []).append(attempt)
    for by_model in grid.values():
        if len(by_model) == 2 and "" in by_model:
            without_model = by_model.pop("")
            with_model = next(iter(by_model.values()))
            with_model += without_model
            with_model.sort(key=lambda attempt: attempt.repetition)
    return grid


def render_tests_section(site: Site) -> Iterator[Html]:
    """The grid and its pictures; nothing of runs that are no tests'."""
    attempts = attempts_of(site)
    if not attempts:
        return
    grid = grid_of(attempts)
    models = _attempts_by_model(grid)
    sentence = f"{counted(len(grid), 'test')}: {_state_counts(grid)}."
    pictures = filter(None, (_draw_costs(models), _draw_rates(site, grid)))
    yield tag(
        "section",
        tag("h2", "Tests"),
        tag("p", sentence, class_="none", id="tests-told"),
        tag("div", id="tests-tools"),
        _render_grid(site, grid, models),
        tag("div", *pictures, class_="pictures"),
        id="tests",
    )


def _attempts_by_model(grid: Grid) -> dict[str, list[TestAttempt]]:
    """The attempts of each model, those with most first; those without a model last."""
    attempts: dict[str, list[TestAttempt]] = {}
    for by_model in grid.values():
        for model, model_attempts in by_model.items():
            attempts.setdefault(model, []).extend(model_attempts)
    ranked = sorted(attempts, key=lambda model: (not model, -len(attempts[model]), model))
    return {model: attempts[model] for model in ranked}


STATES = ("passed", "failed", "flaky", "error", "undecided", "skipped")
"""Of a test, over all models."""


def state_of_attempts(by_model: Mapping[str, Sequence[TestAttempt]]) -> str:
    """One of STATES: "failed" if a model never did it, "flaky" if one did it now and then."""
    rates = [PassRate.of(attempts) for attempts in by_model.values()]
    if any(rate.decided and not rate.passed for rate in rates):
        return "failed"
    if any(rate.is_flaky for rate in rates):
        return "flaky"
    if any(rate.passed for rate in rates):
        return "passed"
    results = {attempt.result for attempt in _all_attempts(by_model)}
    for state in ("error", "undecided"):
        if state in results:
            return state
    return "skipped"


def _all_attempts(by_model: Mapping[str, Sequence[TestAttempt]]) -> list[TestAttempt]:
    attempts: list[TestAttempt] = []
    for model_attempts in by_model.values():
        attempts += model_attempts
    return attempts


def _state_counts(grid: Grid) -> str:
    counts = Counter(map(state_of_attempts, grid.values()))
    return ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])


def _render_grid(site: Site, grid: Grid, models: Mapping[str, Sequence[TestAttempt]]) -> Html:
    """A row for each test, and a column for each model."""
    columns = [*models][:MOST_MODELS]
    rows = []
    for test, by_model in [*grid.items()][:MOST_TESTS]:
        rows.append(_test_row(site, test, by_model, columns))
    totals = [_model_total(model, models[model]) for model in columns]
    last_row = table_row(("All", *totals, *PassRate.of(_all_attempts(models)).cells))
    table = tag(
        "table",
        tag("thead", _grid_head(columns)),
        tag("tbody", *rows),
        tag("tfoot", last_row),
        class_="grid-of",
        id="grid",
    )
    region = tag(
        "div", table, class_="wide", tabindex=0, role="region", aria_label="Tests by model"
    )
    return join_html([region, _grid_omission(len(grid), len(models))])


def _grid_head(models: Sequence[str]) -> Html:
    names = [_model_name(model) for model in models]
    heads = ["Test", *names, "Passed", "Share", "95 % interval", "USD an attempt"]
    return tag("tr", *(tag("th", head, scope="col") for head in heads))


def _grid_omission(tests: int, models: int) -> Html | None:
    """What has no place in the grid; None if all has."""
    parts = []
    if tests > MOST_TESTS:
        parts.append(f"{tests - MOST_TESTS:,} more tests")
    if models > MOST_MODELS:
        parts.append(f"{models - MOST_MODELS:,} more models")
    if not parts:
        return None
    text = f"{' and '.join(parts)} have no place here; the list of runs has theirs."
    return tag("p", text, class_="none")


def _model_total(model: str, attempts: Sequence[TestAttempt]) -> Html | str:
    """How many attempts of the model passed."""
    passed, share, interval, _ = PassRate.of(attempts).cells
    if not passed:
        return ""
    link = ""
    if model:
        link = link_to_runs(model=cut_for_table(model))
    return tag("span", svg.link_text(passed, link), tag("small", f"{share} ({interval})"))


def _test_row(
    site: Site, test: str, by_model: Mapping[str, list[TestAttempt]], models: Sequence[str]
) -> Html:
    name = site.names[test]
    cells = []
    sort_keys = []  # of each column but the first
    for model in models:
        attempts = by_model.get(model, ())
        link = link_to_runs(test=name, model=cut_for_table(model))
        cells.append(_attempts_cell(attempts, link))
        sort_keys.append(_share_key(PassRate.of(attempts).interval))
    rate = PassRate.of(_all_attempts(by_model))
    sort_keys += _rate_keys(rate)
    return table_row(
        (_test_link(name), *cells, *rate.cells),
        data_state=state_of_attempts(by_model),
        data_values=",".join(sort_keys),
    )


def _test_link(name: str) -> Html:
    """The test's file, smaller, and its name, which lead to its runs."""
    file, short_name = _split_test_name(name)
    file_text = None
    if file:
        file_text = tag("small", file)
    return tag("a", file_text, short_name, href=link_to_runs(test=name))


def _rate_keys(rate: PassRate) -> tuple[str, str, str, str]:
    """What the script sorts the columns by that stand beside the models'."""
    low = ""
    if rate.interval:
        low = _sort_key(rate.interval.low)
    cost = ""
    if rate.mean_usd is not None:
        cost = _sort_key(rate.mean_usd)
    return _sort_key(rate.passed), _share_key(rate.interval), low, cost


def _share_key(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return _sort_key(interval.value)


def _sort_key(value: float) -> str:
    return f"{value:.6g}"


def _attempts_cell(attempts: Sequence[TestAttempt], link: str) -> Html | None:
    """A mark for each attempt, the newest if there are many; of more than one, how many passed."""
    if not attempts:
        return None
    parts: list[Html] = []
    omitted = len(attempts) - MOST_MARKS
    if omitted > 0:
        parts.append(tag("a", f"{omitted:,} more", href=link))
    parts += map(_attempt_mark, attempts[-MOST_MARKS:])
    rate = PassRate.of(attempts)
    passed = rate.cells[0]
    if passed and len(attempts) > 1:
        parts.append(tag("small", passed, class_="flaky" if rate.is_flaky else None))
    return join_html(parts)


def _attempt_mark(attempt: TestAttempt) -> Html:
    title = str(attempt.result)
    if attempt.repetition > 1:
        title = f"repetition {attempt.repetition}: {title}"
    if attempt.usd is not None:
        title += f", ${attempt.usd:.4f}"
    if attempt.runs:
        duration_ms = sum(run.entry.duration_ms for run in attempt.runs)
        title += f", {duration_ms / 1000:.1f} s"
    run = attempt.telling
    link = None
    if run is not None:
        link = run.page or link_to_runs(run=run.entry.run_id)
    style = f"attempt {attempt.result}"
    element = "span"
    if link:
        element = "a"
    return tag(element, MARKS[attempt.result], class_=style, title=title, href=link)


def _draw_costs(models: Mapping[str, Sequence[TestAttempt]]) -> Html | None:
    """What an attempt cost, against how often it passed."""
    dots: list[svg.Dot] = []
    lines: list[Html] = []
    for model, attempts in [*models.items()][:MOST_LINES]:
        lines.append(_cost_line(model, attempts))
        dot = _cost_dot(model, PassRate.of(attempts))
        if dot is not None and len(dots) < MOST_MODELS:
            dots.append(dot)
    if not dots:
        return None
    heads = ("Model", "Tests", "Passed", "Share", "95 % interval", "USD an attempt", "USD")
    title = "Cost against pass rate, by model"
    caption = tag("p", _cost_sentence(models), class_="none")
    return svg.render_figure("cost-and-rate", title, svg.draw_dots(dots), caption, heads, lines)


def _cost_line(model: str, attempts: Sequence[TestAttempt]) -> Html:
    """A row of the picture's table. "?" beside the sum: an attempt has no price."""
    link = ""
    if model:
        link = link_to_runs(model=cut_for_table(model))
    tests = len({attempt.test for attempt in attempts})
    rate = PassRate.of(attempts)
    total = f"{sum(rate.usd):.4f}"
    if not rate.is_priced:
        total += " + ?"
    return table_row((svg.link_text(_model_name(model), link), f"{tests:,}", *rate.cells, total))


def _cost_dot(model: str, rate: PassRate) -> svg.Dot | None:
    """What an attempt of the model cost, and how often it passed; None if either is not known."""
    if rate.interval is None or rate.mean_usd is None:
        return None
    passed, share, interval, cost = rate.cells
    text = f"{passed} passed ({share}, {interval}), ${cost} an attempt"
    link = link_to_runs(model=cut_for_table(model))
    return svg.Dot(_model_name(model), rate.mean_usd, rate.interval, text, link)


def _cost_sentence(models: Mapping[str, Sequence[TestAttempt]]) -> str:
    sentence = (
        "What an attempt cost (without judges), and the share that passed, with its 95 % interval."
    )
    test_sets = set()
    for model, attempts in models.items():
        if model:
            test_sets.add(frozenset(attempt.test for attempt in attempts))
    if len(test_sets) > 1:
        sentence += " The models had different tests."
    return sentence


def _draw_rates(site: Site, grid: Grid) -> Html | None:
    """The share of attempts that passed, the lowest first."""
    rates = _decided_rates(grid)
    if not rates:
        return None
    ranges = []
    lines = []
    for test, rate, interval in rates[:MOST_LINES]:
        name = site.names[test]
        link = link_to_runs(test=name)
        _, short_name = _split_test_name(name)
        ranges.append(Range(short_name, interval, rate.cells[0], link))
        lines.append(table_row((svg.link_text(name, link), *rate.cells)))
    caption = None
    if len(rates) > MOST_ROWS:
        text = f"The lowest first; {len(rates) - MOST_ROWS:,} more."
        caption = tag("p", text, class_="none")
    heads = ("Test", "Passed", "Share", "95 % interval", "USD an attempt")
    picture = svg.draw_ranges(ranges[:MOST_ROWS])
    return svg.render_figure("rate-by-test", "Pass rate by test", picture, caption, heads, lines)


def _decided_rates(grid: Grid) -> list[tuple[str, PassRate, Interval]]:
    """The tests that anything decides, the lowest share first."""
    rates: list[tuple[str, PassRate, Interval]] = []
    for test, by_model in grid.items():
        rate = PassRate.of(_all_attempts(by_model))
        if rate.interval is not None:
            rates.append((test, rate, rate.interval))

    def order(entry: tuple[str, PassRate, Interval]) -> tuple[float, int, str]:
        test, rate, interval = entry
        return interval.value, -rate.decided, test

    return sorted(rates, key=order)


def _split_test_name(name: str) -> tuple[str, str]:
    """The file of a test's id with its classes, and its own name; in parameters "::" divides
    nothing.
    """
    index = name.partition("[")[0].rfind("::")
    if index < 0:
        return "", name
    return name[: index + 2], name[index + 2 :]


def _model_name(model: str) -> str:
    return cut_for_table(model) or NO_MODEL
