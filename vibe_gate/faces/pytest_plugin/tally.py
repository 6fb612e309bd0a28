"""The closing line: how the tests of agents ended, by kind, and what their agents cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

ENDS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
"""pytest's categories that count tests. What nothing was decided about is counted by itself,
whatever its category.
"""


def closing_line(
    reports: Mapping[str, Sequence[Any]],
    tests: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    replayed: bool,
) -> str:
    """`vibe-gate: 3 passed, 1 failed, 2 undecided (1 timed out, 1 without a cassette), $0.4200`; ""
    if none ran.

    `reports` as of `TerminalReporter.stats`; `tests`: the runs of each test, as of
    `costs.read_test_runs`.
    """
    parts = _end_words(reports)
    if not parts:
        return ""
    runs = list(chain.from_iterable(tests.values()))
    if runs:
        parts.append(_cost_words(runs, replayed=replayed))
    return f"vibe-gate: {', '.join(parts)}"


def _end_words(reports: Mapping[str, Sequence[Any]]) -> list[str]:
    """How many tests of agents ended in each way; what is undecided last, by kind."""
    end_counts: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    for end in ENDS:
        for report in reports.get(end, ()):
            kind = getattr(report, "vibe_undecided", "")
            if kind:
                undecided[kind] += 1
            elif hasattr(report, "vibe_test"):
                end_counts[end] += 1
    parts = []
    for end, count in end_counts.items():
        plural = "s" if end == "error" and count > 1 else ""
        parts.append(f"{count} {end}{plural}")
    if undecided:
        kinds = ", ".join(f"{count} {kind}" for kind, count in undecided.most_common())
        parts.append(f"{undecided.total()} undecided ({kinds})")
    return parts


def _cost_words(runs: Sequence[Mapping[str, Any]], *, replayed: bool) -> str:
    """What the runs cost together."""
    words = f"${sum(run['usd'] or 0 for run in runs):.4f}"
    if any(run["usd"] is None for run in runs):
        words += " + ?"
    if replayed:
        words += " as recorded"
    return words
