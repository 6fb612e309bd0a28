"""Replays of stored runs as a table, sentences and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vibe_gate.domain.cause import BudgetReached, NoKey, NoSdk
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.replayed import NOT_YET, CriterionChange, ReplayRow, ReplayTotals, sum_rows
from vibe_gate.report import queries, sentences
from vibe_gate.report.sentences import SHORT_RUN

HEADS = ("run", "criterion", "before -> after", "USD")


def render_replay_lines(rows: Sequence[ReplayRow], agent_runs: Sequence[str] = ()) -> Iterator[str]:
    """A line for each criterion that came out otherwise, its findings below, then what all come
    to.

    `agent_runs`: the ids of runs of workflows and agents, which are not repeated among others.
    """
    yield from _change_table(rows)
    waiting = sum(row.why == NOT_YET for row in rows)
    if waiting:
        yield f"{NOT_YET}: {counted(waiting, 'run')}"
    lost = [row for row in rows if row.is_lost]
    if lost:
        yield f"cannot be replayed: {counted(len(lost), 'run')}"
    for row in lost:
        yield f"  {row.run_id}: {row.why.splitlines()[0]}"
    if rows:
        yield from replay_sentences(sum_rows(rows))
    if agent_runs:
        yield (
            f"Not repeated: {counted(len(agent_runs), 'run')} of workflows and agents, because "
            "their agents would be paid again. One by one: `vibe-gate replay RUN`."
        )
        yield f"  {list_names(agent_runs)}"


def _change_table(rows: Sequence[ReplayRow]) -> Iterator[str]:
    """The criteria that came out otherwise; nothing without one."""
    changes = []
    for row in rows:
        changes += [(row, change) for change in row.visible_changes]
    if not changes:
        return
    cells = [HEADS, *(_cells(row, change) for row, change in changes)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield _table_line(HEADS, widths)
    for row, change in changes:
        yield _table_line(_cells(row, change), widths)
        for text in render_changed_findings(change):
            yield f"    {text}"


def _table_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def _cells(row: ReplayRow, change: CriterionChange) -> tuple[str, ...]:
    return (
        row.run_id[:SHORT_RUN],
        f"{change.rubric}/{change.criterion}",
        f"{change.before} -> {change.after}",
        f"{row.usd:.4f}",
    )


def render_changed_findings(change: CriterionChange) -> Iterator[str]:
    """The findings of a criterion that came out otherwise, a line each."""
    for finding in change.findings:
        place = finding.path or "the change"
        if finding.line:
            place = f"{finding.path}:{finding.line}"
        yield f"{place}: {finding.message} [{finding.fingerprint}]"


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
        yield (
            f"{total.judged:,} of {total.tried:,} could be judged again ({reason}); "
            f"${total.usd:.2f}."
        )
        return
    yield (
        f"Would have blocked {total.new:,} of {total.judged:,}, "
        f"would no longer block {total.gone:,}; ${total.usd:.2f}."
    )
    if total.judged < total.tried:
        reason = _hindrance(total, budget_usd, show)
        missing = total.tried - total.judged
        yield f"{missing:,} of {total.tried:,} could not be judged again ({reason})."
    if total.gone_wrong or total.gone_right:
        right = f", {total.gone_right:,} right" if total.gone_right else ""
        yield (
            f"Of {total.gone:,} that it would no longer block, "
            f"{_were(total.gone_wrong)} labelled wrong{right}."
        )
    if total.new_wrong:
        yield (
            f"Of {total.new:,} that it would have blocked, {_were(total.new_wrong)} labelled wrong."
        )
    if total.open:
        yield f"{counted(total.open, 'run is', 'runs are')} undecided now."
    if total.unasked:
        questions = counted(total.unasked, "question was", "questions were")
        if isinstance(total.cause, NoSdk):
            yield f"claude-agent-sdk is not installed: {questions} not asked. Run `pip install vibe-gate`."
        else:
            yield _missing_key(questions, total)


def _missing_key(questions: str, total: ReplayTotals) -> str:
    """That questions were not asked without a key, and what to do."""
    if isinstance(total.cause, NoKey) and total.cause.is_sdk_missing:
        return (
            f"No API key and no claude-agent-sdk: {questions} not asked. "
            "Run `pip install vibe-gate`, and set ANTHROPIC_API_KEY."
        )
    return f"No API key: {questions} not asked. Set ANTHROPIC_API_KEY."


def _hindrance(total: ReplayTotals, budget_usd: float, show: Callable[[str], str]) -> str:
    """Why the first run was not judged again, in a few words."""
    if isinstance(total.cause, NoKey):
        return f"{total.cause.because}: {sentences.way_to_ask(total.cause)}"
    if isinstance(total.cause, NoSdk):
        return "claude-agent-sdk is not installed: pip install vibe-gate"
    if isinstance(total.cause, BudgetReached) and budget_usd:
        return f"its budget of ${budget_usd:g}"
    return show(queries.reason_in_words(total.hindrance))


def _were(count: int) -> str:
    return f"{count:,} {'was' if count == 1 else 'were'}"


def build_replay_document(
    rows: Iterable[ReplayRow], agent_runs: Sequence[str], batch: str, exit_code: int
) -> dict[str, Any]:
    """All of it as JSON. `agent_runs` as of `render_replay_lines`."""
    rows = list(rows)
    return {
        "exit_code": exit_code,
        "batch": batch,
        "totals": plain(sum_rows(rows)),
        "runs": [plain(row) for row in rows],
        "not_repeated": list(agent_runs),
    }
