"""What the site shows of each run, and the spans of time by which it adds them up. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
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
    """A run. `title` and `person`, the author's name, are its commit's, `page` is the address of
    its page from the index; "" if there is none.

    `tested`: what it was for a test; None if it was no test's.
    """

    entry: RunEntry
    figures: RunFigures = RunFigures()
    title: str = ""
    page: str = ""
    tested: TestedRun | None = None
    person: str = ""

    @property
    def shown_title(self) -> str:
        """Of a run of a test the test, and which time it was."""
        if self.tested is None:
            return self.title
        return self.tested.test + (
            f", {self.tested.repetition}" if self.tested.repetition > 1 else ""
        )

    @property
    def by(self) -> str:
        """Who wrote the change, as a list shows it: the commit's author, and in brackets the agents
        that its signs name.
        """
        if not self.entry.outcome:
            return ""
        kind = cut_for_table(self.entry.author)
        agents = ", ".join(map(cut_for_table, self.figures.agents)) or (
            kind if self.person and kind != "human" else ""
        )
        return (cut_for_table(self.person) or kind) + (f" ({agents})" if agents else "")


class Site(Struct, frozen=True, dict=True):
    """What the index is made of. `runs`: newest first; `labels`: what people say of findings, those
    of the clone.

    `coverage`: of the commits that `commits` names; None if there are none. `made`: on which day
    each of them was written, and by whom. `only`: how the runs were chosen, as text.
    `judges`: by ids of rubric and criterion, what is known of the gate's judges, and whether their
    fails block, by the gate's `trust`.
    `without_runs`: attempts of tests that came to no run. `is_session`: of one session of tests,
    and nothing else; `replayed`: its costs are those of when it was recorded.
    """

    runs: tuple[SiteRun, ...]
    total: Statistics
    labels: tuple[Label, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    coverage: Verification | None = None
    commits: str = ""
    only: str = ""
    without_runs: tuple[TestedRun, ...] = ()
    is_session: bool = False
    replayed: bool = False
    judges: Mapping[tuple[str, str], TrustBadge] = MappingProxyType({})
    trust: Trust = Trust()
    made: Mapping[str, tuple[str, str]] = MappingProxyType({})
    first_run: str = ""
    """The day on which the oldest stored run began; "" without one."""
    older: frozenset[str] = frozenset()
    """The commits of `coverage` that were made before that run."""

    @cached_property
    def names(self) -> dict[str, str]:
        """How the tests are shown: cut, and all the same each under another name."""
        told = (*(run.tested for run in self.runs if run.tested), *self.without_runs)
        shown, times = dict[str, str](), Counter[str]()
        for test in sorted({one.test for one in told}):
            name = cut_for_table(test, MOST_NAME)
            times[name] += 1
            shown[test] = name if times[name] == 1 else f"{name} ({times[name]})"
        return shown

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
        return [*self.labels, *(label for run in self.runs for label in run.figures.labels)]

    @cached_property
    def days(self) -> list[date]:
        """The days on which runs began, in UTC, without those of ids that no clock made, or dated
        in the future.
        """
        names = {run.entry.run_id[:8] for run in self.runs if run.entry.state != "foreign"}
        return sorted(day for name in names if (day := _day(name)))

    @cached_property
    def spans(self) -> tuple[DaySpan, ...]:
        """The spans of time from the first run to the last; of many the newest.

        A run that is older than any span could be (its id may name any year) does not choose how
        long they are.
        """
        days = [day for day in self.days if (self.days[-1] - day).days < MOST_SPANS * 31]
        return tuple(split_days(days[0], days[-1])[-MOST_SPANS:]) if days else ()

    @property
    def unit(self) -> str:
        """How long the spans are."""
        span = self.spans[0]
        return {0: "by day", 6: "by week"}.get((span.last - span.first).days, "by month")

    @cached_property
    def by_span(self) -> dict[DaySpan, list[SiteRun]]:
        """The runs of each span."""
        found: dict[DaySpan, list[SiteRun]] = {span: [] for span in self.spans}
        of = {f"{day:%Y%m%d}": span for span in self.spans for day in span.days}
        for run in self.runs:
            if run.entry.state != "foreign" and (span := of.get(run.entry.run_id[:8])):
                found[span].append(run)
        return found


class DaySpan(Struct, frozen=True):
    """A day, week or month, both ends included."""

    first: date
    last: date
    name: str

    @property
    def shown(self) -> str:
        """Both ends, or the day."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def link(self) -> str:
        """The index with the runs of the span alone."""
        return f"#from={self.first}&to={self.last}"

    @property
    def days(self) -> list[date]:
        """Each day of it."""
        return [
            self.first + timedelta(number) for number in range((self.last - self.first).days + 1)
        ]


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
        return [
            DaySpan(day, day, f"{day:%m-%d}")
            for day in (first + timedelta(at) for at in range(length))
        ]
    if length <= MOST_SPANS * 7:
        monday = first - timedelta(first.weekday())
        starts = (monday + timedelta(at) for at in range(0, (last - monday).days + 1, 7))
        return [DaySpan(day, day + timedelta(6), f"{day:%m-%d}") for day in starts]
    found = [first.replace(day=1)]
    while (then := (found[-1] + timedelta(31)).replace(day=1)) <= last:
        found.append(then)
    return [
        DaySpan(day, (day + timedelta(31)).replace(day=1) - timedelta(1), f"{day:%Y-%m}")
        for day in found
    ]


