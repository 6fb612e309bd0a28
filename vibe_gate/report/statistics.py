"""What stored runs come to: outcomes, costs, findings, what earlier verdicts saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TypeVar

from msgspec import Struct, field
from rich.text import Text

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted
from vibe_gate.domain.label import Label
from vibe_gate.report import charts, run_list
from vibe_gate.report.feedback import CriterionFeedback, count_feedback, render_feedback_table
from vibe_gate.report.run_figures import FoundFinding, RunFigures

Number = TypeVar("Number", int, float)


class AuthorRuns(Struct):
    """Runs about changes of one author."""

    runs: int = 0
    failed: int = 0
    usd: float = 0.0
    """What the runs cost."""

    def add(self, entry: RunEntry) -> None:
        """Count a run."""
        self.runs += 1
        self.failed += entry.outcome == "fail"
        self.usd += entry.cost_usd


class _FindingCounts:
    """Findings of all runs, each once."""

    def __init__(self) -> None:
        self.by_criterion: dict[tuple[str, str], set[str]] = {}
        """Fingerprints by rubric and criterion."""
        self.advised: dict[str, set[str]] = {}
        """Fingerprints that would have blocked, by RUBRIC/CRITERION."""
        self.states: dict[tuple[str, ...], str] = {}
        """The newest state of each, by fingerprint or run, criterion and path."""

    def add(self, findings: Iterable[FoundFinding], run_id: str) -> None:
        """Count the findings of a run; the newest run comes first."""
        for finding in findings:
            for source in finding.sources:
                rubric, _, criterion = source.partition("/")
                fingerprints = self.by_criterion.setdefault((rubric, criterion), set())
                fingerprints.add(finding.fingerprint)
            for name in finding.advises:
                self.advised.setdefault(name, set()).add(finding.fingerprint)
            name = finding.fingerprint or run_id
            key = (name, finding.criterion, finding.path)
            self.states.setdefault(key, finding.state)

    def fingerprints(self) -> set[str]:
        """All of them."""
        return set[str]().union(*self.by_criterion.values())


class Statistics(Struct):
    """What stored runs come to."""

    runs: int = 0
    outcomes: dict[str, int] = {}
    """Runs by outcome, as `bundles list` names it."""
    not_counted: dict[str, int] = {}
    """Runs without a verdict, by state."""
    usd: float = 0.0
    usd_at_most: bool = False
    """Some model has no listed price."""
    usd_by_day: dict[str, float] = {}
    usd_by_model: dict[str, float] = {}
    usd_by_rubric: dict[str, float] = {}
    findings: dict[str, int] = field(
        default_factory=lambda: {"kept": 0, "overridden": 0, "suppressed": 0}
    )
    """Findings by state. One of several runs counts once, as the newest has it."""
    disputes: dict[str, int] = field(default_factory=lambda: {"refuted": 0, "standing": 0})
    """Disputes of findings by what they came to: each counts once, however many runs count it."""
    hits: int = 0
    """Criteria that earlier verdicts answered."""
    misses: int = 0
    """Criteria that were asked."""
    saved_usd: float | None = None
    """What the conversations cost whose answers were used again, as far as their runs are still
    stored; None if that is not known of any.
    """
    criteria: list[CriterionFeedback] = []
    """What people say of findings."""
    usd_per_right: dict[str, float] = {}
    """By rubric, what its judges cost for each finding that is labelled right."""
    would_have_blocked: dict[str, int] = {}
    """By RUBRIC/CRITERION, findings that would have blocked, had its judge earned to."""
    outcomes_by_day: dict[str, dict[str, int]] = {}
    """By the day of the run's beginning (UTC)."""
    authors: dict[str, AuthorRuns] = {}
    """By "agent" and "human"."""
    agents: dict[str, AuthorRuns] = {}
    """By the name of an agent whose signs the change bears."""


