"""What the fixture `vibe` gives a test: agents, judges and workflows as runs of their own, and what
they did.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar, overload

import pytest
from msgspec import Struct
from pydantic import BaseModel

from vibe_gate.agent import Stop
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import Environment, read_environment
from vibe_gate.domain.escape import safe, show_block
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.wire import end_kind
from vibe_gate.errors import (
    AgentFailed,
    GatewayError,
    InfrastructureError,
    StorageError,
    UsageError,
)
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.expect import Expectation
from vibe_gate.faces.pytest_plugin.live_display import Activity, display_of
from vibe_gate.faces.pytest_plugin.marker import REPETITION
from vibe_gate.faces.pytest_plugin.plugin_wire import (
    LEFT_OPEN,
    OUT_OF_BUDGET,
    Inconclusive,
    Limits,
    TestWire,
    difference,
    no_cassette,
    note_run,
    read_test_environment,
    warn_of_notes,
)
from vibe_gate.gate import chosen
from vibe_gate.gate.loading import FOLDER
from vibe_gate.gate.trusted import WORKTREE, own_gate
from vibe_gate.report import sentences
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.execution import AgentExecution
from vibe_gate.run.handed_over import Context, results_in
from vibe_gate.run.judged_result import MakePlan, plan_judgement, read_judgement
from vibe_gate.run.run_request import RunRequest, one_agent, plan_of
from vibe_gate.run.stage_request import Watcher
from vibe_gate.run.stage_result import StageResult, model_use_in
from vibe_gate.run.walk import walk_workflow
from vibe_gate.run.workflow_plan import Workflow
from vibe_gate.secrets import Redactor
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import Attachment, RunResult, read_bundle

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

UNDECIDED = {
    "budget": OUT_OF_BUDGET,
    "timeout": "timed out",
    "max_turns": "out of turns",
    "refused": "refused by the model",
    "max_tokens": "cut at the model's limit of tokens",
    "no_answer": "without an answer in the form asked for",
    "two_answers": "without an answer in the form asked for",
}
"""Ends of an agent's session that say nothing about its work, and what the closing line calls
them.
"""

CHECKED: Final = "checked"
ACCEPTED: Final = "accepted"
_Ends = Literal["undecided", "checked", "accepted"]
"""What a session that did not end well makes of a test: undecided (a judge's, a workflow's),
failed, or nothing.
"""

_GATE = pytest.StashKey[Gate]()


def gate_of(config: pytest.Config) -> Gate:
    """The gate of the project under test, as its files are when the first test asks.
    DefinitionError.
    """
    if _GATE not in config.stash:
        config.stash[_GATE] = own_gate(find_project(config.rootpath))
    return config.stash[_GATE]


def find_project(rootdir: Path) -> Path:
    """The nearest folder with definitions, from rootdir up to the repository's root; without any,
    that root.
    """
    folders = []
    for folder in (rootdir, *rootdir.parents):
        folders.append(folder)
        if (folder / ".git").exists():
            break
    else:
        folders = [rootdir]
    for folder in folders:
        if (folder / FOLDER).is_dir():
            return folder
    return folders[-1]


class _Run(Struct):
    """One run of a test."""

    workspace: Path
    """Where it works."""
    cassette: Path | None
    judges: bool
    """Whether it judges another run."""
    at_work: bool = True
    done: WorkflowRun | None = None
    """What was recorded of it; None while it is at work."""


class Vibe:
    """Agents, judges and workflows for one test.

    `task` is the test's own pytest item. `files`, `tools` and `timeline` are about all agents' runs
    of the test, in the order in which they began. Whatever cannot be decided (a limit reached, no
    recorded answer) raises Inconclusive, which skips the test; a model or agent that cannot be
    reached raises another GateError, which counts as an error.
    """

    def __init__(self, item: pytest.Item, workspace: Path) -> None:
        self.task = item
        self.workspace = workspace
        self.files = VibeFiles(self)
        self.tools = VibeTools(self)
        self.timeline = VibeTimeline(self)
        self.sync = SyncVibe(self)
        self.errors: list[InfrastructureError] = []
        """What could not be decided or carried out, in case the test catches it."""
        self._activity = Activity(item, display_of(item.config))
        self._limits = Limits.of(item)
        self._wire = TestWire(item, self._limits.max_usd, item.stash.get(REPETITION, 1))
        self._executions: list[AgentExecution] = []
        self._runs: list[_Run] = []
        self._usd = 0.0
        self._most_usd = self._limits.max_usd or math.inf
        self._remarks: list[Callable[[RunResult], None]] = []

    # What a test calls

    def run(
        self,
        agent: Agent | str,
        prompt: str,
        *,
        context: Context = (),
        workspace: str | os.PathLike[str] | None = None,
        resume: str | None = None,
        schema: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        max_cost_usd: float | None = None,
        model: str | None = None,
        watch: Watcher | None = None,
        check: bool = True,
    ) -> AgentExecution:
        """Start an agent at once; await what comes back for its turn's RunResult. Arguments as of
        `run_agent`.

        `agent`: an Agent, or the id of one of the project under test. `model` is asked in place of
        the agent's own. An agent that fails (a limit, a refusal) fails the test. With `check=False`
        the result comes back, and its `status` and `error` say how the session ended.
        """
        if asyncio._get_running_loop() is None:
            raise UsageError(
                "vibe.run is for async tests, on asyncio; in others, call vibe.sync.run(...)."
            )
        if isinstance(agent, str):
            self._find_definition(
                chosen.agent_named, agent
            )  # before a missing cassette hides that there is none
        results = results_in(context)
        run = self._begin(workspace)

        async def carry_out(watchers: Sequence[Watcher], stop: Stop) -> WorkflowRun:
            plan = one_agent(
                agent,
                prompt,
                context=results,
                resume=resume or "",
                schema=schema,
                model=model,
                watchers=watchers,
                stop=stop,
            )
            ends: _Ends = CHECKED if check else ACCEPTED
            limits = {"timeout_s": timeout_s, "max_cost_usd": max_cost_usd}
            return await self._carry_out(run, ends=ends, plan=plan, **limits)

        redactor = Redactor(read_test_environment().variables)
        execution = AgentExecution(carry_out, redactor, now)
        if watch is not None:
            execution.watch(watch)
        self._executions.append(execution)
        return execution

    async def workflow(
        self,
        workflow: str | Workflow,
        *,
        workspace: str | os.PathLike[str] | None = None,
        timeout_s: float | None = None,
        max_cost_usd: float | None = None,
        model: str | None = None,
    ) -> RunResult:
        """Run a workflow; the whole run's RunResult, whose `summary` has the outcome.

        `workflow`: the id of one of the project under test, or what `@workflow` made; what the
        function of that raises, an assertion say, is raised.
        """
        what_to_run: dict[str, Any] = {"workflow": workflow}
        if isinstance(workflow, Workflow):
            what_to_run = {"plan": partial(plan_of, workflow)}
        else:
            self._find_definition(chosen.workflow_named, workflow)
        run = self._begin(workspace, needed=False)
        finished_run = await self._carry_out(
            run, model=model, timeout_s=timeout_s, max_cost_usd=max_cost_usd, **what_to_run
        )
        return read_bundle(finished_run.bundle)

    @overload
    async def judge(
        self, result: RunResult, rubric: Rubric | str, *, throw_on_fail: bool = True
    ) -> Summary: ...

    @overload
    async def judge(
        self,
        result: RunResult,
        rubric: Rubric | str | None = None,
        instructions: str | None = None,
        *,
        answer: type[M],
        throw_on_fail: bool = True,
    ) -> M: ...

    async def judge(
        self,
        result: RunResult,
        rubric: Rubric | str | None = None,
        instructions: str | None = None,
        *,
        answer: type[M] | None = None,
        throw_on_fail: bool = True,
    ) -> Summary | M:
        """Judge what a run changed, in its workspace, by a rubric of the project or one that is
        given.

        Without `answer` the rubric's checks and judges decide, as in a review, and a fail raises
        AssertionError with the findings. With a pydantic model as `answer` one agent that only
        reads is asked the rubric's questions and the `instructions`, and fills the model; a field
        `passed` that is False raises AssertionError with all fields. UsageError: nothing is asked,
        or the files are not those any more on which the run worked.
        """
        chosen_rubric = (
            self._find_definition(chosen.rubric_named, rubric)
            if isinstance(rubric, str)
            else rubric
        )
        plan = plan_judgement(result, chosen_rubric, instructions, answer)
        run = await self._judge(result, plan, needed=answer is not None)
        if answer is None:
            summary = run.review.summary
            if throw_on_fail and summary.outcome == "fail":
                *findings, verdict = sentences.concise_lines(summary)
                raise AssertionError("\n".join([verdict, *findings]))
            return summary
        with self._remember_errors():
            try:
                filled = read_judgement(run, answer)
            except AgentFailed as error:
                raise Inconclusive(str(error), UNDECIDED["no_answer"]) from None
        if throw_on_fail and getattr(filled, "passed", None) is False:
            raise AssertionError(
                "\n".join(
                    [
                        "the judge says no",
                        *(f"{name}: {safe(str(value))}" for name, value in filled),
                    ]
                )
            )
        return filled

    def expect(self, result: RunResult) -> VibeExpectation:
        """Matchers about what a run did: those of `vibe_gate.expect`, and `await ...
        .to_pass_rubric(rubric)`.
        """
        return VibeExpectation(result, self)

    def annotate(
        self, message: str, type: str = "notice", attachment: Attachment | None = None
    ) -> None:
        """Add a remark to the run that is at work, else to the last one, and to the test's report.

        UsageError, StorageError as of RunResult.annotate.
        """
        redactor, at = Redactor(read_test_environment().variables), now()
        self.task.add_report_section(
            "call", "vibe", show_block(redactor.text(f"{type}: {message}\n"))
        )

        def write(result: RunResult) -> None:
            read_bundle(result.bundle_dir, redact=redactor, clock=lambda: at).annotate(
                message, type, attachment
            )

        bundles = self.bundles()
        if any(run.at_work for run in self._runs) or not bundles:
            self._remarks.append(write)
        else:
            write(read_bundle(bundles[-1]))

    def runs(self) -> Iterator[RunResult]:
        """What each agent did, run after run, a workflow's turn after turn."""
        for run in self._runs:
            if run.done and not run.judges:
                yield from (stage.result for stage in run.done.results if stage.bundle)

    def bundles(self) -> list[Path]:
        """The bundle of each run that ended, judges' too."""
        return [run.done.bundle for run in self._runs if run.done]

    def close(self) -> None:
        """Stop what was begun and not awaited."""
        for execution in self._executions:
            if not execution.has_ended:
                execution.abort("The test has ended.")

    # Judges

    async def _judge(self, result: RunResult, plan: MakePlan, *, needed: bool) -> WorkflowRun:
        """The run of a judge in the workspace of the run that made the result."""
        judged_run = self._run_of(result)
        run = self._begin(judged_run.workspace, needed=needed, judges=True)
        return await self._carry_out(run, plan=plan)

    def _run_of(self, result: RunResult) -> _Run:
        folder = result.bundle_dir
        for run in self._runs:
            if run.done is None:
                continue
            stage_bundles = [stage.bundle for stage in run.done.results]
            if folder == run.done.bundle or folder in stage_bundles:
                return run
        raise UsageError("vibe.judge takes a result of this test's own vibe.run or vibe.workflow.")

    # One run

    def _find_definition(self, find: Callable[[Gate, str], T], name: str) -> T:
        """What is called so in the project. UsageError: nothing is, with a note that says where it
        was looked up.
        """
        config = self.task.config
        try:
            return find(gate_of(config), name)
        except UsageError as error:
            error.add_note(f"Definitions are read in {find_project(config.rootpath) / FOLDER}.")
            raise

    @contextmanager
    def _remember_errors(self) -> Iterator[None]:
        try:
            yield
        except InfrastructureError as error:
            self.errors.append(error)
            raise

    def _begin(
        self, workspace: str | os.PathLike[str] | None, *, needed: bool = True, judges: bool = False
    ) -> _Run:
        """The next run, with its cassette, which for a replay may be `needed`. Inconclusive."""
        with self._remember_errors():
            cassette = self._wire.cassette(needed=needed)
        self._runs.append(_Run(Path(workspace or self.workspace), cassette, judges))
        return self._runs[-1]

    async def _carry_out(
        self,
        run: _Run,
        *,
        timeout_s: float | None = None,
        max_cost_usd: float | None = None,
        ends: _Ends = "undecided",
        **request_fields: Any,  # noqa: ANN401
    ) -> WorkflowRun:
        """Carry out a run within its limits, and note what it was; `request_fields` as of
        RunRequest. GateError.
        """
        gate = gate_of(self.task.config)
        allowed_usd = max_cost_usd or gate.file.budget.max_cost_usd
        try:
            with self._remember_errors(), self._wire.limit(allowed_usd) as spending:
                review = ReviewRequest(
                    Selection("worktree"),
                    max_cost_usd=spending.limit_usd,
                    deadline_s=timeout_s or self._limits.timeout_s,
                    wire=Wire(self._wire.mode, run.cassette, self._wire.recordings),
                    definitions=WORKTREE,
                )
                request = RunRequest(review=review, gate=gate, **request_fields)
                run.done = await self._walk(run, request)
                spending.usd = run.done.review.summary.cost.usd
            with self._remember_errors():
                await self._note(run.done, judges=run.judges)
                is_suite_limit = spending.limit_usd < allowed_usd
                self._require_decided(run.done, ends, is_suite_limit=is_suite_limit)
            return run.done
        finally:
            run.at_work = False

    async def _walk(self, run: _Run, request: RunRequest) -> WorkflowRun:
        """The recorded run. Inconclusive: it has no cassette that could be replayed."""
        try:
            return await walk_workflow(
                request,
                start=run.workspace,
                environment=self._environment_of(run.workspace),
                clock=now,
                listeners=self._activity.listeners,
            )
        except GatewayError:
            if self._wire.mode == "replay" and run.cassette and not run.cassette.is_dir():
                raise no_cassette() from None
            raise

    def _environment_of(self, repository: Path) -> Environment:
        """This process's; what a repository of a test leaves in the state directory goes with
        pytest's own folders.
        """
        environment = read_test_environment()
        # Of pytest's plugin tmpdir, if it is there.
        factory = getattr(self.task.config, "_tmp_path_factory", None)
        if factory is None:
            return environment
        base = factory.getbasetemp().resolve()
        if not repository.resolve().is_relative_to(base):
            return environment
        state_folder = {"XDG_STATE_HOME": str(base / "state")}
        return read_environment({**environment.variables, **state_folder})

    async def _note(self, run: WorkflowRun, *, judges: bool) -> None:
        """Write down what the run was, for reports; and the remarks that were made meanwhile.

        StorageError: it has no bundle.
        """
        if run.review.unrecorded and not run.bundle.is_dir():
            raise StorageError(run.review.unrecorded)
        summary, result = run.review.summary, read_bundle(run.bundle)
        remarks, self._remarks = self._remarks, []
        for write in remarks:
            write(result)
        for note in run.review.notes:
            self.task.add_report_section("call", "vibe", show_block(f"{note}\n"))
        use = await model_use_in(result)
        self._usd += use.usd
        is_over_budget = any(stage.status == "budget" for stage in run.results)
        root = self.task.config.rootpath
        bundle = str(run.bundle)
        if run.bundle.is_relative_to(root):
            bundle = os.path.relpath(run.bundle, root)
        if use.answers or not judges:  # a judge of checks alone asks no model
            self._activity.end_run(summary.workflow, use)
        note_run(
            self.task,
            use,
            bundle=bundle,
            agent=summary.workflow,
            judges=judges,
            outcome=summary.outcome,
            over_budget=is_over_budget or self._usd > self._most_usd,
            duration_ms=summary.duration_ms,
        )
        warn_of_notes(self.task, run.review.notes)

    def _require_decided(self, run: WorkflowRun, ends: _Ends, *, is_suite_limit: bool) -> None:
        """Inconclusive, InfrastructureError: the run says nothing about what its agents are worth.

        AgentFailed: the run's own agent failed, and `ends` says that it is the test's subject.
        `is_suite_limit`: what the whole suite may cost has left less than the agent's own budget,
        so that a spent one tells nothing of it.
        """
        if run.unmatched:
            sentence = f"no recorded answer: {difference(run.unmatched[0])}"
            raise Inconclusive(sentence, "with a request that differs from the recorded one")
        if ends == ACCEPTED:
            return
        if ends == CHECKED:
            _require_agent_ended_well(run, is_suite_limit=is_suite_limit)
        undecided = [stage for stage in run.results if stage.outcome in ("error", "inconclusive")]
        if run.review.summary.outcome in ("pass", "fail"):
            return
        if any(end_kind(stage.status) == "stopped" for stage in undecided):
            return
        error = _undecided_error(run, undecided)
        error.result = read_bundle(run.bundle)  # type: ignore[attr-defined]
        raise error


