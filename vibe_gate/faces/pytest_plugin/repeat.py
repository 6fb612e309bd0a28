"""One test, carried out several times: agents do not do the same each time."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from _pytest.runner import runtestprotocol

from vibe_gate.faces.pytest_plugin.marker import REPETITION
from vibe_gate.faces.pytest_plugin.wire import Limits

Outcome = Literal["passed", "failed", "error", "skipped"]


def carried_out(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Repeat the test with fresh fixtures, until it passed often enough or cannot any more, and
    report it once.

    None: it is not to be repeated, and pytest goes on with it.
    """
    try:
        limits = Limits.of(item)
    except pytest.UsageError:  # the fixture says so
        return None
    if limits.repeat == 1:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    needed = math.ceil(limits.pass_rate * limits.repeat - 1e-9)
    runs: list[tuple[Outcome, list[pytest.TestReport]]] = []
    for number in range(1, limits.repeat + 1):
        item.stash[REPETITION] = number
        # Fixtures of the test's module, class and session stay set up: the parent is taken for the
        # test that follows.
        reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
        runs.append((_outcome(reports), reports))
        passed = sum(outcome == "passed" for outcome, _ in runs)
        is_certain = passed >= needed or len(runs) - passed > limits.repeat - needed
        if (
            is_certain and not item.config.getoption("--vibe-repeat-all")
        ) or item.session.shouldstop:
            break
    reports = _together(item, runs, passed=passed >= needed, of=limits.repeat, needed=needed)
    last = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), "teardown"
    )
    if last.excinfo:
        reports[-1] = item.ihook.pytest_runtest_makereport(item=item, call=last)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _outcome(reports: list[pytest.TestReport]) -> Outcome:
    if any(
        report.failed and (report.when != "call" or hasattr(report, "vibe_error"))
        for report in reports
    ):
        return "error"
    if any(report.failed for report in reports):
        return "failed"
    return "skipped" if any(report.skipped for report in reports) else "passed"


def _together(
    item: pytest.Item,
    runs: list[tuple[Outcome, list[pytest.TestReport]]],
    *,
    passed: bool,
    of: int,
    needed: int,
) -> list[pytest.TestReport]:
    """Those of the first run that came out as all of them do: passed; else failed, error or
    skipped, if any was.
    """
    reports_by_outcome = dict(reversed(runs))
    preferred: tuple[Outcome, ...] = (
        ("passed",) if passed else ("failed", "error", "skipped", "passed")
    )
    reports = next(
        reports_by_outcome[outcome] for outcome in preferred if outcome in reports_by_outcome
    )
    times = sum(outcome == "passed" for outcome, _ in runs)
    carried = "" if len(runs) == of else f", {len(runs)} carried out"
    summary = f"{times} of {of} passed{carried}; {needed} must"
    for report in reports:
        phases = [
            phase for _, run_reports in runs for phase in run_reports if phase.when == report.when
        ]
        report.duration = sum(phase.duration for phase in phases)
        report.user_properties = list(item.user_properties)
        report.sections.append(("vibe repetition", summary))
        if report.skipped and isinstance(report.longrepr, tuple):
            path, line, reason = report.longrepr
            report.longrepr = (path, line, f"{reason} ({summary})")
    return reports
