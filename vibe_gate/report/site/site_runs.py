"""What the site shows of each run, and the spans of time by which it adds them up. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from vibe_gate.domain.attempt import RESULTS, TestedRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.gate import Trust
from vibe_gate.domain.label import Label
from vibe_gate.domain.verdict import TrustBadge
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report import feedback, run_list, svg
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.statistics import Statistics

MOST_SPANS = 62
"""Columns of a picture: days of two months, weeks of a year; then months, the newest ones."""

MOST_TEXT = 120
"""Characters of a title or a name of others in the table."""

MOST_PATHS = 100
"""Changed files of a run by which it is found."""

MOST_NAME = 300
"""Characters of a test's id."""


class SiteRun(Struct, frozen=True):
    """A run of the site."""

    entry: RunEntry
    figures: RunFigures = RunFigures()
    title: str = ""
    """Of its commit; "" without one."""
    page: str = ""
    """The address of its page from the index; "" if there is none."""
    tested: TestedRun | None = None
    """What it was for a test; None if it was no test's."""
    person: str = ""
    """The name of its commit's author; "" without one."""

    @property
    def shown_title(self) -> str:
        """Of a run of a test the test, and which time it was."""
        if self.tested is None:
            return self.title
        if self.tested.repetition > 1:
            return f"{self.tested.test}, {self.tested.repetition}"
        return self.tested.test

    @property
    def by(self) -> str:
        """Who wrote the change, as a list shows it: the commit's author, and in brackets the agents
        that its signs name.
        """
        if not self.entry.outcome:
            return ""
        kind = cut_for_table(self.entry.author)
        agents = ", ".join(map(cut_for_table, self.figures.agents))
        if not agents and self.person and kind != "human":
            agents = kind
        author = cut_for_table(self.person) or kind
        if agents:
            return f"{author} ({agents})"
        return author


class Site(Struct, frozen=True, dict=True):
    """What the index is made of."""

    runs: tuple[SiteRun, ...]
    """The newest first."""
    total: Statistics
    labels: tuple[Label, ...] = ()
    """What people say of findings: the labels of the clone."""
    baselines: tuple[Baseline, ...] = ()
    coverage: Verification | None = None
    """Of the commits that `commits` names; None if there are none."""
    commits: str = ""
    only: str = ""
    """How the runs were chosen, as text."""
    without_runs: tuple[TestedRun, ...] = ()
    """Attempts of tests that came to no run."""
    is_session: bool = False
    """It is of one session of tests, and nothing else."""
    replayed: bool = False
    """Its costs are those of when it was recorded."""
    judges: Mapping[tuple[str, str], TrustBadge] = MappingProxyType({})
    """By ids of rubric and criterion, what is known of the gate's judges, and whether their fails
    block.
    """
    trust: Trust = Trust()
    """By which rule of the gate they block."""
    authorship: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """On which day each commit of `coverage` was written, and by whom."""
    first_run: str = ""
    """The day on which the oldest stored run began; "" without one."""
    older: frozenset[str] = frozenset()
    """The commits of `coverage` that were made before that run."""

    @cached_property
    def names(self) -> dict[str, str]:
        """How the tests are shown: cut, and all the same each under another name."""
        tests = {run.tested.test for run in self.runs if run.tested}
        tests.update(tested.test for tested in self.without_runs)
        names: dict[str, str] = {}
        counts = Counter[str]()
        for test in sorted(tests):
            name = cut_for_table(test, MOST_NAME)
            counts[name] += 1
            names[test] = name if counts[name] == 1 else f"{name} ({counts[name]})"
        return names

    @cached_property
    def words(self) -> dict[tuple[str, str], str]:
        """What people said of each finding, by RUBRIC/CRITERION and fingerprint."""
        states: dict[tuple[str, str], str] = {}
        for run in self.runs:
            for finding in run.figures.findings:
                for source in finding.sources:
                    states.setdefault((source, finding.fingerprint), finding.state)
        return feedback.feedback_words(states, self.all_labels)

    @property
    def all_labels(self) -> list[Label]:
        """Those of the clone, and those of the forge that the runs' summaries have."""
        labels = list(self.labels)
        for run in self.runs:
            labels += run.figures.labels
        return labels

    @cached_property
    def days(self) -> list[date]:
        """The days on which runs began, in UTC, without those of ids that no clock made, or dated
        in the future.
        """
        names = {run.entry.run_id[:8] for run in self.runs if run.entry.state != "foreign"}
        return sorted(filter(None, map(_day, names)))

    @cached_property
    def spans(self) -> tuple[DaySpan, ...]:
        """The spans of time from the first run to the last; of many the newest.

        A run that is older than any span could be (its id may name any year) does not choose how
        long they are.
        """
        days = [day for day in self.days if (self.days[-1] - day).days < MOST_SPANS * 31]
        if not days:
            return ()
        return tuple(split_days(days[0], days[-1])[-MOST_SPANS:])

    @property
    def unit(self) -> str:
        """How long the spans are."""
        span = self.spans[0]
        return {0: "by day", 6: "by week"}.get((span.last - span.first).days, "by month")

    @cached_property
    def by_span(self) -> dict[DaySpan, list[SiteRun]]:
        """The runs of each span."""
        runs_by_span: dict[DaySpan, list[SiteRun]] = {span: [] for span in self.spans}
        span_of_day: dict[str, DaySpan] = {}
        for span in self.spans:
            span_of_day |= {f"{day:%Y%m%d}": span for day in span.days}
        for run in self.runs:
            day = run.entry.run_id[:8]
            if run.entry.state != "foreign" and day in span_of_day:
                runs_by_span[span_of_day[day]].append(run)
        return runs_by_span