def _undecided_error(
    run: WorkflowRun, undecided: Sequence[StageResult]
) -> Inconclusive | InfrastructureError:
    """What a test ends with whose run decided nothing: Inconclusive if it is known why."""
    reason = _undecided_reason(run, undecided)
    is_known = True
    for stage in undecided:
        if stage.outcome != "inconclusive" and end_kind(stage.status) != "unanswered":
            is_known = False
    if run.review.summary.outcome != "inconclusive" and not (undecided and is_known):
        return InfrastructureError(reason)
    kinds = [UNDECIDED[stage.status] for stage in undecided if stage.status in UNDECIDED]
    return Inconclusive(reason, kinds[0] if kinds else LEFT_OPEN)


def _undecided_reason(run: WorkflowRun, undecided: Sequence[StageResult]) -> str:
    """Why nothing was decided: as its stages say, else its notes, else the verdict."""
    reasons = [f"{stage.node}: {stage.reason}" for stage in undecided if stage.reason]
    if reasons:
        return "; ".join(reasons)
    summary = run.review.summary
    notes = " ".join([*sentences.missing_key_note(summary), *run.review.notes])
    if notes:
        return notes
    missed_reasons = dict.fromkeys(place.reason for place in summary.unreviewed)
    return ": ".join([sentences.verdict_headline(summary), *missed_reasons])


