"""Checks of what ran: a command of the repository's own, and what an agent of the run did.

No run of this version has an agent that writes the change, so the checks of an agent's conduct do not apply to any
change yet (`NOT_YET`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field, StrictInt

from vibe_gate.checks.contract import (
    MAX_SCANNED_LINE,
    CheckInput,
    CheckResult,
    NoOptions,
    RegularExpression,
    failed,
    finding,
    not_applicable,
    nothing_selected,
    passed,
    sentence,
    text_of,
)
from vibe_gate.domain import paths
from vibe_gate.domain.escape import counted, expression, listed
from vibe_gate.domain.model import Model
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding

DEFAULT_TIMEOUT_S = 300.0

_POINTER = expression(r"(?:\./)?(?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)")
"""`src/a.py:3:1: F401 unused`, as compilers and linters write it."""


class CommandOptions(Model):
    """`timeout_s`: seconds of wall clock after which the command is killed. `unix_sockets`: it may open them."""

    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    unix_sockets: bool = False


def command(input: CheckInput, options: CommandOptions) -> CheckResult:
    """The command exits with 0. One that could not run or did not finish says nothing about the change: error."""
    argv = input.criterion.command
    if not argv:
        return CheckResult("error", 'The check "command" needs a command = ["program", "argument"].')
    if input.criterion.paths and not input.files:
        return nothing_selected(input)
    ended = input.run_command(argv, options.timeout_s)
    shown = " ".join(argv)[:120]
    if ended.exit_code is None:
        return CheckResult("error", sentence(f"{shown} gave no answer: {ended.failure}."))
    if ended.exit_code == 0:
        return passed(f"{shown} exited with 0.")
    how = f"exited with {ended.exit_code}" if ended.exit_code > 0 else f"was ended by signal {-ended.exit_code}"
    last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
    findings = [finding(input, f"{shown} {how}: {last}"), *_pointed_at(input, ended.output)]
    return failed(input, f"{shown} {how}.", findings)


def _pointed_at(input: CheckInput, output: str) -> Iterator[Finding]:
    """A finding for each line of output that points at a line of a changed file, once each."""
    files = {paths.encode(file.path).decode("utf-8", "replace"): file for file in input.files if file.after}
    contents: dict[str, list[str]] = {}
    seen: set[tuple[str, int, str]] = set()
    for line in output.splitlines():
        match = _POINTER.match(line)
        file = files.get(match["path"]) if match else None
        if match is None or file is None or file.after is None:
            continue
        if file.path not in contents:
            contents[file.path] = [text_of(content) for content in input.read(file.after).split(b"\n")]
        number, message = int(match["line"]), match["message"]
        if (file.path, number, message) in seen or not 0 < number <= len(contents[file.path]):
            continue
        seen.add((file.path, number, message))
        quote = contents[file.path][number - 1]
        yield finding(input, message, path=file.shown_path, line=number, quote=quote)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call: its name and whether it succeeded."""

    name: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of the agent's own list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class Execution:
    """An agent's run, seen from outside. `cost_usd` is None when it is not known."""

    tools: tuple[ToolUse, ...] = ()
    todos: tuple[Todo, ...] = ()
    cost_usd: float | None = None
    log: str = ""


LOG_ERRORS = (
    r"\bERROR\b", r"\bFATAL\b", r"\bCRITICAL\b", r"Traceback \(most recent call last\)", r"^panic: ", r"Unhandled\w* ",
    r"\bSegmentation fault\b", r"\bUncaught \w+",
)  # fmt: skip
"""What programs write when something broke, in the spellings of common loggers and runtimes."""

NOT_YET = "decides nothing in this version: no workflow runs an agent yet"
"""Why the checks of an agent's conduct do not apply."""

_NO_AGENT = "No agent of this run made the change, so there is nothing to look at."


class ToolsOnlyOptions(Model):
    """`tools`: names of the tools that the agent may use; `*` and `?` as in file names (`mcp__github__*`)."""

    tools: tuple[str, ...]


