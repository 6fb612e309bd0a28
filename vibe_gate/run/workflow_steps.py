"""`wf`, with which a workflow is written: in TOML by the schedule, in Python by its author."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain.agent import Agent
from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import UsageError
from vibe_gate.gate import chosen
from vibe_gate.gate.given_rubrics import require_known_checks
from vibe_gate.run.handed_over import Context
from vibe_gate.run.stage_request import StageRequest, Watcher
from vibe_gate.run.stage_result import StageResult, Until
from vibe_gate.run.stage_runner import Stages
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import read_bundle


class Defaults(Struct):
    """What stages take that name none of their own."""

    model: str | None = None

    workspace: str | Path | None = None
    """Another repository to work in."""


class StageFiles(Struct, frozen=True):
    """Files that stages changed, in the order of the stages."""

    _results: Sequence[StageResult]

    def all_changed(self) -> list[FileChange]:
        """Of every stage; a file that two of them changed is there twice."""
        files: list[FileChange] = []
        for result in self._results:
            files += result.files
        return files

    def by_stage(self, id: str | None = None) -> list[FileChange]:
        """Of one stage, each time it ran; None: of every stage, as `all_changed`."""
        files: list[FileChange] = []
        for result in self._results:
            if id is None or result.id == id:
                files += result.files
        return files


class StageCall(Struct, frozen=True):
    """A tool call, with the stage that made it."""

    stage: str
    """The stage's id."""

    call: Any
    """A ToolCall of the store."""


class StageTools(Struct, frozen=True):
    """Tool calls of all stages."""

    _results: Sequence[StageResult]

    def all(self) -> list[StageCall]:
        """Every call with its stage, in the order of the stages."""
        calls: list[StageCall] = []
        for result in self._results:
            if result.bundle:
                calls += [StageCall(result.id, call) for call in result.result.tools.all()]
        return calls


