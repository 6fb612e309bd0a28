"""What pytest shows of agents at work: on a terminal, in a pipe, with its options and plugins."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faces.forked_pytest import run_on_pty
from screen import Screen
from test_pytest_plugin import agent
from test_pytest_plugin import project as project
from test_pytest_plugin import quick as quick
from wire import answering

from vibe_gate.context.listeners import StageStep
from vibe_gate.faces.pytest_plugin.live_display import Activity
from vibe_gate.faces.pytest_plugin.terminal_line import TerminalLine, fit_line

pytest_plugins = ["pytester"]

SUITE = """
import asyncio


async def test_two_at_once(vibe, vibe_repo, capsys):
    print("printed by the test")
    await asyncio.gather(vibe.run("fixer", "Write a"), vibe.run("fixer", "Write b"))


def test_blocking(vibe, vibe_repo):
    vibe.sync.run("fixer", "Write blocking")
"""

MODE = """
from pathlib import Path

from vibe_gate.faces.pytest_plugin.live_display import display_of


def test_mode(request):
    Path("mode").write_text(display_of(request.config).mode)
"""

LIVE = "--vibe-wire=live"


@pytest.fixture
def suite(
    project: pytest.Pytester, quick: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.Pytester]:
    """A project with tests of agents, and a model that answers them."""
    project.makepyfile(test_suite=SUITE)
    with answering(agent(), repeat_last=True) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("PY_COLORS")  # of pytester, which wants no colour
        yield project


def run_on_terminal(folder: Path, *arguments: str, rows: int = 24, **variables: str) -> Screen:
    """pytest on a terminal of 80 columns, to its end."""
    screen = Screen(rows=rows)
    environ = {**os.environ, "TERM": "xterm-256color", **variables}
    code, text = run_on_pty(folder, arguments, environ, rows)
    assert code in (0, 1), text
    screen.feed(text)
    return screen


def run_in_pipe(suite: pytest.Pytester, *arguments: str) -> str:
    return suite.runpytest_inprocess(*arguments).stdout.str()


def told_lines(output: str) -> list[str]:
    """The lines about agents at work, without figures."""
    lines = [
        line
        for line in output.splitlines()
        if re.match(r"  (?! |test_\w+\.py:\d).*(fixer|answers)", line)
    ]
    return [re.sub(r"\d[\d,.k]* tokens · \$[\d.]+( +\[100%\])?", "N", line) for line in lines]


@pytest.mark.slow
def test_on_a_terminal_one_line_is_rewritten_and_nothing_of_it_stays(suite):
    """A small terminal: pytest writes in its last row, and its own lines stay whole."""
    screen = run_on_terminal(suite.path, LIVE, rows=5)
    display = "\n".join(screen.below_cursor)
    assert "  test_two_at_once · fixer: Write src/load.py · " in display
    assert re.search(
        r"test_two_at_once · fixer.* · 4 answers · [\d,]+ tokens · \$0\.\d{4}$", display, re.M
    )
    assert "test_blocking · fixer: Write src/load.py · 1 answer · " in display
    assert "src/load.py" not in screen.text() and "printed by" not in screen.text()
    assert re.search(r"^test_suite.py \.\. +\[100%\]$", screen.text(), re.M)
    assert screen.has_colour


CALLS = 3 * ["  fixer: Write src/load.py"] + 3 * ["  fixer: 2 answers · N"]

ENDS = ["  test_two_at_once: fixer · 4 answers · N", "  test_blocking: fixer · 2 answers · N"]


@pytest.mark.slow
def test_recorded_and_replayed_verbose_has_a_line_for_each_tool_call_above_the_result(
    suite, monkeypatch
):
    recorded = run_in_pipe(suite, "--vibe-wire=record", "-v")
    assert sorted(told_lines(recorded)) == sorted(CALLS)
    assert "\x1b" not in recorded
    assert re.search(
        r"^test_suite.py::test_blocking \n"
        r"  fixer: Write src/load.py\n"
        r"  fixer: 2 answers · .*\n"
        r"test_suite.py::test_blocking PASSED +\[100%\]$",
        recorded,
        re.M,
    )
    screen = run_on_terminal(suite.path, "-p", "no:cacheprovider", NO_COLOR="1")
    assert any("fixer: Write src/load.py · 1 answer · " in line for line in screen.below_cursor)
    assert not screen.has_colour
    assert told_lines(run_in_pipe(suite)) == []
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[2m  fixer: Write src/load.py\x1b[0m" in run_in_pipe(suite, "-v")


@pytest.mark.slow
def test_without_a_terminal_a_test_whose_agents_were_paid_has_a_line_at_its_end(suite):
    output = run_in_pipe(suite, LIVE)
    assert (told_lines(output), "\x1b" in output) == (ENDS, False)


@pytest.mark.slow
def test_the_controller_of_workers_has_a_line_for_each_test_that_ended(suite):
    screen = run_on_terminal(suite.path, LIVE, "-n1", rows=60)
    lines = [line.replace("test_suite.py::", "") for line in told_lines(screen.text())]
    assert (sorted(lines), screen.below_cursor) == (sorted(ENDS), [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-s"], ENDS),
        (["-q", "-k", "blocking"], []),
        (["-q", "-k", "blocking", "-n1"], []),
    ],
    ids=lambda _: "",
)
def test_with_capture_off_a_line_at_the_end_of_a_test_and_quiet_none(suite, arguments, expected):
    screen = run_on_terminal(suite.path, LIVE, *arguments, rows=60)
    assert (told_lines(screen.text()), screen.below_cursor) == (expected, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "variables", "mode"),
    [
        ([], {}, "line"),
        (["--capture=sys"], {}, "line"),
        (["--capture=tee-sys"], {}, "ends"),
        (["-p", "no:terminal"], {}, "nothing"),
        ([], {"CI": "true"}, "ends"),
        ([], {"TERM": "dumb"}, "ends"),
        (["-v"], {}, "calls"),
        (["--log-cli-level=INFO"], {}, "calls"),  # which makes pytest verbose
        (["-qq"], {}, "nothing"),
        (["-n1"], {}, "nothing"),  # in the worker
    ],
    ids=lambda value: "",
)
def test_options_and_the_terminal_decide_what_is_shown(
    pytester, monkeypatch, arguments, variables, mode
):
    pytester.makepyfile(MODE)
    monkeypatch.delenv("CI", raising=False)
    run_on_terminal(pytester.path, *arguments, **variables)
    assert (pytester.path / "mode").read_text() == mode


# Without agents


SHORT = """
def test_no_time(vibe, vibe_repo):
    vibe.sync.run("fixer", "Write a", timeout_s=0.01)


