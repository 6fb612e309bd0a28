"""Built-in checks: deterministic criteria that run first, offline, and always bind.

`CHECKS` is a plain dict: adding a check is writing a function and an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate import scratch
from vibe_gate.checks import conduct_checks, file_checks, skipped_tests, tests_kept, text_checks
from vibe_gate.checks.check_contract import (
    Check,
    CheckInput,
    CheckResult,
    CommandRun,
    Conduct,
    Excluding,
    NoOptions,
    objects_to,
)
from vibe_gate.checks.command_check import CommandOptions, command
from vibe_gate.context.facts import Facts
from vibe_gate.context.world import RunContext
from vibe_gate.domain.change import DEFINITIONS, RULE_FILES, Change, FileDiff, Side
from vibe_gate.domain.document import plain, read, to_json
from vibe_gate.domain.event import NodeConfig
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, RawFinding, short, whole_change_finding

if TYPE_CHECKING:
    from vibe_gate.git import Export, Repository

__all__ = [
    "CHECKS",
    "Check",
    "CheckInput",
    "CheckResult",
    "CheckResults",
    "run_check",
    "run_checks",
]

CHECKS: dict[str, Check[Any]] = {
    "no-secrets": Check(
        "No secret is added", text_checks.SecretOptions, text_checks.no_secrets, of_text=True
    ),
    "no-conflict-markers": Check(
        "No conflict marker is left behind",
        Excluding,
        objects_to("conflict marker", text_checks.no_conflict_markers),
        of_text=True,
    ),
    "no-deleted-files": Check(
        "No file is deleted", Excluding, objects_to("deleted file", file_checks.no_deleted_files)
    ),
    "no-deleted-tests": Check(
        "No test is deleted",
        tests_kept.TestOptions,
        objects_to("loss of tests", tests_kept.no_deleted_tests, "losses of tests"),
        of_text=True,
        concerns=tests_kept.held_tests,
    ),
    "no-skipped-tests": Check(
        "No test is disabled",
        skipped_tests.SkipOptions,
        objects_to("disabled test", skipped_tests.no_skipped_tests),
        of_text=True,
        concerns=tests_kept.can_skip_tests,
    ),
    "only-paths": Check(
        "Nothing but these paths changes",
        file_checks.OnlyPathsOptions,
        objects_to("disallowed path", file_checks.only_paths),
    ),
    "forbidden-paths": Check(
        "These paths do not change",
        file_checks.ForbiddenPathsOptions,
        objects_to("forbidden path", file_checks.forbidden_paths),
    ),
    "forbidden-pattern": Check(
        "No added line matches",
        text_checks.PatternOptions,
        text_checks.forbidden_pattern,
        of_text=True,
        leaves_out=RULE_FILES,
    ),
    "required-companion": Check(
        "What belongs together changes together",
        file_checks.CompanionOptions,
        file_checks.required_companion,
    ),
    "max-changed-lines": Check(
        "The change is small enough to review",
        file_checks.MaxLinesOptions,
        file_checks.max_changed_lines,
    ),
    "no-binary": Check(
        "No binary content is added", Excluding, objects_to("binary file", file_checks.no_binary)
    ),
    "no-large-files": Check(
        "No large file is added",
        file_checks.LargeFileOptions,
        objects_to("large file", file_checks.no_large_files),
    ),
    "no-invisible-unicode": Check(
        "No character hides or reorders text",
        Excluding,
        objects_to(
            "line with hidden characters",
            text_checks.no_invisible_unicode,
            plural="lines with hidden characters",
        ),
        of_text=True,
    ),
    "no-escaping-symlinks": Check(
        "No symbolic link leaves the tree",
        Excluding,
        objects_to("escaping link", file_checks.no_escaping_symlinks),
    ),
    "no-policy-change": Check(
        "The gate's own policy does not change",
        NoOptions,
        objects_to("policy file", file_checks.no_policy_change),
    ),
    "tools-only": Check(
        "The agent used only these tools",
        conduct_checks.ToolsOnlyOptions,
        conduct_checks.tools_only,
        True,
    ),
    "tool-used": Check(
        "The agent used this tool", conduct_checks.ToolUsedOptions, conduct_checks.tool_used, True
    ),
    "cost-under": Check(
        "The agent cost no more", conduct_checks.CostOptions, conduct_checks.cost_under, True
    ),
    "todos-completed": Check(
        "The agent completed its todos", NoOptions, conduct_checks.todos_completed, True
    ),
    "no-errors-in-logs": Check(
        "No program that the agent ran printed an error",
        conduct_checks.LogOptions,
        conduct_checks.no_errors_in_logs,
        True,
    ),
    "complete-capture": Check(
        "Hooks saw all of the agent's tool calls", NoOptions, conduct_checks.complete_capture, True
    ),
    "tests-ran": Check(
        "The agent ran the tests after its last change",
        conduct_checks.TestsRanOptions,
        conduct_checks.tests_ran,
        True,
    ),
    "command": Check(
        "A command succeeds in an export of the head tree", CommandOptions, command, True
    ),
}
"""Each check's name, what passing says, its options and its function."""


