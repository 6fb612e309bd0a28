"""Tools that are not here: said at the end of the run; in CI, where all of them are to be, a
failure.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_IN_CI = os.environ.get("CI") == "true"
_MISSING = "is not installed here"


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
    if _IN_CI and session.exitstatus == pytest.ExitCode.OK and _missing_tools(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
