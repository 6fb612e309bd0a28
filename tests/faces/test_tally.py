"""The closing line of the pytest plugin, by what pytest's reports say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vibe_gate.faces.pytest_plugin.tally import closing_line

NO_CASSETTE, LATE = "without a cassette", "timed out"


def report(kind: str = "") -> SimpleNamespace:
    """A report of an agent's test; `kind` of what is undecided."""
    return SimpleNamespace(vibe_test=True, **({"vibe_undecided": kind} if kind else {}))


OTHER = SimpleNamespace()
PAID, UNPRICED = {"usd": 0.125}, {"usd": None}


@pytest.mark.parametrize(
    ("reports", "tests", "replayed", "line"),
    [
        ({"passed": [OTHER], "skipped": [OTHER]}, {}, True, ""),
        ({"passed": [report(), report(), OTHER]}, {}, True, "2 passed"),
        (
            {"passed": [report()], "": [report(), report()]},
            {"a": [PAID, PAID]},
            False,
            "1 passed, $0.2500",
        ),
        ({"passed": [report()]}, {"a": [PAID]}, True, "1 passed, $0.1250 as recorded"),
        ({"passed": [report()]}, {"a": [PAID, UNPRICED]}, False, "1 passed, $0.1250 + ?"),
        ({"error": [report(), report()], "failed": [report()]}, {}, True, "1 failed, 2 errors"),
        (
            {"error": [report()], "xfailed": [report()], "skipped": [report()]},
            {},
            True,
            "1 error, 1 skipped, 1 xfailed",
        ),
        (
            {
                "passed": [report()],
                "skipped": [report(LATE), report(NO_CASSETTE), report(NO_CASSETTE)],
            },
            {},
            True,
            "1 passed, 3 undecided (2 without a cassette, 1 timed out)",
        ),
        ({"failed": [report(LATE), report()]}, {}, True, "1 failed, 1 undecided (1 timed out)"),
    ],
)
def test_the_closing_line_counts_tests_of_agents_by_kind(reports, tests, replayed, line):
    assert closing_line(reports, tests, replayed=replayed) == (line and f"vibe-gate: {line}")
