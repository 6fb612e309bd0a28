"""Checks of what an agent did: its tools, cost, todos and log. Not applicable where no agent of ours ran."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from pydantic import Field, StrictInt, field_validator

from vibe_gate.checks import answer
from vibe_gate.checks.answer import counted, listed
from vibe_gate.checks.contract import CheckInput, CheckResult, NoOptions
from vibe_gate.checks.lines import MAX_SCANNED_LINE
from vibe_gate.checks.text import regular_expression
from vibe_gate.domain.model import Model
from vibe_gate.domain.verdict import MAX_FINDINGS

LOG_ERRORS = (
    r"\bERROR\b", r"\bFATAL\b", r"\bCRITICAL\b", r"Traceback \(most recent call last\)", r"^panic: ", r"Unhandled\w* ",
    r"\bSegmentation fault\b", r"\bUncaught \w+",
)  # fmt: skip
"""What programs write when something broke, in the spellings of common loggers and runtimes."""

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

    patterns: tuple[str, ...] = Field(default=LOG_ERRORS, min_length=1)
    ignore: tuple[str, ...] = ()

    @field_validator("patterns", "ignore")
    @classmethod
    def _patterns_compile(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(regular_expression(source) for source in sources)


def tools_only(input: CheckInput, options: ToolsOnlyOptions) -> CheckResult:
    """The agent used no tool but these; a call that was refused or failed counts too."""
    if input.execution is None:
        return answer.not_applicable(_NO_AGENT)
    used = dict.fromkeys(use.name for use in input.execution.tools)
    others = [name for name in used if not any(fnmatchcase(name, glob) for glob in options.tools)]
    if not others:
        return answer.passed(f"{counted(len(used), 'tool')} used, all allowed.")
    findings = [answer.finding(input, f"The agent used {name}, which is not among its tools.") for name in others]
    return answer.failed(
        input, f"{counted(len(others), 'tool')} used that are not allowed: {listed(others)}.", findings
    )


def tool_used(input: CheckInput, options: ToolUsedOptions) -> CheckResult:
    """The agent used the tool, with success, often enough."""
    if input.execution is None:
        return answer.not_applicable(_NO_AGENT)
    uses = [use for use in input.execution.tools if fnmatchcase(use.name, options.tool)]
    good = sum(use.ok for use in uses)
    told = f"{options.tool} succeeded {counted(good, 'time')} of {counted(len(uses), 'call')}"
    if good >= options.min:
        return answer.passed(f"{told}.")
    return answer.failed(
        input, f"{told}; {options.min} needed.", [answer.finding(input, f"{told}, and {options.min} were needed.")]
    )


def cost_under(input: CheckInput, options: CostOptions) -> CheckResult:
    """The agent's run cost no more than this. A cost that nobody knows decides nothing."""
    if input.execution is None:
        return answer.not_applicable(_NO_AGENT)
    cost = input.execution.cost_usd
    if cost is None:
        return CheckResult("abstain", "The cost of the agent's run is not known.")
    told = f"The agent's run cost {cost:.4f} USD, {options.max_usd:.4f} allowed"
    if cost <= options.max_usd:
        return answer.passed(f"{told}.")
    return answer.failed(input, f"{told}.", [answer.finding(input, f"{told}.")])


def todos_completed(input: CheckInput, options: NoOptions) -> CheckResult:
    """Every item of the agent's own list is completed."""
    if input.execution is None:
        return answer.not_applicable(_NO_AGENT)
    todos = input.execution.todos
    if not todos:
        return answer.not_applicable("The agent kept no list of todos.")
    left = [todo for todo in todos if todo.status != "completed"]
    if not left:
        return answer.passed(f"All of {counted(len(todos), 'todo')} completed.")
    findings = [answer.finding(input, f"This todo is {todo.status}: {todo.text}") for todo in left]
    return answer.failed(input, f"{len(left)} of {counted(len(todos), 'todo')} not completed.", findings)


def no_errors_in_logs(input: CheckInput, options: LogOptions) -> CheckResult:
    """No line of the run's log looks like an error."""
    if input.execution is None:
        return answer.not_applicable(_NO_AGENT)
    errors = [re.compile(source) for source in options.patterns]
    ignored = [re.compile(source) for source in options.ignore]
    hits = []
    lines = input.execution.log.splitlines()
    for number, line in enumerate(lines, start=1):
        seen = line[:MAX_SCANNED_LINE]
        if any(p.search(seen) for p in errors) and not any(p.search(seen) for p in ignored):
            hits.append((number, seen))
    if not hits:
        return answer.passed(f"No error in {counted(len(lines), 'line')} of the log.")
    findings = [answer.finding(input, f"Log line {n}: {line}") for n, line in hits[:MAX_FINDINGS]]
    return answer.failed(
        input, f"{counted(len(hits), 'error line')} in {counted(len(lines), 'line')} of the log.", findings
    )
