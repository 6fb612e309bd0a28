"""What the agents of a test do, shown while they do it.

On a terminal one line a test is rewritten in place, with -v each tool call has a line. Elsewhere,
and with pytest-xdist, whose workers have no terminal, a test has a line at its end if its agents
were paid, or with -v.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import pytest
from msgspec import Struct

from vibe_gate.context.listeners import Listeners, StageStep
from vibe_gate.domain.escape import counted, list_names, safe, shorten_text
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.pytest_plugin.marker import DISPLAY
from vibe_gate.faces.pytest_plugin.terminal_line import INDENT, TerminalLine, fit_line
from vibe_gate.run.stage_result import ModelUse

Mode = Literal["line", "calls", "ends", "nothing"]
"""One line that is rewritten, a line for each tool call, one at the end of a test, or nothing."""

MAX_NAME = 40
"""Characters of a test's name in the line that is rewritten, if there is room for it."""

MAX_AGENTS = 3
"""Agents that the line of a test that has ended names."""


_PRICE = re.compile(r" · \$\d+\.\d{4}(?= · |$)")

_LIVE_DISPLAY = pytest.StashKey["LiveDisplay"]()


class UseUntilNow(Struct):
    """What agents and judges used until now."""

    answers: int = 0
    tokens: int = 0
    usd: float = 0.0
    is_exact: bool = True

    def __str__(self) -> str:
        parts = []
        if self.answers:
            parts.append(counted(self.answers, "answer"))
        if self.tokens:
            parts.append(f"{_short_number(self.tokens)} tokens")
        if self.usd or not self.is_exact:
            parts.append(f"${self.usd:.4f}" + ("" if self.is_exact else " + ?"))
        return " · ".join(parts)


def _short_number(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1000:,.1f}k"


def display_of(config: pytest.Config) -> LiveDisplay:
    """The session's."""
    if _LIVE_DISPLAY not in config.stash:
        config.stash[_LIVE_DISPLAY] = LiveDisplay(config)
        config.stash[DISPLAY] = config.stash[_LIVE_DISPLAY]
    return config.stash[_LIVE_DISPLAY]


class LiveDisplay:
    """What one pytest process shows of agents."""

    def __init__(self, config: pytest.Config) -> None:
        self.mode = _choose_mode(config)
        self._config = config
        self._line: TerminalLine | None = None
        self._waiting_lines: list[str] = []
        """What agents in other threads did: pytest's capture is not safe for these."""

    def draw(self, name: str, start: str, end: str) -> None:
        """Rewrite the line; `name` stands before it if there is room for all."""
        if self._line is None:
            writer = self._config.get_terminal_writer()
            with _without_capture(self._config):
                descriptor = os.dup(sys.stdout.fileno())
            self._line = TerminalLine(descriptor, is_coloured=writer.hasmarkup)
        self._line.draw(name, start, end)

    def write_line(self, start: str, end: str = "") -> None:
        """A line that stays."""
        columns = self._config.get_terminal_writer().fullwidth - 1
        self._waiting_lines.append(fit_line(start, end, columns))
        if threading.current_thread() is threading.main_thread():
            with _without_capture(self._config):
                self._write_waiting_lines()

    def end_phase(self) -> None:
        """Leave the terminal to pytest, which is about to report."""
        if self._line is not None:
            self._line.erase()
        if self._waiting_lines:
            with _without_capture(self._config):
                self._write_waiting_lines()

    def report_end(self, report: pytest.TestReport) -> None:
        """Write the line of a test that has ended, if it has one and no agent of it was shown at
        work.
        """
        is_of_worker = hasattr(report, "node")
        if self.mode == "nothing" or (self.mode != "ends" and not is_of_worker):
            return
        is_replayed = self._config.getoption("--vibe-wire") == "replay"
        if is_replayed and _verbosity(self._config) < 1:
            return
        runs = _runs_of(report)
        if runs:
            # Of this process pytest has written the file's path.
            name = report.nodeid if is_of_worker else report.nodeid.partition("::")[2]
            agents = list_names(dict.fromkeys(str(run["agent"]) for run in runs), MAX_AGENTS)
            figures = str(_figures_of(runs))
            end = " · ".join(filter(None, (agents, figures)))
            self.write_line(safe(f"{INDENT}{name}"), safe(f": {end}"))
            if is_of_worker:  # pytest writes dots of workers without a newline before
                self._config.get_terminal_writer().line()

    def _write_waiting_lines(self) -> None:
        """Each on a line of its own, after which pytest begins a new one."""
        writer = self._config.get_terminal_writer()
        lines, self._waiting_lines = self._waiting_lines, []
        for line in lines:
            if writer.width_of_current_line:
                writer.line()
            writer.write(line, light=True, flush=True)
        if _is_captured(self._config):
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            reporter.currentfspath = None
        else:  # what the test prints comes next
            writer.line()


