"""Reviews of the commits of a range as lines, a table and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vibe_gate.domain.cause import Cause, NotAsked
from vibe_gate.domain.commit_row import CommitRow
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import POLICY_CHANGED
from vibe_gate.report.next_step import remedy_at_terminal
from vibe_gate.report.sentences import SHORT_ID

OUTCOMES = ("fail", "error", "inconclusive", "missing", "approval", "pass")
"""Words of the table, worst first."""

_WIDEST = max(map(len, OUTCOMES))


def render_commit_line(row: CommitRow, width: int | None = None) -> str:
    """One commit: its id, its outcome, its title, and what is to be said of it; cut to the `width`
    of a terminal.
    """
    parts = [row.title]
    if row.unasked:
        parts.append("checks only")
    if row.warnings:
        parts.append(counted(row.warnings, "warning"))
    parts += filter(None, row.why.splitlines()[:1])
    line = f"{row.commit[:SHORT_ID]}  {_word(row):<{_WIDEST}}  {' · '.join(parts)}"
    return safe(line)[:width]


def render_commit_table(rows: Sequence[CommitRow], seconds: float) -> Iterator[str]:
    """What all come to: the commits that did not pass, worst first, what passed by checks only,
    warnings, and a line of sums. `seconds` that it took.
    """
    for word in OUTCOMES[:-1]:
        commits = []
        for row in rows:
            if _word(row) == word:
                commits.append(row)
        if commits:
            yield f"{word}: {counted(len(commits), 'commit')}"
        for row in commits:
            yield f"  {row.commit[:SHORT_ID]}  {row.title}"
            for text in filter(None, (row.headline, *row.why.splitlines())):
                yield f"      {text}"
    unasked_counts = Counter(row.unasked for row in rows if row.unasked)
    for unasked, number in unasked_counts.items():
        yield f"checks only: {counted(number, 'commit')}, each with {unasked}"
    yield from _undecided_lines(rows)
    warnings = [row.warnings for row in rows if row.warnings]
    if warnings:
        yield f"{counted(sum(warnings), 'warning')} in {counted(len(warnings), 'commit')}"
    yield _sums(rows, seconds)


def _undecided_lines(rows: Sequence[CommitRow]) -> Iterator[str]:
    """A line for each reason why criteria could not be decided: which, in how many commits, why,
    and what helps.
    """
    criteria_by_reason: dict[str, dict[str, None]] = {}
    commits_by_reason: dict[str, set[str]] = {}
    for row in rows:
        for undecided in row.undecided:
            reason = _reason_and_remedy(undecided.cause)
            criteria_by_reason.setdefault(reason, {})[undecided.criterion] = None
            commits_by_reason.setdefault(reason, set()).add(row.commit)
    for reason, criteria in criteria_by_reason.items():
        commits = counted(len(commits_by_reason[reason]), "commit")
        yield f"{', '.join(criteria)} could not be decided in {commits}: {reason}"


def _reason_and_remedy(cause: Cause) -> str:
    """Why something is undecided, and what helps, if that is known."""
    reason = cause.because if isinstance(cause, NotAsked) else cause.fact
    remedy = remedy_at_terminal(cause)
    if not remedy:
        return reason
    return f"{reason}; {remedy}"


def _sums(rows: Sequence[CommitRow], seconds: float) -> str:
    """Commits by outcome, those recorded before, cost and time."""
    counts = Counter(map(_word, rows))
    outcomes = ", ".join(f"{counts[word]:,} {word}" for word in OUTCOMES if counts[word])
    parts = [f"{counted(len(rows), 'commit')}: {outcomes or 'nothing to review'}"]
    new_rows = [row for row in rows if not row.recorded]
    recorded = len(rows) - len(new_rows)
    if recorded:
        parts.append(f"{recorded:,} recorded before")
    usd = sum(row.usd for row in new_rows)
    if usd:
        parts.append(f"${usd:.4f}")
    if new_rows:
        parts.append(f"{seconds:.1f} s")
    return "; ".join(parts)


def _word(row: CommitRow) -> str:
    if row.outcome == "pass" and row.exit_code == POLICY_CHANGED:
        return "approval"
    return str(row.outcome)


def build_commit_document(row: CommitRow) -> dict[str, Any]:
    """One commit as JSON."""
    return {"schema": 1, "kind": "commit", **plain(row)}


def build_total_document(
    rows: Iterable[CommitRow], exit_code: int, batch: str, seconds: float
) -> dict[str, Any]:
    """The last document of the stream. `usd` is what this command paid, `usd_recorded` what earlier
    ones did.
    """
    rows = list(rows)
    counts = Counter(map(_word, rows))
    recorded = [row for row in rows if row.recorded]
    new_rows = [row for row in rows if not row.recorded]
    return {
        "schema": 1,
        "kind": "total",
        "commits": len(rows),
        "outcomes": {word: counts[word] for word in OUTCOMES},
        "recorded": len(recorded),
        "usd": sum(row.usd for row in new_rows),
        "usd_recorded": sum(row.usd for row in recorded),
        "seconds": round(seconds, 3),
        "batch": batch,
        "exit_code": exit_code,
    }