def build_script_data(site: Site) -> dict[str, Any]:
    """What the script reads of the runs, as `html/app/src/selection.ts` describes. Names stand
    once, numbers for them in the runs; those that are shown alike are one, so that a filter has the
    runs of both.
    """
    kinds = ("agents", "models", "criteria", "workflows", "people", "paths", "tests")
    names: dict[str, dict[str, int]] = {kind: {} for kind in kinds}
    shown = cache(lambda kind, name: name if kind == "tests" else cut_for_table(name))

    def number(kind: str, name: str) -> int:
        return names[kind].setdefault(shown(kind, name), len(names[kind]))

    def numbers(kind: str, each: Iterable[str]) -> list[int]:
        return list(dict.fromkeys(number(kind, name) for name in each))

    rows = []
    for run in site.runs:
        entry, figures = run.entry, run.figures
        found: dict[tuple[int, int], None] = {}
        for finding in figures.findings:
            for source in finding.sources:
                word = feedback.WORDS.index(site.words[source, finding.fingerprint])
                found[number("criteria", source), word] = None
        paid: dict[int, float] = {}
        for name, usd in figures.usd_by_model.items():
            at = number("models", name)
            paid[at] = paid.get(at, 0.0) + usd
        tested: list[object] = []
        if one := run.tested:
            named = (
                number("tests", site.names[one.test]),
                RESULTS.index(one.result),
                number("models", one.model),
            )
            tested = [(*named, one.repetition)]
        rows.append(
            (
                entry.run_id,
                run_list.run_word(entry),
                cut_for_table(entry.author),
                cut_for_table(run.shown_title),
                entry.key,
                _page(run),
                entry.files,
                entry.added,
                entry.deleted,
                entry.findings,
                round(entry.cost_usd, 6),
                entry.duration_ms,
                numbers("agents", figures.agents),
                [(at, round(usd, 6)) for at, usd in paid.items()],
                list(found),
                figures.hits,
                figures.misses,
                number("workflows", entry.workflow) if entry.workflow else -1,
                number("people", run.person) if run.person else -1,
                numbers("paths", entry.paths[:MOST_PATHS]),
                *tested,
            )
        )
    return {kind: [*known] for kind, known in names.items()} | {
        "words": feedback.WORDS,
        "results": RESULTS,
        "runs": rows,
    }


def _page(run: SiteRun) -> int | str:
    """1 for the address that most have, 0 without a page."""
    return int(bool(run.page)) if run.page in ("", f"runs/{run.entry.run_id}.html") else run.page


def format_tenths(ms: float) -> str:
    """With one digit behind its point, half a tenth rounded up, as the script does."""
    return f"{math.floor(ms / 100 + 0.5) / 10:.1f}"


def link_to_runs(span: DaySpan | None = None, **only: str) -> str:
    """The list with the runs of a span of time, and of these names, alone; an empty name is left
    out.
    """
    wanted = [
        f"{kind}={quote(name if kind == 'test' else cut_for_table(name), safe='')}"
        for kind, name in only.items()
        if name
    ]
    return "&".join((span.link, *wanted)) if span else f"#{'&'.join(wanted)}"


def cut_for_table(text: str, most: int = MOST_TEXT) -> str:
    """As much of a text of others as a table has room for."""
    return svg.cut_text(text, most)
