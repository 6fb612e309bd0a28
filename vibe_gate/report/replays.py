"""Replays of stored runs as a table, sentences and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vibe_gate.domain.cause import BudgetReached, NoKey
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted
from vibe_gate.domain.replayed import NOT_YET, CriterionChange, ReplayRow, ReplayTotals, totals
from vibe_gate.report import queries
from vibe_gate.report.sentences import SHORT_RUN

HEADS = ("run", "criterion", "before -> after", "USD")


def render_replay_lines(rows: Sequence[ReplayRow]) -> Iterator[str]:
    """A line for each criterion that came out otherwise, its findings below, then what all come
    to.
    """
    changed = [(row, one) for row in rows for one in row.shown]
    cells = [HEADS, *(_cells(row, one) for row, one in changed)] if changed else []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for at, each in enumerate(cells):
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(each, widths, strict=True)
        ).rstrip()
        if at:
            yield from (f"    {text}" for text in render_changed_findings(changed[at - 1][1]))
    if waiting := sum(row.why == NOT_YET for row in rows):
        yield f"{NOT_YET}: {counted(waiting, 'run')}"
    if lost := [row for row in rows if row.is_lost]:
        yield f"cannot be replayed: {counted(len(lost), 'run')}"
        yield from (f"  {row.run_id}: {row.why.splitlines()[0]}" for row in lost)
    if rows:
        yield from replay_sentences(totals(rows))


def _cells(row: ReplayRow, change: CriterionChange) -> tuple[str, ...]:
    return (
        row.run_id[:SHORT_RUN],
        f"{change.rubric}/{change.criterion}",
        f"{change.before} -> {change.after}",
        f"{row.usd:.4f}",
    )


def render_changed_findings(change: CriterionChange) -> Iterator[str]:
    """The findings of a criterion that came out otherwise, a line each."""
    for one in change.findings:
        place = f"{one.path}:{one.line}" if one.line else one.path or "the change"
        yield f"{place}: {one.message} [{one.fingerprint}]"


def replay_sentences(
    total: ReplayTotals, budget_usd: float = 0.0, show: Callable[[str], str] = str
) -> Iterator[str]:
    """What the rows come to, for people. `budget_usd`: what all replays might cost; 0: no limit.

    `show` prepares the reason of a run that was not judged, which may hold words of others.
    """
    if not total.tried:
        yield "No run was replayed."
        return
    if not total.judged:
        reason = _hindrance(total, budget_usd, show)
        yield f"{total.judged:,} of {total.tried:,} could be judged again ({reason}); ${total.usd:.2f}."
        return
    yield (
        f"Would have blocked {total.new:,} of {total.judged:,}, would no longer block {total.gone:,}; ${total.usd:.2f}."
    )
    if total.judged < total.tried:
        reason = _hindrance(total, budget_usd, show)
        yield f"{total.tried - total.judged:,} of {total.tried:,} could not be judged again ({reason})."
    if total.gone_wrong or total.gone_right:
        right = f", {total.gone_right:,} right" if total.gone_right else ""
        yield f"Of {total.gone:,} that it would no longer block, {_were(total.gone_wrong)} labelled wrong{right}."
    if total.new_wrong:
        yield f"Of {total.new:,} that it would have blocked, {_were(total.new_wrong)} labelled wrong."
    if total.open:
        yield f"{counted(total.open, 'run is', 'runs are')} undecided now."
    if total.unasked:
        questions = counted(total.unasked, "question was", "questions were")
        yield f"No API key: {questions} not asked. Set ANTHROPIC_API_KEY."


def _hindrance(total: ReplayTotals, budget_usd: float, show: Callable[[str], str]) -> str:
    """Why the first run was not judged again, in a few words."""
    if isinstance(total.cause, NoKey):
        return "no API key: set ANTHROPIC_API_KEY"
    if isinstance(total.cause, BudgetReached) and budget_usd:
        return f"its budget of ${budget_usd:g}"
    return show(queries.reason_in_words(total.hindrance))


def _were(count: int) -> str:
    return f"{count:,} {'was' if count == 1 else 'were'}"


def build_replay_document(rows: Iterable[ReplayRow], batch: str, exit_code: int) -> dict[str, Any]:
    """All of it as JSON."""
    every = list(rows)
    return {
        "exit_code": exit_code,
        "batch": batch,
        "totals": plain(totals(every)),
        "runs": [plain(row) for row in every],
    }
