"""What stored runs come to: outcomes, costs, findings, what earlier verdicts saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TypeVar

from msgspec import Struct, field
from rich.text import Text

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted
from vibe_gate.domain.label import Label
from vibe_gate.report import charts, run_list
from vibe_gate.report.feedback import CriterionFeedback, count_feedback
from vibe_gate.report.feedback import render_feedback_table as feedback_lines
from vibe_gate.report.run_figures import RunFigures

Number = TypeVar("Number", int, float)


class AuthorRuns(Struct):
    """Runs about changes of one author; `usd` is what they cost."""

    runs: int = 0
    failed: int = 0
    usd: float = 0.0

    def add(self, entry: RunEntry) -> None:
        """Count a run."""
        self.runs += 1
        self.failed += entry.outcome == "fail"
        self.usd += entry.cost_usd


class Statistics(Struct):
    """Counts and USD. `outcomes` as `bundles list` names them; `not_counted`: runs without a
    verdict, by state.

    `usd_at_most`: some model has no listed price. A finding of several runs counts once, as the
    newest has it.
    `hits` and `misses` count criteria. `saved_usd` is what the conversations cost whose answers
    were used again, as far as their runs are still stored; None if that is not known of any.
    `criteria`: what people say of findings; `usd_per_right`: by rubric, what its judges cost for
    each finding that is labelled right. `would_have_blocked`: by RUBRIC/CRITERION, findings that
    would have blocked, had its judge earned to. `outcomes_by_day`: by the day of the run's
    beginning (UTC). `authors`: "agent" and "human"; `agents`: by name, those whose signs a change
    bears.
    """

    runs: int = 0
    outcomes: dict[str, int] = {}
    not_counted: dict[str, int] = {}
    usd: float = 0.0
    usd_at_most: bool = False
    usd_by_day: dict[str, float] = {}
    usd_by_model: dict[str, float] = {}
    usd_by_rubric: dict[str, float] = {}
    findings: dict[str, int] = field(
        default_factory=lambda: {"kept": 0, "overridden": 0, "suppressed": 0}
    )
    hits: int = 0
    misses: int = 0
    saved_usd: float | None = None
    criteria: list[CriterionFeedback] = []
    usd_per_right: dict[str, float] = {}
    would_have_blocked: dict[str, int] = {}
    outcomes_by_day: dict[str, dict[str, int]] = {}
    authors: dict[str, AuthorRuns] = {}
    agents: dict[str, AuthorRuns] = {}


def compute_statistics(
    entries: Iterable[RunEntry],
    known: Mapping[str, RunEntry],
    figures_of: Callable[[RunEntry], RunFigures | None],
    labels: Iterable[Label] = (),
    since: datetime | None = None,
) -> Statistics:
    """Those of `entries`, newest first. `known`: every run by its place, for what used its answers
    again.

    Figures are asked for only of a run that `has_figures`. `labels` and those of the summaries
    count if their finding is of these runs, or if they were given `since` then.
    """
    total = Statistics()
    found: dict[tuple[str, str], set[str]] = {}
    advised: dict[str, set[str]] = {}
    judged: set[str] = set()
    said = list(labels)
    states: dict[tuple[str, ...], str] = {}
    for entry in entries:
        if entry.state != "sealed":
            _add(total.not_counted, entry.state, 1)
            continue
        _add_run(total, entry)
        figures = figures_of(entry) if has_figures(entry) else None
        if figures is None:
            continue
        for name in figures.agents:
            total.agents.setdefault(name, AuthorRuns()).add(entry)
        for into, usd_by in (
            (total.usd_by_model, figures.usd_by_model),
            (total.usd_by_rubric, figures.usd_by_rubric),
        ):
            for name, usd in usd_by.items():
                _add(into, name, usd)
        total.hits += figures.hits
        total.misses += figures.misses
        _add_saved(total, figures, known, figures_of)
        said += figures.labels
        judged |= {*figures.judged}
        for finding in figures.findings:
            for source in finding.sources:
                rubric, _, criterion = source.partition("/")
                found.setdefault((rubric, criterion), set()).add(finding.fingerprint)
            for name in finding.advises:
                advised.setdefault(name, set()).add(finding.fingerprint)
            states.setdefault(
                (finding.fingerprint or entry.run_id, finding.criterion, finding.path),
                finding.state,
            )
    total.findings |= Counter(states.values())
    total.would_have_blocked = {name: len(names) for name, names in sorted(advised.items())}
    there = {name for names in found.values() for name in names}
    total.criteria = count_feedback(
        found, (one for one in said if not since or one.ts >= since or one.finding in there)
    )
    total.usd_per_right = _usd_per_right(total, judged)
    return total


def has_figures(entry: RunEntry) -> bool:
    """Whether the run asked a rubric, cost something or was an agent's: of others the entry says
    all.
    """
    return bool(
        entry.state == "sealed" and (entry.rubrics or entry.cost_usd or entry.author == "agent")
    )


def _add_run(total: Statistics, entry: RunEntry) -> None:
    total.runs += 1
    _add(total.outcomes, run_list.run_word(entry), 1)
    total.usd += entry.cost_usd
    total.usd_at_most |= entry.cost_basis == "unknown"
    if entry.cost_usd:
        _add(total.usd_by_day, entry.created_at[:10], entry.cost_usd)
    _add(total.outcomes_by_day.setdefault(entry.created_at[:10], {}), run_list.run_word(entry), 1)
    total.authors.setdefault(entry.author, AuthorRuns()).add(entry)


def _usd_per_right(total: Statistics, judged: Container[str]) -> dict[str, float]:
    right = Counter[str]()
    for each in total.criteria:
        right[each.rubric] += each.right if f"{each.rubric}/{each.criterion}" in judged else 0
    return {name: usd / right[name] for name, usd in total.usd_by_rubric.items() if right[name]}


def _add(to: dict[str, Number], name: str, number: Number) -> None:
    to[name] = to.get(name, 0) + number


def _add_saved(
    total: Statistics,
    figures: RunFigures,
    known: Mapping[str, RunEntry],
    figures_of: Callable[[RunEntry], RunFigures | None],
) -> None:
    """What the conversations cost that were not held again."""
    for place in figures.reused:
        run, _, node = place.rpartition("/")
        earlier = known.get(run)
        its = figures_of(earlier) if earlier is not None and earlier.state == "sealed" else None
        if its is not None and node in its.usd_by_node:
            total.saved_usd = (total.saved_usd or 0.0) + its.usd_by_node[node]


def render_statistics(total: Statistics) -> list[str]:
    """For pipes, and who reads them."""
    text = [*_totals(total), f"cost: {_cost(total)}"]
    text += _table("day", sorted(total.usd_by_day.items()))
    text += _table("model", _greatest(total.usd_by_model))
    text += _table("rubric", _by_rubric(total))
    text += feedback_lines(total.criteria)
    return text + _table("for each right finding of", _greatest(total.usd_per_right))


def draw_statistics(total: Statistics, columns: int) -> Text:
    """For a terminal: the figures of `render_statistics` with bars, by day, author and agent, too; at most so
    wide, from 40 on.

    In a narrow one sentences are broken, tables lose their bars, then the intervals, and at last
    the ends of names.
    """
    width = max(columns, MIN_WIDTH)
    parts = _greatest(total.outcomes)
    head = (
        Text(f"{counted(total.runs, 'run')}: ").append(charts.draw_key(parts))
        if parts
        else Text("0 runs")
    )
    rows = [*charts.wrap_text(head, width), *charts.draw_stacked_bar(parts, width)]
    rows += charts.wrap_text(Text("\n".join((*_totals(total)[1:], f"cost: {_cost(total)}"))), width)
    rows += _days(total, width)
    for title, authors in (("author", total.authors), ("agent", total.agents)):
        rows += charts.draw_bar_table(title, "failed, cost", _failed(authors), width, "red", 1.0)
    found = {f"{one.rubric}/{one.criterion}": one.found for one in total.criteria if one.found}
    rows += charts.draw_bar_table(
        "criterion", "found", _figures(_greatest(found)[:MOST_CRITERIA], ","), width, "red"
    )
    for title, numbers in (("model", _greatest(total.usd_by_model)), ("rubric", _by_rubric(total))):
        rows += charts.draw_bar_table(title, "USD", _figures(numbers, ".4f"), width)
    said = [charts.fit_name(line, width) for line in feedback_lines(total.criteria, width)]
    rows += [
        Text(line, "bold" if number == 1 else "") for number, line in enumerate(said)
    ]  # 0: a blank line
    rows += charts.draw_bar_table(
        "for each right finding of", "USD", _figures(_greatest(total.usd_per_right), ".4f"), width
    )
    return Text("\n").join(rows)


def _failed(authors: Mapping[str, AuthorRuns]) -> list[tuple[str, str, float]]:
    """By author, those with most runs first."""
    most = sorted(authors.items(), key=lambda item: (-item[1].runs, item[0]))
    return [
        (name, f"{one.failed:,} of {one.runs:,}, ${one.usd:.2f}", one.failed / one.runs)
        for name, one in most
    ]


MIN_WIDTH, MOST_DAYS, MOST_CRITERIA = 40, 56, 10
"""Of the drawing: columns; days, fewer if the terminal is narrow; criteria."""


def _days(total: Statistics, width: int) -> list[Text]:
    """Runs, fails and USD of each day until the last one with a run, as sparklines."""
    dates = sorted(filter(None, map(_date, total.outcomes_by_day)))
    if not dates:
        return []
    last = dates[-1]
    number = min((last - dates[0]).days + 1, MOST_DAYS, width - 26)
    days = [(last - timedelta(days=ago)).isoformat() for ago in range(number - 1, -1, -1)]
    by_day = [total.outcomes_by_day.get(day, {}) for day in days]
    rows: dict[str, tuple[Sequence[float], str, str]] = {
        "runs": ([sum(one.values()) for one in by_day], "cyan", "{:,}"),
        "failed": ([one.get("fail", 0) for one in by_day], "red", "{:,}"),
        "USD": ([total.usd_by_day.get(day, 0.0) for day in days], "cyan", "${:,.4f}"),
    }
    lines = [
        Text(),
        Text(f"by day, {days[0]} to {days[-1]}" if number > 1 else f"on {days[0]}", "bold"),
    ]
    for name, (values, style, figure) in rows.items():
        line = Text.assemble(f"{name:<8}", (charts.draw_sparkline(values), style))
        lines.append(line.append(f"  most {figure.format(max(values))}", "dim"))
    return lines


def _date(day: str) -> date | None:
    """None of a run id that somebody made up."""
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def _totals(total: Statistics) -> list[str]:
    outcomes = ", ".join(f"{times:,} {name}" for name, times in _greatest(total.outcomes))
    text = [f"{counted(total.runs, 'run')}{f': {outcomes}' if outcomes else ''}"]
    if total.not_counted:
        text.append(
            f"not counted: {', '.join(f'{times:,} {name}' for name, times in total.not_counted.items())}"
        )
    text.append(
        "findings: " + ", ".join(f"{times:,} {name}" for name, times in total.findings.items())
    )
    if total.would_have_blocked:
        each = ", ".join(
            f"{number:,} of {name}" for name, number in _greatest(total.would_have_blocked)
        )
        text.append(f"would have blocked: {each}")
    if total.hits:
        saved = "" if total.saved_usd is None else f", at least ${total.saved_usd:.4f} saved"
        text.append(
            f"from earlier verdicts: {total.hits:,} of {counted(total.hits + total.misses, 'answer')}{saved}"
        )
    return text


def _cost(total: Statistics) -> str:
    return f"${total.usd:.4f}{' at most' if total.usd_at_most else ''}"


def _by_rubric(total: Statistics) -> list[tuple[str, float]]:
    return [
        (name or "(agents, unanswered judges)", usd) for name, usd in _greatest(total.usd_by_rubric)
    ]


def _figures(numbers: Iterable[tuple[str, float]], form: str) -> list[tuple[str, str, float]]:
    return [(name, format(number, form), number) for name, number in numbers]


def _greatest(numbers: Mapping[str, Number]) -> list[tuple[str, Number]]:
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def _table(title: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    if not rows:
        return []
    width = max(len(title), *(len(name) for name, _ in rows))
    return [
        "",
        f"{title:<{width}}       USD",
        *(f"{name:<{width}}  {usd:>8.4f}" for name, usd in rows),
    ]