def run_check(input: CheckInput) -> CheckResult:
    """The answer of the check that the criterion names; its name and options were validated with
    the definitions.
    """
    check = CHECKS[input.criterion.check_name]
    if input.criterion.options:
        options = read(check.options, input.criterion.options)
    else:
        options = check.options()
    excluded = options.exclude if isinstance(options, Excluding) else ()
    globs = [glob.lstrip("/") for glob in input.criterion.paths]
    if not any(glob.startswith(DEFINITIONS) for glob in globs):
        excluded += check.leaves_out
    files = input.selected(excluded)
    if check.of_text:
        written_files = tuple(file for file in files if not file.is_case)
        files = input.with_moved_in(written_files, excluded)
    if files or (check.of_run and not input.criterion.paths):
        return check.answer(input, options, files)
    return CheckResult("not_applicable", _why_no_files(input))


def _why_no_files(input: CheckInput) -> str:
    """Why a check has nothing to look at."""
    if not input.change.files:
        return "The change has no files."
    if not input.selected(()):
        return "No changed file matches the criterion's paths."
    return (
        "The check leaves out all changed files: what its `exclude` names, or the gate's own "
        "definitions and cases."
    )


SHOWN_LINES = 8
"""Of the end of a failed command's output, on the screen; the last 64 KiB are in the bundle's
checks.log.
"""

_NO_WALL = "Commands ran code of the change without a whole wall around it"


class CheckResults(Struct, frozen=True):
    """The answers of all checks of one review."""

    results: dict[tuple[str, str], CriterionResult]
    """By rubric id and criterion id."""
    findings: tuple[RawFinding, ...]
    raised_by: Mapping[RawFinding, Collection[str]] = MappingProxyType({})
    """By finding the ids of the rubrics that fail a criterion with it, since two rubrics may give
    the same id to criteria of their own.
    """
    notes: tuple[str, ...] = ()
    """Sentences for people."""
    repairs: tuple[FileDiff, ...] = ()
    """What checks would write."""


