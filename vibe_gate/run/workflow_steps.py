"""`wf`, with which a workflow is written: in TOML by the schedule, in Python by its author; and the
source of those.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.domain.agent import Agent, Isolation
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.workflow import WorkflowDefinition
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate import chosen
from vibe_gate.run.stage_request import Context, StageRequest, Watcher
from vibe_gate.run.stage_result import StageResult, Until
from vibe_gate.run.stage_runner import Stages
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import read_bundle


class Defaults(Struct):
    """What stages take that name none of their own: the model, and another repository to work
    in.
    """

    model: str | None = None
    workspace: str | Path | None = None


class StageFiles(Struct, frozen=True):
    """Files that stages changed, in the order of the stages."""

    _results: Sequence[StageResult]

    def all_changed(self) -> list[FileChange]:
        """Of every stage; a file that two of them changed is there twice."""
        return [file for result in self._results for file in result.files]

    def by_stage(self, id: str) -> list[FileChange]:
        """Of one stage, each time it ran."""
        return [file for result in self._results if result.id == id for file in result.files]


class StageCall(Struct, frozen=True):
    """A tool call, with the stage that made it."""

    stage: str
    call: Any


class StageTools(Struct, frozen=True):
    """Tool calls of all stages."""

    _results: Sequence[StageResult]

    def all(self) -> list[StageCall]:
        """Every call with its stage, in the order of the stages."""
        recorded = [result for result in self._results if result.bundle]
        return [
            StageCall(result.id, call) for result in recorded for call in result.result.tools.all()
        ]


class Workflow:
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

        `context` are results whose message, todos, patch and verdict are handed over. How an
        agent's session ended is the result's outcome; an error of `watch` is raised, with the
        result as its `result`. `after`: nodes that it comes after, in place of all that have ended.
        UsageError: no such agent or rubric, nothing to do.
        """
        nodes = self.stages.graph.latest_nodes() if after is None else tuple(after)
        where = self._workspace(workspace)
        if agent is None:
            return await self.stages.run_gate_stage(
                id, self._rubrics(rubrics), nodes, self.stages.trees.of(where)
            )
        if rubrics:
            raise UsageError(
                f"The stage {id} has an agent and rubrics; use wf.judge for the rubrics."
            )
        asked = StageRequest(
            id=id,
            agent=self._agent(agent),
            prompt=prompt,
            prompt_file=prompt_file,
            prompt_command=tuple(prompt_command),
            images=tuple(images),
            context=context,
            after=nodes,
            schema=schema,
            workspace=where,
            model=model or self.defaults.model,
            timeout_s=timeout_s,
            max_cost_usd=max_cost_usd,
            watchers=(watch,) if watch else (),
        )
        result = await self.stages.run_agent_stage(asked)
        if result.error is not None:
            result.error.result = result  # type: ignore[attr-defined]
            raise result.error
        return result

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
        done = await self._repeated(predicate, body, max_iterations)
        if done.results and not done.converged:
            self.stages.graph.mark_unfinished(
                done.last.node, f"{done.reason} after {len(done.results)} of {max_iterations}"
            )
        return done

    async def _repeated(
        self,
        predicate: Callable[[StageResult], bool | Awaitable[bool]],
        body: Callable[[], Awaitable[StageResult]],
        max_iterations: int,
    ) -> Until:
        results: list[StageResult] = []
        seen: list[tuple[str, ...]] = [self.stages.trees.now()]
        while len(results) < max_iterations:
            result = await body()
            results.append(result)
            held = predicate(result)
            if inspect.isawaitable(held):
                held = await held
            if held:
                return Until(tuple(results), True, "passed")
            now = self.stages.trees.now()
            if now in seen:
                return Until(tuple(results), False, "stalled" if now == seen[-1] else "oscillating")
            seen.append(now)
        return Until(tuple(results), False, "capped")

    def _agent(self, agent: Agent | str) -> Agent:
        return (
            agent if isinstance(agent, Agent) else chosen.agent_named(self.stages.facts.gate, agent)
        )

    def _rubrics(self, rubrics: Sequence[Rubric | str]) -> tuple[Rubric, ...]:
        """The rubrics; those of the gate for the change if none is named."""
        gate, change = self.stages.facts.gate, self.stages.trees.own.current
        named = tuple(one for one in rubrics if isinstance(one, str))
        known = (
            {one.id: one for one in chosen.rubrics_for(gate, change, named)}
            if named or not rubrics
            else {}
        )
        return tuple(known[one] if isinstance(one, str) else one for one in rubrics) or tuple(
            known.values()
        )

    def _workspace(self, workspace: str | Path | None) -> Path | None:
        chosen = workspace if workspace is not None else self.defaults.workspace
        return None if chosen is None else Path(chosen)


Steps = Callable[[Workflow], Awaitable[object]]


class Plan(Struct, frozen=True, kw_only=True):
    """What a run carries out: of a workflow in TOML or in Python, of one agent or of one gate.

    `timeout_s`: for the whole run. run.json says its `prompt` and `isolation`. `path` is that of a
    Python source; `files` are those of the trusted revision that stages name, if they were read
    already. `patch` is put into the user's files before it begins.
    """

    id: str
    steps: Steps
    timeout_s: float | None = None
    defaults: Defaults = field(default_factory=Defaults)
    prompt: str = ""
    isolation: Isolation = "none"
    path: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    patch: bytes = b""
    asks_agents: bool = False
    """Whether it has a stage of an agent; False of a Python workflow, which nobody knows before it
    runs.
    """


def workflow(
    id: str,
    *,
    timeout: float | None = None,
    model: str | None = None,
    workspace: str | Path | None = None,
) -> Callable[[Steps], Plan]:
    """Declare the function below as the workflow `id`: `async def steps(wf)`.

    `timeout`: seconds for the whole run. `model` and `workspace` are for stages that name none.
    """
    return lambda steps: Plan(
        id=id, steps=steps, timeout_s=timeout, defaults=Defaults(model, workspace)
    )


def load(definition: WorkflowDefinition) -> Plan:
    """The workflow that the source declares, run in this process. DefinitionError, with the line,
    if there is none.
    """
    module = ModuleType(f"vibe_gate_workflow_{definition.digest[:16]}")
    module.__file__ = definition.path
    sys.modules[module.__name__] = module  # dataclasses and annotations look their module up
    try:
        source = definition.source.decode()
        exec(compile(source, definition.path, "exec"), module.__dict__)  # noqa: S102 - read at the trusted revision
    except Exception as error:
        raise DefinitionError([place_of(error, definition.path)]) from error
    declared = [one for one in vars(module).values() if isinstance(one, Plan)]
    found = next((one for one in declared if one.id == definition.id), None)
    if found is None:
        raise DefinitionError([f'{definition.path}:1: declares no @workflow("{definition.id}")'])
    return replace(found, path=definition.path)


def place_of(error: Exception, path: str) -> str:
    """The error with the line of the workflow's source where it was raised."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    lines += [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    line = lines[-1] if lines else 1
    return f"{path}:{line}: {type(error).__name__}: {error}"
