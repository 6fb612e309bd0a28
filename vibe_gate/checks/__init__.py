"""Built-in checks: deterministic criteria that run first, offline, and always bind.

`CHECKS` is a plain dict: adding a check is writing a function and an entry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, StrictInt

from vibe_gate.checks import files, tests_kept, text
from vibe_gate.checks.contract import (
    Check,
    CheckInput,
    CheckResult,
    Excluding,
    Files,
    NoOptions,
    RegularExpression,
    failed,
    finding,
    not_applicable,
    passed,
    sentence,
    text_of,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.context import CHECKS_NODE, RunContext
from vibe_gate.domain.escape import expression
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Finding, short, whole_change

if TYPE_CHECKING:
    from vibe_gate.git import Repository
    from vibe_gate.sandbox import CommandResult

__all__ = ["CHECKS", "Check", "CheckInput", "CheckResult", "CheckResults", "run_check", "run_checks"]

DEFAULT_TIMEOUT_S = 300.0

_POINTER = expression(r"(?:\./)?(?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)")
"""`src/a.py:3:1: F401 unused`, as compilers and linters write it."""


class CommandOptions(Model):
    """`timeout_s`: seconds of wall clock after which the command is killed. `unix_sockets`: it may open them."""

    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    unix_sockets: bool = False


def command(input: CheckInput, options: CommandOptions, files: Files) -> CheckResult:
    """The command exits with 0. One that could not run or did not finish says nothing about the change: error."""
    argv = input.criterion.command
    if not argv:
        return CheckResult("error", 'The check "command" needs a command = ["program", "argument"].')
    ended = input.run_command(argv, options.timeout_s)
    shown = " ".join(argv)[:120]
    if ended.exit_code is None:
        return CheckResult("error", sentence(f"{shown} gave no answer: {ended.failure}."))
    if ended.exit_code == 0:
        return passed(f"{shown} exited with 0.")
    how = f"exited with {ended.exit_code}" if ended.exit_code > 0 else f"was ended by signal {-ended.exit_code}"
    last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
    findings = [finding(input, f"{shown} {how}: {last}"), *_pointed_at(input, files, ended.output)]
    return failed(input, f"{shown} {how}.", findings)


def _pointed_at(input: CheckInput, changed: Files, output: str) -> Iterator[Finding]:
    files = {paths.encode(file.path).decode("utf-8", "replace"): file for file in changed if file.after}
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


LOG_ERRORS = (
    r"\bERROR\b", r"\bFATAL\b", r"\bCRITICAL\b", r"Traceback \(most recent call last\)", r"^panic: ", r"Unhandled\w* ",
    r"\bSegmentation fault\b", r"\bUncaught \w+",
)  # fmt: skip
"""What programs write when something broke, in the spellings of common loggers and runtimes."""


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


NOT_YET = "decides nothing in this version: no workflow runs an agent yet"
"""Why the checks of an agent's conduct do not apply to any change."""


def no_agent(input: CheckInput, options: Model, files: Files) -> CheckResult:
    """Not applicable: no run of this version has an agent that writes the change."""
    return not_applicable("No agent of this run made the change, so there is nothing to look at.")


CHECKS: dict[str, Check[Any]] = {
    "no-secrets": Check("No secret is added", text.SecretOptions, text.no_secrets),
    "no-conflict-markers": Check("No conflict marker is left behind", Excluding, text.no_conflict_markers),
    "no-deleted-files": Check("No file is deleted", Excluding, files.no_deleted_files),
    "no-deleted-tests": Check("No test is deleted", tests_kept.TestOptions, tests_kept.no_deleted_tests),
    "no-skipped-tests": Check("No test is disabled", tests_kept.SkipOptions, tests_kept.no_skipped_tests),
    "only-paths": Check("Nothing but these paths changes", files.OnlyPathsOptions, files.only_paths),
    "forbidden-paths": Check("These paths do not change", files.ForbiddenPathsOptions, files.forbidden_paths),
    "forbidden-pattern": Check("No added line matches", text.PatternOptions, text.forbidden_pattern),
    "required-companion": Check(
        "What belongs together changes together", files.CompanionOptions, files.required_companion
    ),
    "max-changed-lines": Check("The change is small enough to review", files.MaxLinesOptions, files.max_changed_lines),
    "no-binary": Check("No binary content is added", Excluding, files.no_binary),
    "no-large-files": Check("No large file is added", files.LargeFileOptions, files.no_large_files),
    "no-invisible-unicode": Check("No character hides or reorders text", Excluding, text.no_invisible_unicode),
    "no-escaping-symlinks": Check("No symbolic link leaves the tree", Excluding, files.no_escaping_symlinks),
    "no-policy-change": Check("The gate's own policy does not change", NoOptions, files.no_policy_change),
    "tools-only": Check("The agent used only these tools", ToolsOnlyOptions, no_agent, True, NOT_YET),
    "tool-used": Check("The agent used this tool", ToolUsedOptions, no_agent, True, NOT_YET),
    "cost-under": Check("The agent's run cost no more", CostOptions, no_agent, True, NOT_YET),
    "todos-completed": Check("The agent completed its todos", NoOptions, no_agent, True, NOT_YET),
    "no-errors-in-logs": Check("The run's log has no errors", LogOptions, no_agent, True, NOT_YET),
    "command": Check("A command succeeds in an export of the head tree", CommandOptions, command, True),
}
"""Each check's name, what passing says, its options and its function."""