def _require_agent_ended_well(run: WorkflowRun, *, is_suite_limit: bool) -> None:
    """AgentFailed: an agent under test reached a limit of its own, or the model refused it."""
    for stage in run.results:
        if stage.status == "budget" and is_suite_limit:
            continue
        if end_kind(stage.status) in ("limit", "unanswered"):
            result = stage.result if stage.bundle else None
            raise AgentFailed(f"{stage.node}: {stage.reason}", stage.status, result)


class VibeExpectation(Expectation):
    """Matchers that judges answer, too."""

    def __init__(self, result: RunResult, vibe: Vibe) -> None:
        super().__init__(result)
        self._vibe = vibe

    async def to_pass_rubric(self, rubric: Rubric | str) -> None:
        """Checks and judges of the rubric pass, as `vibe.judge` asks them. Inconclusive,
        UsageError.
        """
        summary = await self._vibe.judge(self._result, rubric, throw_on_fail=not self._negated)
        if self._negated and summary.outcome == "pass":
            raise AssertionError(f"not expected: {sentences.verdict_headline(summary)}")


class SyncExpectation(VibeExpectation):
    """The same, blocking."""

    def to_pass_rubric(self, rubric: Rubric | str) -> None:  # type: ignore[override]
        """As of VibeExpectation."""
        _blocking(super().to_pass_rubric)(rubric)