def compute_statistics(
    entries: Iterable[RunEntry],
    runs_by_place: Mapping[str, RunEntry],
    figures_of: Callable[[RunEntry], RunFigures | None],
    labels: Iterable[Label] = (),
    since: datetime | None = None,
) -> Statistics:
    """Those of `entries`, newest first.

    `runs_by_place`: every stored run, for what used its answers again. Figures are asked for only
    of a run that `has_figures`. `labels` and those of the summaries count if their finding is of
    these runs, or if they were given `since` then.
    """
    total = Statistics()
    findings = _FindingCounts()
    judged: set[str] = set()
    disputes: dict[str, str] = {}
    all_labels = list(labels)
    for entry in entries:
        if entry.state != "sealed":
            _add(total.not_counted, entry.state, 1)
            continue
        _add_run(total, entry)
        figures = None
        if has_figures(entry):
            figures = figures_of(entry)
        if figures is None:
            continue
        _add_figures(total, entry, figures)
        _add_saved(total, figures, runs_by_place, figures_of)
        findings.add(figures.findings, entry.run_id)
        all_labels += figures.labels
        judged.update(figures.judged)
        disputes |= figures.disputes
    total.findings |= Counter(findings.states.values())
    for outcome in disputes.values():
        if outcome == "refuted":
            total.disputes["refuted"] += 1
        else:
            total.disputes["standing"] += 1
    for name, fingerprints in sorted(findings.advised.items()):
        total.would_have_blocked[name] = len(fingerprints)
    counted_labels = _labels_of(all_labels, findings.fingerprints(), since)
    total.criteria = count_feedback(findings.by_criterion, counted_labels)
    total.usd_per_right = _usd_per_right(total, judged)
    return total


def _labels_of(
    labels: Iterable[Label], fingerprints: Container[str], since: datetime | None
) -> Iterator[Label]:
    """The labels of these findings, and those that were given `since` then."""
    for label in labels:
        if since is None or label.ts >= since or label.finding in fingerprints:
            yield label


def has_figures(entry: RunEntry) -> bool:
    """Whether the run asked a rubric, cost something or was an agent's: of others the entry says
    all.
    """
    if entry.state != "sealed":
        return False
    return bool(entry.rubrics or entry.cost_usd or entry.author == "agent")


def _add_run(total: Statistics, entry: RunEntry) -> None:
    day = entry.created_at[:10]
    word = run_list.run_word(entry)
    total.runs += 1
    _add(total.outcomes, word, 1)
    _add(total.outcomes_by_day.setdefault(day, {}), word, 1)
    total.usd += entry.cost_usd
    total.usd_at_most |= entry.cost_basis == "unknown"
    if entry.cost_usd:
        _add(total.usd_by_day, day, entry.cost_usd)
    total.authors.setdefault(entry.author, AuthorRuns()).add(entry)


def _add_figures(total: Statistics, entry: RunEntry, figures: RunFigures) -> None:
    for name in figures.agents:
        total.agents.setdefault(name, AuthorRuns()).add(entry)
    for model, usd in figures.usd_by_model.items():
        _add(total.usd_by_model, model, usd)
    for rubric, usd in figures.usd_by_rubric.items():
        _add(total.usd_by_rubric, rubric, usd)
    total.hits += figures.hits
    total.misses += figures.misses


def _usd_per_right(total: Statistics, judged: Container[str]) -> dict[str, float]:
    right_counts = Counter[str]()
    for feedback in total.criteria:
        if f"{feedback.rubric}/{feedback.criterion}" in judged:
            right_counts[feedback.rubric] += feedback.right
    usd_per_right = {}
    for rubric, usd in total.usd_by_rubric.items():
        if right_counts[rubric]:
            usd_per_right[rubric] = usd / right_counts[rubric]
    return usd_per_right


def _add(counts: dict[str, Number], name: str, number: Number) -> None:
    counts[name] = counts.get(name, 0) + number


def _add_saved(
    total: Statistics,
    figures: RunFigures,
    runs_by_place: Mapping[str, RunEntry],
    figures_of: Callable[[RunEntry], RunFigures | None],
) -> None:
    """What the conversations cost that were not held again."""
    for place in figures.reused:
        run, _, node = place.rpartition("/")
        earlier_run = runs_by_place.get(run)
        if earlier_run is None or earlier_run.state != "sealed":
            continue
        earlier_figures = figures_of(earlier_run)
        if earlier_figures is not None and node in earlier_figures.usd_by_node:
            total.saved_usd = (total.saved_usd or 0.0) + earlier_figures.usd_by_node[node]