def run_check(input: CheckInput) -> CheckResult:
    """The answer of the check that the criterion names; its name and options were validated with the definitions."""
    check = CHECKS[input.criterion.check_name]
    options = check.options.model_validate(input.criterion.options)
    files = input.selected(options.exclude if isinstance(options, Excluding) else ())
    if files or (check.of_run and not input.criterion.paths):
        return check.function(input, options, files)
    if input.change.files:
        return not_applicable("No changed file matches the criterion's paths.")
    return not_applicable("The change has no files.")


_TOO_LATE = CheckResult("error", "The deadline was reached before this check began.")
_NO_WALL = "Commands ran code of the change without a whole wall around it"


@dataclass(frozen=True, slots=True)
class CheckResults:
    """Results by (rubric id, criterion id), what they point at, and sentences for people."""

    results: dict[tuple[str, str], CriterionResult]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def run_checks(
    rubrics: Sequence[Rubric], change: Change, policy: tuple[str, ...], repository: Repository, run: RunContext
) -> CheckResults:
    """Every check of the rubrics; the same question in two rubrics is worked out once.

    A check that the deadline leaves no time is an error; one that has begun may end later.

    `policy` holds the globs of the gate's block list.
    """
    known: dict[str, CheckResult] = {}
    results: dict[tuple[str, str], CriterionResult] = {}
    lacks: list[str] = []
    run.record.event("node.added", CHECKS_NODE, kind="checks")
    run.record.event("node.status", CHECKS_NODE, status="RUNNING")
    for rubric in rubrics:
        for criterion in rubric.checked:
            question = criterion.model_dump_json(exclude={"id", "weight"})
            if question not in known:
                command = partial(_command, criterion, change, repository, run, lacks.append)
                input = CheckInput(
                    change=change,
                    criterion=criterion,
                    read=repository.read,
                    run_command=command,
                    policy=policy,
                    redact=run.redactor.text,
                )
                known[question] = run_check(input) if run.deadline.left() else _TOO_LATE
            results[rubric.id, criterion.id] = _result(criterion, known[question])
    run.record.event("node.status", CHECKS_NODE, status="DONE")
    findings = [finding for answer in known.values() for finding in answer.findings]
    named = {finding.criterion for finding in findings}
    failed = {one.id: one for one in results.values() if one.outcome == "fail" and one.id not in named}
    findings += [whole_change(one) for one in failed.values()]
    # Each sentence once: several commands lack the same.
    notes = tuple(
        f"{_NO_WALL}: {lack}. docs/checks.md (Commands) says what that means." for lack in dict.fromkeys(lacks)
    )
    return CheckResults(results, tuple(findings), notes)


def _command(
    criterion: Criterion,
    change: Change,
    repository: Repository,
    run: RunContext,
    lacks: Callable[[str], None],
    argv: tuple[str, ...],
    timeout_s: float,
) -> CommandResult:
    """Run a command in a fresh export of the after tree, behind the wall; `lacks` hears what of it is missing here."""
    from vibe_gate.sandbox import run_command  # most gates have no command

    with tempfile.TemporaryDirectory(prefix="vibe-gate-check-") as folder:
        root = Path(folder) / "tree"
        repository.export(change.after, root)
        ended = run_command(
            argv,
            cwd=root,
            timeout_s=min(timeout_s, run.deadline.left()),
            environ=run.environ,
            unix_sockets=criterion.options.get("unix_sockets") is True,
        )
    if ended.lacks:
        lacks(ended.lacks)
    return ended


def _result(criterion: Criterion, answer: CheckResult) -> CriterionResult:
    return CriterionResult(
        id=criterion.id,
        kind="check",
        must=criterion.must,
        weight=criterion.weight,
        outcome=answer.outcome,
        decided_by="check",
        reason=short(answer.reason),
    )
