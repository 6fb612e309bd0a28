"""The pytest plugin: agents, judges and workflows as tests (docs/guides/pytest.md).

vibe    `Vibe`, what the fixture `vibe` gives a test          wire     cassettes, limits, and when a test is skipped
repo    the repository of the fixture `vibe_repo`             repeat   one test, carried out several times
cases   labelled cases of the project's rubrics as tests      costs    what they cost, at the end
pages   HTML pages of the runs, below `--vibe-report`         tally    how the tests of agents ended
marker  the marker `vibe`, and which repetition is under way  attempts each time a test was carried out

Every pytest of this environment imports this file, so it imports pytest and `marker` alone; the
rest waits for a test that asks.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vibe_gate.faces.pytest_plugin.marker import MARKER

if TYPE_CHECKING:
    from vibe_gate.faces.pytest_plugin.repo import VibeRepo
    from vibe_gate.faces.pytest_plugin.vibe import Vibe


SKIPPED_ONES = (
    "undecided tests were skipped: they tested nothing. In CI, and with --vibe-strict, they fail."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("vibe-gate", "agents under test")
    group.addoption(
        "--vibe-wire",
        choices=("live", "record", "replay"),
        default="replay",
        help="where the model's answers come from: the model (record keeps them), or cassettes (default)",
    )
    group.addoption(
        "--vibe-strict",
        action="store_true",
        help="fail tests that would be skipped as undecided; always so in CI",
    )
    group.addoption(
        "--vibe-max-usd",
        type=_usd,
        metavar="USD",
        help="what all agents of this session may cost, live or recorded",
    )
    group.addoption(
        "--vibe-report",
        type=Path,
        metavar="DIR",
        help="write a page of each run to DIR, and index.html: tests by model and repetition, and the runs",
    )
    group.addoption(
        "--vibe-cases", action="store_true", help="run the labelled cases in .vibe-gate/cases, too"
    )
    group.addoption(
        "--vibe-repeat", type=int, metavar="N", help="repeat each test of the fixture vibe N times"
    )
    group.addoption(
        "--vibe-repeat-all",
        action="store_true",
        help="carry out every repetition, also when a test has passed or can no longer pass: for pass rates",
    )


def _usd(text: str) -> float:
    usd = float(text)
    if not 0 < usd < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not an amount above 0")
    return usd


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; stop before any agent is paid if reports cannot be written."""
    config.addinivalue_line("markers", MARKER)
    if folder := config.getoption("--vibe-report"):
        from vibe_gate.errors import StorageError, UsageError
        from vibe_gate.faces.pytest_plugin import pages

        try:
            config.stash[pages.FOLDER] = pages.open_folder(folder, config.rootpath)
        except OSError as error:
            raise pytest.UsageError(f"--vibe-report {folder}: {error.strerror}.") from error
        except (UsageError, StorageError) as error:
            raise pytest.UsageError(f"--vibe-report: {error}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what each worker may spend, if the session has a limit."""
    usd = config.getoption("--vibe-max-usd")
    if usd is None:
        return None
    workers = len(config.getoption("tx", None) or ()) or 1
    worker_share = (
        f", {_dollars(usd / workers)} for each of {workers} workers" if workers > 1 else ""
    )
    return f"vibe-gate: agents may cost {_dollars(usd)}{worker_share}"


def _dollars(usd: float) -> str:
    """Rounded down: a limit is never less than it says."""
    return f"${int(usd * 100 + 1e-9) / 100:.2f}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect no test of those that a labelled case may hold."""
    return (
        True
        if config.getoption("--vibe-cases") and collection_path.match(".vibe-gate/cases/*")
        else None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the labelled cases of the project, if they are wanted."""
    if config.getoption("--vibe-cases"):
        from vibe_gate.faces.pytest_plugin import cases

        items.extend(cases.items(session))


@pytest.fixture
def vibe_repo(tmp_path: Path) -> VibeRepo:
    """A new git repository with one empty commit: `path`, `write(path, text)`, `commit(message)`,
    `git(*args)`.
    """
    from vibe_gate.faces.pytest_plugin.repo import VibeRepo

    return VibeRepo(tmp_path / "repo")


@pytest.fixture(name="vibe")  # as a name of this package, `vibe` is the module
def vibe_fixture(request: pytest.FixtureRequest) -> Iterator[Vibe]:
    """Agents, judges and workflows for this test; they work on `vibe_repo` if the test asks for
    that, too.
    """
    from vibe_gate.faces.pytest_plugin.vibe import Vibe

    workspace = (
        request.getfixturevalue("vibe_repo")
        if "vibe_repo" in request.fixturenames
        else request.config.rootpath
    )
    vibe = Vibe(request.node, Path(workspace))
    yield vibe
    vibe.close()
    if request.config.getoption("--vibe-report"):
        from vibe_gate.faces.pytest_plugin import pages

        pages.write(request.config.stash[pages.FOLDER], vibe.bundles())


def _uses_agents(item: pytest.Item) -> bool:
    return "vibe" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Carry a test out as often as its marker or `--vibe-repeat` says."""
    if not _uses_agents(item):
        return None
    from vibe_gate.faces.pytest_plugin import repeat

    return repeat.carried_out(item, nextitem)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what could not be decided, or not be carried out, from what failed."""
    if not (_uses_agents(item) or hasattr(item, "vibe_case")):
        return (yield)
    from vibe_gate.faces.pytest_plugin import attempts, wire

    if (
        call.when == "call" and call.excinfo is None
    ):  # a test that catches it would pass, whatever its agents did
        call.excinfo = wire.caught(item)
    if call.excinfo is not None:
        wire.hide_own_frames(call.excinfo.value)
    report = yield
    report.vibe_test = True  # type: ignore[attr-defined]
    if call.excinfo is not None:
        wire.classify(report, item, call.excinfo)
    attempts.tell(item, report)
    return report


def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport,
) -> tuple[str, str, str] | None:
    """Count a test whose agent could not be run as an error, in whatever phase that was."""
    return ("error", "E", "ERROR") if report.failed and hasattr(report, "vibe_error") else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what agents cost, if any ran, and how the tests of agents ended, by kind."""
    reports = [
        report
        for reports_of_outcome in terminalreporter.stats.values()
        for report in reports_of_outcome
    ]
    replayed, tests = config.getoption("--vibe-wire") == "replay", {}
    if any(
        name == "vibe" for report in reports for name, _ in getattr(report, "user_properties", ())
    ):
        from vibe_gate.faces.pytest_plugin import costs

        tests = costs.ran(terminalreporter.stats)
        costs.write(terminalreporter, tests, replayed=replayed)
    if config.getoption("--vibe-report"):
        from vibe_gate.faces.pytest_plugin import pages

        pages.write_index(terminalreporter, config.stash[pages.FOLDER], replayed=replayed)
    if any(hasattr(report, "vibe_test") for report in reports):
        from vibe_gate.faces.pytest_plugin.tally import closing_line
        from vibe_gate.faces.pytest_plugin.wire import is_strict

        is_undecided = any(hasattr(report, "vibe_undecided") for report in reports)
        has_skipped = is_undecided and not is_strict(config)
        if line := closing_line(terminalreporter.stats, tests, replayed=replayed):
            terminalreporter.write_line(line + "; -rs shows why" * has_skipped, yellow=is_undecided)
        if has_skipped:
            terminalreporter.write_line(f"vibe-gate: {SKIPPED_ONES}", yellow=True)