def render_statistics(total: Statistics) -> list[str]:
    """Lines for a pipe."""
    lines = [*_total_lines(total), f"cost: {_cost(total)}"]
    lines += _usd_table("day", sorted(total.usd_by_day.items()))
    lines += _usd_table("model", largest_first(total.usd_by_model))
    lines += _usd_table("rubric", _by_rubric(total))
    lines += render_feedback_table(total.criteria)
    lines += _usd_table("for each right finding of", largest_first(total.usd_per_right))
    return lines


def draw_statistics(total: Statistics, columns: int) -> Text:
    """For a terminal: the figures of `render_statistics` with bars, by day, author and agent, too;
    at most so wide, from 40 on.

    In a narrow one sentences are broken, tables lose their bars, then the intervals, and at last
    the ends of names.
    """
    width = max(columns, MIN_WIDTH)
    lines = _draw_outcomes(total, width)
    sentences = [*_total_lines(total)[1:], f"cost: {_cost(total)}"]
    lines += charts.wrap_text(Text("\n".join(sentences)), width)
    lines += _draw_days(total, width)
    for title, authors in (("author", total.authors), ("agent", total.agents)):
        rows = _author_rows(authors)
        lines += charts.draw_bar_table(title, "failed, cost", rows, width, "red", 1.0)
    lines += charts.draw_bar_table("criterion", "found", _criterion_rows(total), width, "red")
    models = _usd_rows(largest_first(total.usd_by_model))
    lines += charts.draw_bar_table("model", "USD", models, width)
    rubrics = _usd_rows(_by_rubric(total))
    lines += charts.draw_bar_table("rubric", "USD", rubrics, width)
    lines += _draw_feedback(total, width)
    rows = _usd_rows(largest_first(total.usd_per_right))
    lines += charts.draw_bar_table("for each right finding of", "USD", rows, width)
    return Text("\n").join(lines)


def _draw_outcomes(total: Statistics, width: int) -> list[Text]:
    """How many runs, and a bar of their outcomes."""
    outcomes = largest_first(total.outcomes)
    if not outcomes:
        return charts.wrap_text(Text("0 runs"), width)
    head = Text(f"{counted(total.runs, 'run')}: ").append(charts.draw_key(outcomes))
    return [*charts.wrap_text(head, width), *charts.draw_stacked_bar(outcomes, width)]


def _author_rows(authors: Mapping[str, AuthorRuns]) -> list[charts.BarRow]:
    """By author, those with most runs first."""
    rows = []
    for name, author in most_runs_first(authors):
        figures = f"{author.failed:,} of {author.runs:,}, ${author.usd:.2f}"
        rows.append((name, figures, author.failed / author.runs))
    return rows


def most_runs_first(authors: Mapping[str, AuthorRuns]) -> list[tuple[str, AuthorRuns]]:
    """The authors; those of equally many runs by name."""

    def order(entry: tuple[str, AuthorRuns]) -> tuple[int, str]:
        name, author = entry
        return -author.runs, name

    return sorted(authors.items(), key=order)


def _criterion_rows(total: Statistics) -> list[charts.BarRow]:
    """The criteria with most findings."""
    counts = {}
    for feedback in total.criteria:
        if feedback.found:
            counts[f"{feedback.rubric}/{feedback.criterion}"] = feedback.found
    rows: list[charts.BarRow] = []
    for name, count in largest_first(counts)[:MOST_CRITERIA]:
        rows.append((name, f"{count:,}", count))
    return rows


def _usd_rows(costs: Iterable[tuple[str, float]]) -> list[charts.BarRow]:
    return [(name, f"{usd:.4f}", usd) for name, usd in costs]


def _draw_feedback(total: Statistics, width: int) -> list[Text]:
    """What people say of findings: a blank line, the heads, the rows."""
    lines = []
    for number, line in enumerate(render_feedback_table(total.criteria, width)):
        style = ""
        if number == 1:
            style = "bold"
        lines.append(Text(charts.fit_name(line, width), style))
    return lines


