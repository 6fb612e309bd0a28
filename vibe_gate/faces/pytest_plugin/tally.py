"""The closing line: how the tests of agents ended, by kind, and what their agents cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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

    `reports` as of `TerminalReporter.stats`; `tests`: the runs of each test, as of `costs.ran`.
    """
    ends, undecided = Counter[str](), Counter[str]()
    for end in ENDS:
        for report in reports.get(end, ()):
            if kind := getattr(report, "vibe_undecided", ""):
                undecided[kind] += 1
            elif hasattr(report, "vibe_test"):
                ends[end] += 1
    parts = [
        f"{count} {end}{'s' if end == 'error' and count > 1 else ''}" for end, count in ends.items()
    ]
    if undecided:
        kinds = ", ".join(f"{count} {kind}" for kind, count in undecided.most_common())
        parts.append(f"{undecided.total()} undecided ({kinds})")
    if parts and (runs := [run for runs_of_test in tests.values() for run in runs_of_test]):
        unknown = " + ?" if any(run["usd"] is None for run in runs) else ""
        recorded = " as recorded" if replayed else ""
        parts.append(f"${sum(run['usd'] or 0 for run in runs):.4f}{unknown}{recorded}")
    return f"vibe-gate: {', '.join(parts)}" if parts else ""