class VibeFiles(Struct, frozen=True):
    """Files that the test's agents changed."""

    _vibe: Vibe

    def changed(self, *globs: str) -> list[FileChange]:
        """Of every run, those that match one of the globs, or all; a file that two runs changed is
        there twice.
        """
        files: list[FileChange] = []
        for result in self._vibe.runs():
            files += result.files.changed(*globs)
        return files


class VibeTools(Struct, frozen=True):
    """Tool calls of the test's agents."""

    _vibe: Vibe

    def all(self) -> list[Any]:
        """Every call, run after run."""
        calls: list[Any] = []
        for result in self._vibe.runs():
            calls += result.tools.all()
        return calls

    def used(self, name: str) -> int:
        """How often the tool was called, whatever became of it."""
        return sum(result.tools.used(name) for result in self._vibe.runs())


class VibeTimeline(Struct, frozen=True):
    """Events of the test's agents."""

    _vibe: Vibe

    async def events(self) -> AsyncIterator[Any]:
        """Those of each run by time, run after run."""
        for result in self._vibe.runs():
            async for event in result.timeline.events():
                yield event


class SyncVibe:
    """The same for tests that are not async: each call blocks, in an event loop of its own.

    `run` gives the RunResult; Ctrl-C and a time limit end the agent.
    """

    def __init__(self, vibe: Vibe) -> None:
        self.run = _blocking(vibe.run)
        self.judge = _blocking(vibe.judge)
        self.workflow = _blocking(vibe.workflow)
        self._vibe = vibe

    def expect(self, result: RunResult) -> SyncExpectation:
        """Matchers about what a run did, `to_pass_rubric` included."""
        return SyncExpectation(result, self._vibe)

    def events(self) -> list[Any]:
        """What `vibe.timeline.events()` gives."""

        async def listed() -> list[Any]:
            return [event async for event in self._vibe.timeline.events()]

        return _blocking(listed)()


def _blocking(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    async def main(*args: P.args, **kwargs: P.kwargs) -> T:
        return await function(*args, **kwargs)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if asyncio._get_running_loop() is not None:
            raise UsageError(
                "vibe.sync is for tests that are not async; here, await vibe.run(...) and the like."
            )
        return asyncio.run(main(*args, **kwargs))

    return call