MIN_WIDTH, MOST_DAYS, MOST_CRITERIA = 40, 56, 10
"""Of the drawing: columns; days, fewer if the terminal is narrow; criteria."""


def _draw_days(total: Statistics, width: int) -> list[Text]:
    """Runs, fails and USD of each day until the last one with a run, as sparklines."""
    days = _days_until_last_run(total, width)
    if not days:
        return []
    if len(days) > 1:
        title = f"by day, {days[0]} to {days[-1]}"
    else:
        title = f"on {days[0]}"
    lines = [Text(), Text(title, "bold")]
    runs = []
    failed = []
    usd = []
    for day in days:
        counts = total.outcomes_by_day.get(day, {})
        runs.append(sum(counts.values()))
        failed.append(counts.get("fail", 0))
        usd.append(total.usd_by_day.get(day, 0.0))
    lines.append(_draw_day_line("runs", runs, "cyan", f"{max(runs):,}"))
    lines.append(_draw_day_line("failed", failed, "red", f"{max(failed):,}"))
    lines.append(_draw_day_line("USD", usd, "cyan", f"${max(usd):,.4f}"))
    return lines


def _draw_day_line(name: str, values: Sequence[float], style: str, most: str) -> Text:
    line = Text.assemble(f"{name:<8}", (charts.draw_sparkline(values), style))
    return line.append(f"  most {most}", "dim")


def _days_until_last_run(total: Statistics, width: int) -> list[str]:
    """The days until the last one with a run, as many as there is room for; none without runs."""
    dates = sorted(filter(None, map(_date, total.outcomes_by_day)))
    if not dates:
        return []
    first, last = dates[0], dates[-1]
    number = min((last - first).days + 1, MOST_DAYS, width - 26)
    days = []
    for age in reversed(range(number)):
        day = last - timedelta(days=age)
        days.append(day.isoformat())
    return days


def _total_lines(total: Statistics) -> list[str]:
    runs = counted(total.runs, "run")
    outcomes = _count_words(largest_first(total.outcomes))
    lines = [f"{runs}: {outcomes}" if outcomes else runs]
    if total.not_counted:
        lines.append(f"not counted: {_count_words(total.not_counted.items())}")
    lines.append(f"findings: {_count_words(total.findings.items())}")
    if dispute_count := sum(total.disputes.values()):
        lines.append(f"disputes: {dispute_count:,} raised, {_count_words(total.disputes.items())}")
    if total.would_have_blocked:
        counts = []
        for name, number in largest_first(total.would_have_blocked):
            counts.append(f"{number:,} of {name}")
        lines.append(f"would have blocked: {', '.join(counts)}")
    if total.hits:
        answers = counted(total.hits + total.misses, "answer")
        line = f"from earlier verdicts: {total.hits:,} of {answers}"
        if total.saved_usd is not None:
            line += f", at least ${total.saved_usd:.4f} saved"
        lines.append(line)
    return lines


def _count_words(counts: Iterable[tuple[str, int]]) -> str:
    words = []
    for name, count in counts:
        words.append(f"{count:,} {name}")
    return ", ".join(words)


def _date(day: str) -> date | None:
    """None of a run id that somebody made up."""
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def _cost(total: Statistics) -> str:
    cost = f"${total.usd:.4f}"
    if total.usd_at_most:
        return f"{cost} at most"
    return cost


def _by_rubric(total: Statistics) -> list[tuple[str, float]]:
    costs = []
    for name, usd in largest_first(total.usd_by_rubric):
        costs.append((name or "(agents, unanswered judges)", usd))
    return costs


def largest_first(numbers: Mapping[str, Number]) -> list[tuple[str, Number]]:
    """The numbers, those of equals by name."""

    def order(entry: tuple[str, Number]) -> tuple[Number, str]:
        name, number = entry
        return -number, name

    return sorted(numbers.items(), key=order)


def _usd_table(title: str, rows: Sequence[tuple[str, float]]) -> list[str]:
    if not rows:
        return []
    names = [name for name, _ in rows]
    width = max(len(title), *map(len, names))
    lines = ["", f"{title:<{width}}       USD"]
    for name, usd in rows:
        lines.append(f"{name:<{width}}  {usd:>8.4f}")
    return lines