class DaySpan(Struct, frozen=True):
    """A day, week or month, both ends included."""

    first: date
    last: date
    name: str

    @property
    def text(self) -> str:
        """Both ends, or the day."""
        if self.first == self.last:
            return str(self.first)
        return f"{self.first} to {self.last}"

    @property
    def link(self) -> str:
        """The index with the runs of the span alone."""
        return f"#from={self.first}&to={self.last}"

    @property
    def days(self) -> list[date]:
        """Each day of it."""
        number = (self.last - self.first).days + 1
        return [self.first + timedelta(index) for index in range(number)]


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(name)
    except ValueError:
        return None


def split_days(first: date, last: date) -> list[DaySpan]:
    """Days, weeks from Monday on or months, whichever are at most MOST_SPANS; months if none
    are.
    """
    length = (last - first).days + 1
    if length <= MOST_SPANS:
        days = [first + timedelta(index) for index in range(length)]
        return [DaySpan(day, day, f"{day:%m-%d}") for day in days]
    if length <= MOST_SPANS * 7:
        monday = first - timedelta(first.weekday())
        mondays = [monday + timedelta(index) for index in range(0, (last - monday).days + 1, 7)]
        return [DaySpan(day, day + timedelta(6), f"{day:%m-%d}") for day in mondays]
    spans = []
    month = first.replace(day=1)
    while month <= last:
        next_month = (month + timedelta(31)).replace(day=1)
        spans.append(DaySpan(month, next_month - timedelta(1), f"{month:%Y-%m}"))
        month = next_month
    return spans


class _NameTable:
    """Names of a page's data, each once, and their numbers."""

    def __init__(self) -> None:
        kinds = ("agents", "models", "criteria", "workflows", "people", "paths", "tests")
        self.numbers: dict[str, dict[str, int]] = {kind: {} for kind in kinds}
        self._shown_name = cache(cut_for_table)

    def number(self, kind: str, name: str) -> int:
        """Of a name; those that are shown alike are one."""
        numbers = self.numbers[kind]
        shown_name = name
        if kind != "tests":
            shown_name = self._shown_name(name)
        return numbers.setdefault(shown_name, len(numbers))

    def number_or_none(self, kind: str, name: str) -> int:
        """Of a name; -1 of none."""
        if name:
            return self.number(kind, name)
        return -1

    def numbers_of(self, kind: str, names: Iterable[str]) -> list[int]:
        """Of several names, each once."""
        return list(dict.fromkeys(self.number(kind, name) for name in names))