class ToolUsedOptions(Model):
    """`tool`: the tool that must have been used with success, at least `min` times."""

    tool: str = Field(min_length=1)
    min: StrictInt = Field(default=1, ge=1)


class CostOptions(Model):
    """`max_usd`: the most that the agent's run may cost, in US dollars."""

    max_usd: float = Field(ge=0)


class LogOptions(Model):
    """`patterns`: regular expressions of what counts as an error; `ignore`: lines that do not count."""

    patterns: tuple[RegularExpression, ...] = Field(default=LOG_ERRORS, min_length=1)
    ignore: tuple[RegularExpression, ...] = ()


def tools_only(input: CheckInput, options: ToolsOnlyOptions) -> CheckResult:
    """The agent used no tool but these; a call that was refused or failed counts too."""
    if input.execution is None:
        return not_applicable(_NO_AGENT)
    used = dict.fromkeys(use.name for use in input.execution.tools)
    others = [name for name in used if not any(fnmatchcase(name, glob) for glob in options.tools)]
    if not others:
        return passed(f"{counted(len(used), 'tool')} used, all allowed.")
    findings = [finding(input, f"The agent used {name}, which is not among its tools.") for name in others]
    return failed(input, f"{counted(len(others), 'tool')} used that are not allowed: {listed(others)}.", findings)


def tool_used(input: CheckInput, options: ToolUsedOptions) -> CheckResult:
    """The agent used the tool, with success, often enough."""
    if input.execution is None:
        return not_applicable(_NO_AGENT)
    uses = [use for use in input.execution.tools if fnmatchcase(use.name, options.tool)]
    good = sum(use.ok for use in uses)
    told = f"{options.tool} succeeded {counted(good, 'time')} of {counted(len(uses), 'call')}"
    if good >= options.min:
        return passed(f"{told}.")
    return failed(input, f"{told}; {options.min} needed.", [finding(input, f"{told}, and {options.min} were needed.")])


def cost_under(input: CheckInput, options: CostOptions) -> CheckResult:
    """The agent's run cost no more than this. A cost that nobody knows decides nothing."""
    if input.execution is None:
        return not_applicable(_NO_AGENT)
    cost = input.execution.cost_usd
    if cost is None:
        return CheckResult("abstain", "The cost of the agent's run is not known.")
    told = f"The agent's run cost {cost:.4f} USD, {options.max_usd:.4f} allowed"
    if cost <= options.max_usd:
        return passed(f"{told}.")
    return failed(input, f"{told}.", [finding(input, f"{told}.")])


def todos_completed(input: CheckInput, options: NoOptions) -> CheckResult:
    """Every item of the agent's own list is completed."""
    if input.execution is None:
        return not_applicable(_NO_AGENT)
    todos = input.execution.todos
    if not todos:
        return not_applicable("The agent kept no list of todos.")
    left = [todo for todo in todos if todo.status != "completed"]
    if not left:
        return passed(f"All of {counted(len(todos), 'todo')} completed.")
    findings = [finding(input, f"This todo is {todo.status}: {todo.text}") for todo in left]
    return failed(input, f"{len(left)} of {counted(len(todos), 'todo')} not completed.", findings)


def no_errors_in_logs(input: CheckInput, options: LogOptions) -> CheckResult:
    """No line of the run's log looks like an error."""
    if input.execution is None:
        return not_applicable(_NO_AGENT)
    errors = [re.compile(source) for source in options.patterns]
    ignored = [re.compile(source) for source in options.ignore]
    hits = []
    lines = input.execution.log.splitlines()
    for number, line in enumerate(lines, start=1):
        seen = line[:MAX_SCANNED_LINE]
        if any(p.search(seen) for p in errors) and not any(p.search(seen) for p in ignored):
            hits.append((number, seen))
    if not hits:
        return passed(f"No error in {counted(len(lines), 'line')} of the log.")
    findings = [finding(input, f"Log line {n}: {line}") for n, line in hits[:MAX_FINDINGS]]
    return failed(input, f"{counted(len(hits), 'error line')} in {counted(len(lines), 'line')} of the log.", findings)
