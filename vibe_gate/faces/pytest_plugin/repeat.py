"""One test, carried out several times: agents do not do the same each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import pytest
from _pytest.runner import runtestprotocol

from vibe_gate.faces.pytest_plugin.marker import REPETITION
from vibe_gate.faces.pytest_plugin.plugin_wire import Limits

Outcome = Literal["passed", "failed", "error", "skipped"]

Repetition = tuple[Outcome, list[pytest.TestReport]]
"""How the test ended once, and the reports of its phases."""


def repeat_test(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
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
    repetitions = _run_repetitions(item, limits)
    reports = _summarize(item, repetitions, limits)
    teardown = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), "teardown"
    )
    if teardown.excinfo:
        reports[-1] = item.ihook.pytest_runtest_makereport(item=item, call=teardown)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _run_repetitions(item: pytest.Item, limits: Limits) -> list[Repetition]:
    """Carry the test out until it is certain how it ends, or as often as is wanted."""
    repetitions: list[Repetition] = []
    runs_all = item.config.getoption("--vibe-repeat-all")
    for number in range(1, limits.repeat + 1):
        item.stash[REPETITION] = number
        # Fixtures of the test's module, class and session stay set up: the parent is taken for the
        # test that follows.
        reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
        repetitions.append((_outcome(reports), reports))
        is_last = _is_certain(repetitions, limits) and not runs_all
        if is_last or item.session.shouldstop:
            break
    return repetitions


def _needed_passes(limits: Limits) -> int:
    return math.ceil(limits.pass_rate * limits.repeat - 1e-9)


def _count_passes(repetitions: Sequence[Repetition]) -> int:
    return sum(outcome == "passed" for outcome, _ in repetitions)


def _is_certain(repetitions: Sequence[Repetition], limits: Limits) -> bool:
    """Whether it passed often enough, or cannot any more."""
    passes = _count_passes(repetitions)
    needed = _needed_passes(limits)
    return passes >= needed or len(repetitions) - passes > limits.repeat - needed


def _outcome(reports: Sequence[pytest.TestReport]) -> Outcome:
    """How one repetition ended."""
    failures = [report for report in reports if report.failed]
    if any(report.when != "call" or hasattr(report, "vibe_error") for report in failures):
        return "error"
    if failures:
        return "failed"
    if any(report.skipped for report in reports):
        return "skipped"
    return "passed"


def _summarize(
    item: pytest.Item, repetitions: Sequence[Repetition], limits: Limits
) -> list[pytest.TestReport]:
    """The reports of the first repetition that ended as all of them do: passed; else failed, error
    or skipped, if any was. They say how many passed, and how long all took.
    """
    passes = _count_passes(repetitions)
    needed = _needed_passes(limits)
    summary = f"{passes} of {limits.repeat} passed"
    if len(repetitions) < limits.repeat:
        summary += f", {len(repetitions)} carried out"
    summary += f"; {needed} must"
    reports = _reports_to_show(repetitions, passed=passes >= needed)
    for report in reports:
        report.duration = _total_duration(repetitions, report.when)
        report.user_properties = list(item.user_properties)
        report.sections.append(("vibe repetition", summary))
        if report.skipped and isinstance(report.longrepr, tuple):
            path, line, reason = report.longrepr
            report.longrepr = (path, line, f"{reason} ({summary})")
    return reports


def _reports_to_show(repetitions: Sequence[Repetition], *, passed: bool) -> list[pytest.TestReport]:
    reports_by_outcome = dict(reversed(repetitions))
    preferred: tuple[Outcome, ...] = ("failed", "error", "skipped", "passed")
    if passed:
        preferred = ("passed",)
    return next(
        reports_by_outcome[outcome] for outcome in preferred if outcome in reports_by_outcome
    )


def _total_duration(repetitions: Sequence[Repetition], when: str | None) -> float:
    """How long the phase of that name took, in seconds, over all repetitions."""
    seconds = 0.0
    for _, reports in repetitions:
        seconds += sum(report.duration for report in reports if report.when == when)
    return seconds