def build_script_data(site: Site) -> dict[str, Any]:
    """What the script reads of the runs, as `html/app/src/selection.ts` describes. Names stand
    once, numbers for them in the runs; those that are shown alike are one, so that a filter has the
    runs of both.
    """
    names = _NameTable()
    rows = []
    for run in site.runs:
        rows.append(tuple(_script_row(site, run, names)))
    data: dict[str, Any] = {kind: [*numbers] for kind, numbers in names.numbers.items()}
    return data | {"words": feedback.WORDS, "results": RESULTS, "runs": rows}


def _script_row(site: Site, run: SiteRun, names: _NameTable) -> Iterator[object]:
    """A run in the order in which the script reads it; what it was for a test is the last."""
    entry, figures = run.entry, run.figures
    labelled_criteria = _script_labels(site, run, names)
    usd_by_model = _script_costs(run, names)
    tested = None
    if run.tested:
        tested = _script_test(site, run.tested, names)
    yield entry.run_id
    yield run_list.run_word(entry)
    yield cut_for_table(entry.author)
    yield cut_for_table(run.shown_title)
    yield entry.key
    yield _script_page(run)
    yield entry.files
    yield entry.added
    yield entry.deleted
    yield entry.findings
    yield round(entry.cost_usd, 6)
    yield entry.duration_ms
    yield names.numbers_of("agents", figures.agents)
    yield usd_by_model
    yield labelled_criteria
    yield figures.hits
    yield figures.misses
    yield names.number_or_none("workflows", entry.workflow)
    yield names.number_or_none("people", run.person)
    yield names.numbers_of("paths", entry.paths[:MOST_PATHS])
    if tested is not None:
        yield tested


def _script_labels(site: Site, run: SiteRun, names: _NameTable) -> list[tuple[int, int]]:
    """The criteria of the run's findings, each with what people say of one, once."""
    labelled_criteria: dict[tuple[int, int], None] = {}
    for finding in run.figures.findings:
        for source in finding.sources:
            word = feedback.WORDS.index(site.words[source, finding.fingerprint])
            criterion = names.number("criteria", source)
            labelled_criteria[criterion, word] = None
    return list(labelled_criteria)


def _script_costs(run: SiteRun, names: _NameTable) -> list[tuple[int, float]]:
    """US dollars by model; of those that are shown alike, together."""
    usd_by_model: dict[int, float] = {}
    for model, usd in run.figures.usd_by_model.items():
        number = names.number("models", model)
        usd_by_model[number] = usd_by_model.get(number, 0.0) + usd
    return [(number, round(usd, 6)) for number, usd in usd_by_model.items()]


def _script_test(site: Site, tested: TestedRun, names: _NameTable) -> tuple[int, int, int, int]:
    """Test, result, model and repetition."""
    test = names.number("tests", site.names[tested.test])
    model = names.number("models", tested.model)
    return test, RESULTS.index(tested.result), model, tested.repetition


def _script_page(run: SiteRun) -> int | str:
    """1 for the address that most have, 0 without a page."""
    if not run.page:
        return 0
    if run.page == f"runs/{run.entry.run_id}.html":
        return 1
    return run.page


def format_tenths(ms: float) -> str:
    """With one digit behind its point, half a tenth rounded up, as the script does."""
    return f"{math.floor(ms / 100 + 0.5) / 10:.1f}"


def link_to_runs(span: DaySpan | None = None, **only: str) -> str:
    """The list with the runs of a span of time, and of these names, alone; an empty name is left
    out.
    """
    filters = []
    for kind, name in only.items():
        if name:
            shown_name = name
            if kind != "test":
                shown_name = cut_for_table(name)
            filters.append(f"{kind}={quote(shown_name, safe='')}")
    if span:
        return "&".join((span.link, *filters))
    return f"#{'&'.join(filters)}"


def cut_for_table(text: str, most: int = MOST_TEXT) -> str:
    """As much of a text of others as a table has room for."""
    return svg.cut_text(text, most)
