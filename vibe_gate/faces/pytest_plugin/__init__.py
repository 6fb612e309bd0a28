"""The pytest plugin: agents, judges and workflows as tests (docs/guides/pytest.md).

vibe         `Vibe`, what the fixture `vibe` gives a test
plugin_wire  cassettes, limits, and when a test is skipped
repo         the repository of the fixture `vibe_repo`
repeat       one test, carried out several times
case_items   labelled cases of the project's rubrics as tests
costs        what they cost, at the end
pages        HTML pages of the runs, below `--vibe-report`
tally        how the tests of agents ended
coroutine_tests  tests that are coroutines, if no other plugin runs them
live_display  what agents do, while they do it
terminal_line  the line that it rewrites
marker       the marker `vibe`, and which repetition is under way
attempts     each time a test was carried out

Every pytest of this environment imports this file, so it imports pytest and `marker` alone; the
rest waits for a test that asks.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vibe_gate.faces.pytest_plugin.marker import DISPLAY, MARKER

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
    config.pluginmanager.register(_EndReports(config), "vibe_gate_end_reports")
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
    header = f"vibe-gate: agents may cost {_dollars(usd)}"
    workers = len(config.getoption("tx", None) or ()) or 1
    if workers > 1:
        header += f", {_dollars(usd / workers)} for each of {workers} workers"
    return header


def _dollars(usd: float) -> str:
    """Rounded down: a limit is never less than it says."""
    return f"${int(usd * 100 + 1e-9) / 100:.2f}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect no test of those that a labelled case may hold."""
    if config.getoption("--vibe-cases") and collection_path.match(".vibe-gate/cases/*"):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the labelled cases of the project, if they are wanted."""
    if config.getoption("--vibe-cases"):
        from vibe_gate.faces.pytest_plugin.case_items import collect_cases

        items.extend(collect_cases(session))


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

    workspace = request.config.rootpath
    if "vibe_repo" in request.fixturenames:
        workspace = request.getfixturevalue("vibe_repo")
    vibe = Vibe(request.node, Path(workspace))
    yield vibe
    vibe.close()
    if request.config.getoption("--vibe-report"):
        from vibe_gate.faces.pytest_plugin import pages

        pages.write_run_pages(request.config.stash[pages.FOLDER], vibe.bundles())


def _uses_agents(item: pytest.Item) -> bool:
    return "vibe" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Carry a test out as often as its marker or `--vibe-repeat` says."""
    if not _uses_agents(item):
        return None
    from vibe_gate.faces.pytest_plugin import repeat

    return repeat.repeat_test(item, nextitem)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine that no other plugin has run: pytest itself would fail it."""
    if not _uses_agents(pyfuncitem):
        return None
    from vibe_gate.faces.pytest_plugin import coroutine_tests

    return coroutine_tests.run_coroutine_test(pyfuncitem)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what could not be decided, or not be carried out, from what failed."""
    if not (_uses_agents(item) or hasattr(item, "vibe_case")):
        return (yield)
    from vibe_gate.faces.pytest_plugin import attempts, live_display, plugin_wire

    live_display.display_of(item.config).end_phase()
    if call.when == "call" and call.excinfo is None:
        # A test that catches it would pass, whatever its agents did.
        call.excinfo = plugin_wire.find_caught_error(item)
    if call.excinfo is not None:
        plugin_wire.hide_own_frames(call.excinfo.value)
    report = yield
    report.vibe_test = True  # type: ignore[attr-defined]
    if call.excinfo is not None:
        plugin_wire.classify_report(report, item, call.excinfo)
    attempts.note_attempt(item, report)
    return report


class _EndReports:
    """Says what agents used that were not shown at work; pytest tells of reports without its
    config.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After pytest's own words on the test."""
        if report.when == "teardown" and _has_runs(report):
            from vibe_gate.faces.pytest_plugin import live_display

            live_display.display_of(self._config).report_end(report)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the terminal to pytest, also after Ctrl-C in a test."""
    _end_display(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_enter_pdb(config: pytest.Config) -> None:
    """Leave the terminal to the debugger."""
    _end_display(config)


def _end_display(config: pytest.Config) -> None:
    if DISPLAY in config.stash:
        config.stash[DISPLAY].end_phase()


def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport,
) -> tuple[str, str, str] | None:
    """Count a test whose agent could not be run as an error, in whatever phase that was."""
    if report.failed and hasattr(report, "vibe_error"):
        return "error", "E", "ERROR"
    return None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what agents cost, if any ran, and how the tests of agents ended, by kind."""
    reports = list(chain.from_iterable(terminalreporter.stats.values()))
    is_replayed = config.getoption("--vibe-wire") == "replay"
    runs_by_test = {}
    if any(map(_has_runs, reports)):
        from vibe_gate.faces.pytest_plugin import costs

        runs_by_test = costs.read_test_runs(terminalreporter.stats)
        costs.write_costs(terminalreporter, runs_by_test, replayed=is_replayed)
    if config.getoption("--vibe-report"):
        from vibe_gate.faces.pytest_plugin import pages

        pages.write_index(terminalreporter, config.stash[pages.FOLDER], replayed=is_replayed)
    if any(hasattr(report, "vibe_test") for report in reports):
        from vibe_gate.faces.pytest_plugin.plugin_wire import is_strict
        from vibe_gate.faces.pytest_plugin.tally import closing_line

        is_undecided = any(hasattr(report, "vibe_undecided") for report in reports)
        has_skipped = is_undecided and not is_strict(config)
        line = closing_line(terminalreporter.stats, runs_by_test, replayed=is_replayed)
        if line:
            hint = "; -rs shows why" if has_skipped else ""
            terminalreporter.write_line(line + hint, yellow=is_undecided)
        if has_skipped:
            terminalreporter.write_line(f"vibe-gate: {SKIPPED_ONES}", yellow=True)


def _has_runs(report: object) -> bool:
    """Whether runs of agents stand in a report."""
    return any(name == "vibe" for name, _ in getattr(report, "user_properties", ()))
