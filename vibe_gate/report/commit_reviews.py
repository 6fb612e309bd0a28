"""Reviews of the commits of a range as lines, a table and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vibe_gate.domain.commit_row import CommitRow
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import POLICY_CHANGED
from vibe_gate.report.sentences import SHORT_ID

OUTCOMES = ("fail", "error", "inconclusive", "missing", "approval", "pass")
"""Words of the table, worst first."""

_WIDEST = max(map(len, OUTCOMES))


def render_commit_line(row: CommitRow, width: int | None = None) -> str:
    """One commit: its id, its outcome, its title, and what is to be said of it; cut to the `width`
    of a terminal.
    """
    only = "checks only" if row.unasked else ""
    warned = counted(row.warnings, "warning") if row.warnings else ""
    remarks = "".join(f" · {text}" for text in (only, warned, *row.why.splitlines()[:1]) if text)
    return safe(f"{row.commit[:SHORT_ID]}  {_word(row):<{_WIDEST}}  {row.title}{remarks}")[:width]


def render_commit_table(rows: Sequence[CommitRow], seconds: float) -> Iterator[str]:
    """What all come to: the commits that did not pass, worst first, what passed by checks only,
    warnings, and a line of sums. `seconds` that it took.
    """
    for word in OUTCOMES[:-1]:
        found = [row for row in rows if _word(row) == word]
        if found:
            yield f"{word}: {counted(len(found), 'commit')}"
        for row in found:
            yield f"  {row.commit[:SHORT_ID]}  {row.title}"
            yield from (f"      {text}" for text in (row.headline, *row.why.splitlines()) if text)
    for unasked, number in Counter(row.unasked for row in rows if row.unasked).items():
        yield f"checks only: {counted(number, 'commit')}, each with {unasked}"
    if warned := [row.warnings for row in rows if row.warnings]:
        yield f"{counted(sum(warned), 'warning')} in {counted(len(warned), 'commit')}"
    yield _sums(rows, seconds)


def _sums(rows: Sequence[CommitRow], seconds: float) -> str:
    counts = Counter(map(_word, rows))
    each = ", ".join(f"{counts[word]:,} {word}" for word in OUTCOMES if counts[word])
    before = sum(row.recorded for row in rows)
    new = [row for row in rows if not row.recorded]
    usd = sum(row.usd for row in new)
    parts = [f"{counted(len(rows), 'commit')}: {each or 'nothing to review'}"]
    parts += [f"{before:,} recorded before"] if before else []
    parts += [f"${usd:.4f}"] if usd else []
    parts += [f"{seconds:.1f} s"] if new else []
    return "; ".join(parts)


def _word(row: CommitRow) -> str:
    return (
        "approval"
        if row.outcome == "pass" and row.exit_code == POLICY_CHANGED
        else str(row.outcome)
    )


def build_commit_document(row: CommitRow) -> dict[str, Any]:
    """One commit as JSON."""
    return {"schema": 1, "kind": "commit", **plain(row)}


def build_total_document(
    rows: Iterable[CommitRow], exit_code: int, batch: str, seconds: float
) -> dict[str, Any]:
    """The last document of the stream. `usd` is what this command paid, `usd_recorded` what earlier
    ones did.
    """
    every = list(rows)
    counts = Counter(map(_word, every))
    return {
        "schema": 1,
        "kind": "total",
        "commits": len(every),
        "outcomes": {word: counts[word] for word in OUTCOMES},
        "recorded": sum(row.recorded for row in every),
        "usd": sum(row.usd for row in every if not row.recorded),
        "usd_recorded": sum(row.usd for row in every if row.recorded),
        "seconds": round(seconds, 3),
        "batch": batch,
        "exit_code": exit_code,
    }