def run_checks(
    facts: Facts,
    repository: Repository,
    run: RunContext,
    *,
    conduct: Callable[[], Sequence[Conduct]] = tuple,
    suggest: bool = False,
) -> CheckResults:
    """Every check of the rubrics; the same question in two rubrics is worked out once.

    A check that the deadline leaves no time is an error; one that has begun may end later.

    Args:
        facts: What is known of the change, its gate and rubrics.
        repository: Where the change's contents are.
        run: The run that it is part of.
        conduct: Gives what agents did; it is asked only if a check wants to know.
        suggest: As of CheckInput.
    """
    node = facts.checks_node
    results: dict[tuple[str, str], CriterionResult] = {}
    raised_by: dict[RawFinding, list[str]] = {}
    commands = _Commands(facts.change, repository, run)
    answers = _CheckAnswers(facts, repository, run, commands, conduct, suggest=suggest)
    config = plain(_config_of(facts))
    run.record.event("node.added", node, kind="checks", config=config, **facts.node_fields)
    run.record.event("node.status", node, status="RUNNING")
    for rubric in facts.rubrics:
        for criterion in rubric.check_criteria:
            answer = answers.of(rubric, criterion)
            result = _result(criterion, answer)
            results[rubric.id, criterion.id] = result
            for finding in _findings_of(result, answer):
                raised_by.setdefault(finding, []).append(rubric.id)
    if commands.printed:
        run.record.keep_output("".join(commands.printed).encode("utf-8", "replace"))
    run.record.event("node.status", node, status="DONE")
    findings = answers.findings()
    answered_findings = frozenset(findings)
    findings += [finding for finding in raised_by if finding not in answered_findings]
    notes = tuple(commands.notes(results.values(), findings))
    return CheckResults(results, tuple(findings), raised_by, notes, answers.repairs())


def _config_of(facts: Facts) -> NodeConfig:
    """What the node of the checks asks."""
    criteria = []
    for rubric in facts.rubrics:
        criteria += [f"{rubric.id}/{criterion.id}" for criterion in rubric.check_criteria]
    return NodeConfig(criteria=tuple(criteria))


class _CheckAnswers:
    """The answers of one review's checks; the same question in two rubrics is worked out once."""

    def __init__(
        self,
        facts: Facts,
        repository: Repository,
        run: RunContext,
        commands: _Commands,
        conduct: Callable[[], Sequence[Conduct]],
        *,
        suggest: bool,
    ) -> None:
        self._gate = facts.gate
        self._run = run
        self._commands = commands
        self._make_input = partial(
            CheckInput,
            change=facts.change,
            read=repository.read,
            is_binary=repository.is_binary,
            policy=facts.gate.file.policy.block,
            redact=run.redactor.text,
            conduct=conduct,
            record=facts.record,
            suggest=suggest,
            gitleaks=facts.gate.gitleaks,
            read_path=lambda path: repository.tree(facts.change.after).read(path),
        )
        self._by_question: dict[tuple[str, tuple[str, ...]], CheckResult] = {}

    def of(self, rubric: Rubric, criterion: Criterion) -> CheckResult:
        """The answer of a check, worked out now if it is the first to ask that."""
        reach: tuple[str, ...] = ()
        if CHECKS[criterion.check_name].of_text:  # others do not ask for it
            reach = self._gate.reach(rubric.id)
        question = to_json(replace(criterion, id="any", weight=1.0)), reach
        if question not in self._by_question:
            self._by_question[question] = self._answer(criterion, reach)
        return self._by_question[question]

    def _answer(self, criterion: Criterion, reach: tuple[str, ...]) -> CheckResult:
        if not self._run.deadline.seconds_left():
            reason = "The deadline was reached before this check began."
            return CheckResult("error", reason, cause=self._run.deadline.cause)
        run_command = partial(self._commands, criterion)
        return run_check(
            self._make_input(criterion=criterion, reach=reach, run_command=run_command)
        )

    def findings(self) -> list[RawFinding]:
        """Those of all answers."""
        findings: list[RawFinding] = []
        for answer in self._by_question.values():
            findings += answer.findings
        return findings

    def repairs(self) -> tuple[FileDiff, ...]:
        """What all checks would write."""
        repairs: list[FileDiff] = []
        for answer in self._by_question.values():
            repairs += answer.repairs
        return tuple(repairs)


def _findings_of(result: CriterionResult, answer: CheckResult) -> Iterable[RawFinding]:
    """What a failed criterion points at: the answer's findings, or the change if they are named
    after another one that asks the same.
    """
    if result.outcome != "fail":
        return ()
    findings = [finding for finding in answer.findings if finding.criterion == result.id]
    return findings or [whole_change_finding(result)]