class Activity:
    """What the agents of one test do."""

    def __init__(self, item: pytest.Item, display: LiveDisplay) -> None:
        self._display = display
        self._name = f"{shorten_text(safe(item.name), MAX_NAME)} · "
        self._spent = UseUntilNow()
        """What the model's wire counted, in its threads; nothing in replay."""
        self._told = UseUntilNow()
        """What the agents' steps say."""
        self._calls: dict[str, str] = {}
        """By node the last tool call of its agent."""
        self._lock = threading.Lock()

    @property
    def listeners(self) -> Listeners:
        """For a run of the test."""
        if self._display.mode == "line":
            return Listeners(self._hear_progress, self._draw_step, self._count)
        if self._display.mode == "calls":
            return Listeners(tick=self._write_call)
        return Listeners()

    def end_run(self, name: str, use: ModelUse) -> None:
        """A run has ended: say what it used, if its calls were written."""
        if self._display.mode == "calls":
            figures = str(UseUntilNow(use.answers, use.tokens, use.usd, use.is_exact))
            self._display.write_line(f"{INDENT}{safe(name)}: {figures or 'no answer'}")

    def _hear_progress(self, stage: str, text: str) -> None:
        is_name_again = text == f"agent {stage}"
        # What a stage cost is in the figures at the end of the line.
        text = _PRICE.sub("", text)
        self._draw(stage, "" if is_name_again else text)

    def _draw_step(self, step: StageStep) -> None:
        if step.kind == "ready":
            return
        if step.kind == "usage":
            self._told.answers += 1
            self._told.tokens += step.tokens
        if step.tool:
            self._calls[step.node] = step.call
        self._draw(step.node, self._calls.get(step.node, ""))

    def _draw(self, node: str, doing: str) -> None:
        start = ": ".join(filter(None, (safe(node), safe(doing))))
        self._display.draw(self._name, start, self._figures())

    def _figures(self) -> str:
        with self._lock:
            spent = UseUntilNow(self._told.answers, self._spent.tokens, self._spent.usd)
        spent.tokens = spent.tokens or self._told.tokens
        text = str(spent)
        return f" · {text}" if text else ""

    def _count(self, node: str, tokens: int, usd: float) -> None:
        with self._lock:
            self._spent.tokens += tokens
            self._spent.usd += usd

    def _write_call(self, step: StageStep) -> None:
        if step.kind == "tool.started":
            self._display.write_line(f"{INDENT}{safe(step.node)}: {safe(step.call)}")
        elif step.kind == "tool.ended" and step.ok is False:
            self._display.write_line(f"{INDENT}{safe(step.node)}: {safe(step.call)}", " failed")


def _choose_mode(config: pytest.Config) -> Mode:
    verbosity = _verbosity(config)
    has_reporter = config.pluginmanager.hasplugin("terminalreporter")
    if verbosity < 0 or not has_reporter or hasattr(config, "workerinput"):
        return "nothing"
    if verbosity > 0:
        return "calls"
    if _can_rewrite(config):
        return "line"
    return "ends"


def _verbosity(config: pytest.Config) -> int:
    return config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES)


def _can_rewrite(config: pytest.Config) -> bool:
    """Whether pytest writes to a terminal that can move its cursor, and nothing else does."""
    environment = read_process_environment()
    if environment.in_ci or not environment.terminal.can_redraw:
        return False
    has_live_log = config.getini("log_cli") or config.getoption("log_cli_level", None) is not None
    if has_live_log or not _is_captured(config):
        return False
    reporter = config.pluginmanager.getplugin("terminalreporter")
    # One of another plugin draws lines of its own.
    return type(reporter) is pytest.TerminalReporter and bool(reporter.isatty)


def _is_captured(config: pytest.Config) -> bool:
    """Whether nothing that a test prints reaches the terminal."""
    has_capture = config.pluginmanager.hasplugin("capturemanager")
    return has_capture and config.getoption("capture") in ("fd", "sys")


def _without_capture(config: pytest.Config) -> Any:  # noqa: ANN401  a context manager
    """Within it what is written goes to pytest's own output."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        return nullcontext()
    return capture.global_and_fixture_disabled()


def _runs_of(report: pytest.TestReport) -> list[Mapping[str, Any]]:
    return [json.loads(str(value)) for name, value in report.user_properties if name == "vibe"]


def _figures_of(runs: Sequence[Mapping[str, Any]]) -> UseUntilNow:
    figures = UseUntilNow()
    for run in runs:
        figures.answers += run["turns"] or 0
        figures.tokens += run["tokens"] or 0
        figures.usd += run["usd"] or 0.0
        figures.is_exact = figures.is_exact and run["usd"] is not None
    return figures
