"""Built-in checks: deterministic criteria that run first, offline, and always bind.

`CHECKS` is a plain dict: adding a check is writing a function and an entry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.checks import execution, files, tests_kept, text
from vibe_gate.checks.contract import Check, CheckInput, CheckResult, Excluding, NoOptions
from vibe_gate.domain.change import Change
from vibe_gate.domain.context import CHECKS_NODE, RunContext
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Finding, short, whole_change

if TYPE_CHECKING:
    from vibe_gate.git import Repository
    from vibe_gate.sandbox import CommandResult

__all__ = ["CHECKS", "Check", "CheckInput", "CheckResult", "CheckResults", "run_check", "run_checks"]

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
    "tools-only": Check(
        "The agent used only these tools", execution.ToolsOnlyOptions, execution.tools_only, execution.NOT_YET
    ),
    "tool-used": Check("The agent used this tool", execution.ToolUsedOptions, execution.tool_used, execution.NOT_YET),
    "cost-under": Check("The agent's run cost no more", execution.CostOptions, execution.cost_under, execution.NOT_YET),
    "todos-completed": Check("The agent completed its todos", NoOptions, execution.todos_completed, execution.NOT_YET),
    "no-errors-in-logs": Check(
        "The run's log has no errors", execution.LogOptions, execution.no_errors_in_logs, execution.NOT_YET
    ),
    "command": Check("A command succeeds in an export of the head tree", execution.CommandOptions, execution.command),
}
"""Each check's name, what passing says, its options and its function."""


def run_check(input: CheckInput) -> CheckResult:
    """The answer of the check that the criterion names; its name and options were validated with the definitions."""
    check = CHECKS[input.criterion.check_name]
    return check.function(input, check.options.model_validate(input.criterion.options))


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