class WorkflowContext:
    """One run of a workflow, as its function is given it."""

    def __init__(self, stages: Stages, defaults: Defaults) -> None:
        self.files = StageFiles(stages.graph.results)
        self.tools = StageTools(stages.graph.results)
        self.defaults = defaults
        self.stages = stages
        """What carries them out; for steps that no author writes."""

    @property
    def results(self) -> tuple[StageResult, ...]:
        """Every stage that has ended, in the order in which they did."""
        return tuple(self.stages.graph.results)

    @property
    def timeline(self) -> Any:  # noqa: ANN401  a Timeline of the store
        """What the run, its agents and their hooks recorded until now, by time."""
        return read_bundle(self.stages.run.record.directory).timeline

    async def stage(
        self,
        id: str,
        *,
        agent: Agent | str | None = None,
        rubrics: Sequence[Rubric | str] = (),
        prompt: str = "",
        prompt_file: str | None = None,
        prompt_command: Sequence[str] = (),
        images: Sequence[str] = (),
        context: Context = (),
        schema: Mapping[str, Any] | None = None,
        workspace: str | Path | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
        max_cost_usd: float | None = None,
        watch: Watcher | None = None,
        after: Sequence[str] | None = None,
    ) -> StageResult:
        """Run a stage: an agent's turn, or the rubrics on the change as it is now.

        `context` are results whose message, todos, patch and verdict are handed over; the files of
        those of another run are added to the workspace. How an agent's session ended is the
        result's outcome; an error of `watch` is raised, with the result as its `result`. `after`:
        nodes that it comes after, in place of all that have ended. UsageError: no such agent or
        rubric, nothing to do.
        """
        nodes = self.stages.graph.latest_nodes() if after is None else tuple(after)
        folder = self._workspace_folder(workspace)
        if agent is None:
            tree = self.stages.trees.of(folder)
            return await self.stages.run_gate_stage(id, self._rubrics(rubrics), nodes, tree)
        if rubrics:
            raise UsageError(
                f"The stage {id} has an agent and rubrics; use wf.judge for the rubrics."
            )
        request = StageRequest(
            id=id,
            agent=self._agent(agent),
            prompt=prompt,
            prompt_file=prompt_file,
            prompt_command=tuple(prompt_command),
            images=tuple(images),
            context=context,
            after=nodes,
            schema=schema,
            workspace=folder,
            model=model or self.defaults.model,
            timeout_s=timeout_s,
            max_cost_usd=max_cost_usd,
            watchers=(watch,) if watch else (),
        )
        result = await self.stages.run_agent_stage(request)
        if result.error is not None:
            result.error.result = result  # type: ignore[attr-defined]
            raise result.error
        return result

    def plan_stage(
        self, id: str, needs: Sequence[str], agent: Agent | str | None, prompt: str
    ) -> None:
        """Write down that a stage is to come, after the stages `needs`; of rubrics without an
        `agent`. UsageError: it could not begin.
        """
        self.stages.plan_stage(id, needs, None if agent is None else self._agent(agent), prompt)

    async def judge(
        self,
        result: StageResult,
        rubrics: Sequence[Rubric | str],
        *,
        workspace: str | Path | None = None,
        id: str | None = None,
        after: Sequence[str] | None = None,
    ) -> StageResult:
        """Hold the change, as it is after `result`, against rubrics; `.passed` and `.verdict` say
        how it came out.
        """
        return await self.stage(
            id or f"{result.id}-judge", rubrics=rubrics, workspace=workspace, after=after
        )

    async def until(
        self,
        predicate: Callable[[StageResult], bool | Awaitable[bool]],
        body: Callable[[], Awaitable[StageResult]],
        *,
        max_iterations: int = 3,
    ) -> Until:
        """Repeat `body` until `predicate` holds for its result.

        It ends as "passed"; "capped" after `max_iterations`; "stalled" when an iteration changed no
        file; "oscillating" when it left a tree that was there before. Only the first is a pass:
        else the last stage's node has the reason, and no stage that passed stands at the loop's
        end.
        """
        loop_end = await self._repeat(predicate, body, max_iterations)
        if loop_end.results and not loop_end.converged:
            reason = loop_end.why_unfinished(max_iterations)
            self.stages.graph.mark_unfinished(loop_end.last.node, reason)
        return loop_end

    async def _repeat(
        self,
        predicate: Callable[[StageResult], bool | Awaitable[bool]],
        body: Callable[[], Awaitable[StageResult]],
        max_iterations: int,
    ) -> Until:
        results: list[StageResult] = []
        trees_by_iteration = [self.stages.trees.now()]
        while len(results) < max_iterations:
            result = await body()
            results.append(result)
            passes = predicate(result)
            if inspect.isawaitable(passes):
                passes = await passes
            if passes:
                return Until(tuple(results), True, "passed")
            trees = self.stages.trees.now()
            if trees == trees_by_iteration[-1]:
                return Until(tuple(results), False, "stalled")
            if trees in trees_by_iteration:
                repeats = trees_by_iteration.index(trees)
                return Until(tuple(results), False, "oscillating", repeats)
            trees_by_iteration.append(trees)
        return Until(tuple(results), False, "capped")

    def _agent(self, agent: Agent | str) -> Agent:
        if isinstance(agent, Agent):
            return agent
        return chosen.agent_named(self.stages.facts.gate, agent)

    def _rubrics(self, rubrics: Sequence[Rubric | str]) -> tuple[Rubric, ...]:
        """The rubrics; those of the gate for the change if none is named."""
        gate = self.stages.facts.gate
        change = self.stages.trees.own.current
        if not rubrics:
            return tuple(chosen.rubrics_for(gate, change, ()))
        require_known_checks(rubric for rubric in rubrics if isinstance(rubric, Rubric))
        ids = tuple(rubric for rubric in rubrics if isinstance(rubric, str))
        rubrics_by_id: dict[str, Rubric] = {}
        if ids:
            rubrics_by_id = {rubric.id: rubric for rubric in chosen.rubrics_for(gate, change, ids)}
        wanted_rubrics = []
        for rubric in rubrics:
            if isinstance(rubric, Rubric):
                wanted_rubrics.append(rubric)
            else:
                wanted_rubrics.append(rubrics_by_id[rubric])
        return tuple(wanted_rubrics)

    def _workspace_folder(self, workspace: str | Path | None) -> Path | None:
        if workspace is None:
            workspace = self.defaults.workspace
        return None if workspace is None else Path(workspace)