def test_no_place(vibe, vibe_repo):
    vibe_repo.write(".vibe-artifacts", "mine")
    vibe.sync.run("fixer", "Write a")
"""


@pytest.mark.slow
def test_an_agent_that_had_no_time_or_no_place_fails_with_what_to_do(suite):
    suite.makepyfile(test_suite=SHORT)
    output = run_in_pipe(suite, LIVE)
    assert re.search(r"AgentFailed: .*before the agent", output)
    assert re.search(r"StorageError: Unrecorded: \.vibe-artifacts is not a directory", output)
    assert not re.search(r"fixer ·\s*$", output, re.M)
    assert "cannot be opened" not in output


class Written:
    """A display that keeps what it is told."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.lines: list[str] = []

    def draw(self, *parts: str) -> None:
        self.lines.append("".join(parts))

    def write_line(self, *parts: str) -> None:
        self.lines.append("".join(parts))


HOSTILE = "\x1b[2Ja\nb\r\u202e\x07\x9b1m"


@pytest.mark.parametrize("mode", ["line", "calls"])
def test_what_a_tool_call_says_is_escaped(request, mode):
    display = Written(mode)
    activity = Activity(request.node, display)
    activity.listeners.tick(
        StageStep(node=f"fix{HOSTILE}", kind="tool.started", tool=f"mcp{HOSTILE}", target=HOSTILE)
    )
    (line,) = display.lines
    assert line.isprintable()
    assert line.count(r"\x1b[2Ja\nb\r\u202e\x07\x9b1m") == 3


def test_what_a_stage_cost_is_said_once(request):
    display = Written("line")
    activity = Activity(request.node, display)
    activity.listeners.meter("fixer", 360, 0.0012)
    activity.listeners.progress("fixer", "pass · $0.0012")
    activity.listeners.progress("fixer", "fail · $0.0012 · out of turns")
    assert [line.partition("fixer: ")[2] for line in display.lines] == [
        "pass · 360 tokens · $0.0012",
        "fail · out of turns · 360 tokens · $0.0012",
    ]


@pytest.mark.parametrize(
    ("start", "end", "columns", "line"),
    [
        ("fixer: Read a.py", " · $1", 30, "fixer: Read a.py · $1"),
        ("fixer: Read a.py", " · $1", 15, "fixer: Re… · $1"),
        ("fixer: Read 文文文", " · $1", 20, "fixer: Read 文… · $1"),
        ("fixer", " · 12 answers", 8, "fixer ·…"),
        ("", "", 8, ""),
    ],
)
def test_a_line_is_cut_to_its_columns_and_its_end_stays(start, end, columns, line):
    assert fit_line(start, end, columns) == line


def test_a_line_on_a_terminal_that_is_gone_does_no_harm():
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    line = TerminalLine(writing, is_coloured=False)
    line.draw("", "fixer", "")
    line.erase()


def test_a_thousand_steps_are_drawn_in_less_than_half_a_second(request, tmp_path):
    with (tmp_path / "terminal").open("wb") as file:
        line = TerminalLine(file.fileno(), is_coloured=True)
        display = Written("line")
        display.draw = line.draw
        activity = Activity(request.node, display)
        step = StageStep(node="fix", kind="tool.started", tool="Read", target="src/a.py")
        start = time.process_time()
        for _ in range(1000):
            activity.listeners.tick(step)
        assert time.process_time() - start < 0.5
