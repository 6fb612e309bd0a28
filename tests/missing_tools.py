"""Tools that are not here: said at the end of the run; in CI, where all of them are to be, a
failure.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_IN_CI = os.environ.get("CI") == "true"
_MISSING = "is not installed here"
MISSING_CODE = 9
"""The exit code of a run without all tools: tests that failed as well are of no interest then."""


def _missing_tools(config: pytest.Config) -> dict[str, int]:
    """How many tests were skipped for want of a tool, by the reason that they gave."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    return dict(
        Counter(reason.removeprefix("Skipped: ") for reason in reasons if _MISSING in reason)
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which tools were missing."""
    for reason, count in _missing_tools(terminalreporter.config).items():
        terminalreporter.write_line(f"{count} skipped: {reason}", red=_IN_CI, yellow=not _IN_CI)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of CI without all tools has failed."""
    finished = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if _IN_CI and finished and _missing_tools(session.config):
        session.exitstatus = MISSING_CODE