class _Commands:
    """Runs the commands of one review's checks, and keeps what they print."""

    def __init__(self, change: Change, repository: Repository, run: RunContext) -> None:
        self._change = change
        self._repository = repository
        self._run = run
        self.lacks: dict[str, None] = {}
        """What of the wall is missing."""

        self.ends: dict[str, list[str]] = {}
        """By criterion, the last lines that its command printed."""

        self.printed: list[str] = []
        """For each run of a command its heading and its output."""

    def __call__(
        self, criterion: Criterion, argv: tuple[str, ...], timeout_s: float, side: Side
    ) -> CommandRun:
        """Run a command in a fresh export of the tree before or after the change, behind the
        wall.
        """
        # Most gates have no command.
        from vibe_gate.sandbox import command_environment_from, run_command

        tree = self._change.after if side == "after" else self._change.before
        with scratch.private_folder("check") as folder:
            root = folder.resolve() / "tree"
            export = self._repository.export(tree, root)
            command_run = run_command(
                argv,
                cwd=root,
                timeout_s=min(timeout_s, self._run.deadline.seconds_left()),
                environment=command_environment_from(self._run.environment.variables),
                unix_sockets=criterion.options.get("unix_sockets") is True,
            )
            changed_paths = tuple(export.changed())
            file_paths = frozenset(export.files)
            contents = self._contents_of(export, changed_paths)
        output = self._run.redactor.text(command_run.output.replace(f"{root}/", ""))
        if command_run.lacks:
            self.lacks[command_run.lacks] = None
        self._keep(criterion, argv, output, command_run.exit_code, side)
        return CommandRun(
            exit_code=command_run.exit_code,
            output=output,
            failure=command_run.failure,
            changed=changed_paths,
            files=file_paths,
            dropped=command_run.dropped,
            contents=contents,
            missing=command_run.missing,
        )

    def _contents_of(self, export: Export, file_paths: Iterable[str]) -> dict[str, bytes]:
        """What stands now in those of the files that the change is about."""
        contents: dict[str, bytes] = {}
        for path in file_paths:
            if self._change.file(path) is None:
                continue
            content = export.content(path)
            if content is not None:
                contents[path] = content
        return contents

    def _keep(
        self, criterion: Criterion, argv: tuple[str, ...], output: str, code: int | None, side: Side
    ) -> None:
        ending = "did not finish" if code is None else f"exit code {code}"
        if side == "before":
            ending += ", on the tree before the change"
        heading = f"==== {criterion.id}: {' '.join(argv)} ({ending})"
        self.printed.append(f"{heading}\n{output.rstrip()}\n")
        lines = [line for line in output.splitlines() if line.strip()]
        # The first run is that of the change itself.
        self.ends.setdefault(criterion.id, lines[-SHOWN_LINES:])

    def notes(
        self, results: Iterable[CriterionResult], findings: Collection[RawFinding]
    ) -> Iterator[str]:
        """The end of what a command printed that did not pass and pointed at no file, unless its
        finding says all of that; what of the wall is missing.
        """
        pointed_at = {finding.criterion for finding in findings if finding.path}
        for result in results:
            if result.outcome not in ("fail", "error") or result.id in pointed_at:
                continue
            lines = self.ends.pop(result.id, [])
            messages = [finding.message for finding in findings if finding.criterion == result.id]
            if len(lines) == 1 and any(message.endswith(lines[0]) for message in messages):
                continue
            for line in lines:
                yield f"{result.id} | {line}"
        for lack in self.lacks:
            yield f"{_NO_WALL}: {lack}. docs/guides/commands.md says what that means."


def _result(criterion: Criterion, answer: CheckResult) -> CriterionResult:
    return CriterionResult(
        id=criterion.id,
        kind="check",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome=answer.outcome,
        decided_by="check",
        reason=short(answer.reason),
        cause=answer.cause or UNSET,
    )
