"""What Python scripts call, with this process's environment and clock: review, run_workflow,
run_agent, judge.

Each takes plain words, with the meaning of the command line's options. A revision, rubric or
workflow that is not there is a UsageError, which names the nearest right one; types are for a type
checker.
"""

from __future__ import annotations

import asyncio
import logging
import stat
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from vibe_gate.agent import Stop
from vibe_gate.context.listeners import Listeners, Progress, unheard
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.cause import CannotAsk
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import Environment, read_environment
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.rubric import Rubric, model_name
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.tables import SHOWN_CHARACTERS
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.cli.request import Spelling, selected
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.progress import run_walk
from vibe_gate.faces.revision_advice import advising, named_revisions
from vibe_gate.report import sentences
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.execution import AgentExecution
from vibe_gate.run.handed_over import Context, results_in
from vibe_gate.run.judged_result import M, plan_judgement, read_judgement
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_request import RunRequest, one_agent, plan_of
from vibe_gate.run.stage_request import Watcher
from vibe_gate.run.stage_result import StageResult
from vibe_gate.run.walk import walk_workflow
from vibe_gate.run.workflow_plan import Workflow, workflow
from vibe_gate.run.workflow_steps import WorkflowContext
from vibe_gate.secrets import Redactor
from vibe_gate.store.run_result import RunResult

__all__ = [
    "Agent",
    "AgentExecution",
    "Review",
    "Workflow",
    "WorkflowContext",
    "WorkflowRun",
    "judge",
    "review",
    "review_sync",
    "run_agent",
    "run_workflow",
    "workflow",
]

P = ParamSpec("P")
T = TypeVar("T")

_INSTEAD = {
    "staged": "staged=True",
    "index": "staged=True",
    "commit": "commit='REV'",
    "worktree": "no revision, which is HEAD to the working tree",
    "range": "'A..B'",
    "merge_base": "'A...B'",
}
"""What selects a change, by words that people write for it as if they were revisions."""


async def review(
    revision: str | None = None,
    *,
    staged: bool = False,
    commit: str | None = None,
    repository: Path | str | None = None,
    rubrics: list[str] | tuple[str, ...] = (),
    judge: bool = True,
    base: str | None = None,
    definitions: str | None = None,
    max_cost_usd: float | None = None,
    deadline_s: float | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
) -> Review:
    """Review a change of the repository around `repository` (default: the current folder).

    `revision`: from REV to the working tree, or a range, "A..B" or "A...B"; without it HEAD to the
    working tree, unless `staged` (the index against HEAD) or `commit` (one commit against its first
    parent) is given. `rubrics`: only these, by id. `judge=False`: run checks only. `base`: the
    trusted base revision, where definitions are read; `definitions`: read them at this revision, or
    from disk ("worktree"). US dollars and seconds; None takes the gate's own. `progress(stage,
    text)` hears what is done. `environ`: in place of this process's, for tests. Raises GateError:
    UsageError and its kinds for what cannot be understood, GatewayError for a wire that is set up
    wrongly. A model that cannot be reached is no error but an outcome.
    """
    environment = _environment_for(environ)
    request = ReviewRequest(
        _selection(revision, staged, commit),
        rubrics=_rubric_ids(rubrics),
        judge="if checks pass" if judge else "never",
        base=base or environment.forge.base_of_pull_request,
        definitions=definitions,
        max_cost_usd=_positive("max_cost_usd", max_cost_usd),
        deadline_s=_positive("deadline_s", deadline_s),
        wire=read_wire(environment.variables),
    )
    start = _folder(repository)
    listener = progress or unheard
    with advising(named_revisions(request), start, environment, _INSTEAD):
        result = await review_around(
            request, start=start, environment=environment, clock=now, progress=listener
        )
    return await _review_for_script(result, _missing_key_note(result))


async def _review_for_script(review: Review, first_notes: Sequence[str] = ()) -> Review:
    """The review as a script has it: uploaded to the shared store, if there is one, with notes
    about what failed.
    """
    failures = await asyncio.to_thread(review.unshared.upload) if review.unshared else ()
    return replace(review, notes=(*first_notes, *review.notes, *failures), unshared=None)


def _missing_key_note(review: Review) -> tuple[str, ...]:
    """The note that a key is missing, if a review passed without the questions that need one."""
    questions = review.summary.unasked
    cause = questions[0].cause if questions else None
    if not isinstance(cause, CannotAsk):
        return sentences.missing_key_note(review.summary)
    count = counted(len(questions), "question")
    advice = f"{sentences.way_to_ask(cause)} and review again to ask them."
    return (f"{count} {cause.reason}. {advice[0].upper()}{advice[1:]}",)


def _blocking(walk: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @wraps(walk)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            name = walk.__name__
            raise UsageError(
                f"{name}_sync cannot wait inside of a running event loop: await vibe_gate.{name} there."
            )
        return run_walk(walk(*args, **kwargs))

    run.__name__ = run.__qualname__ = f"{walk.__name__}_sync"
    return run


review_sync = _blocking(review)
"""`review`, where no event loop runs."""


async def run_workflow(
    workflow: str | Workflow,
    revision: str | None = None,
    *,
    staged: bool = False,
    repository: Path | str | None = None,
    model: str | None = None,
    apply: bool = False,
    base: str | None = None,
    definitions: str | None = None,
    max_cost_usd: float | None = None,
    deadline_s: float | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
) -> WorkflowRun:
    """Run a workflow about a change, which is named as for `review`.

    `workflow`: the id of one of the gate, or what `@workflow` made; what the function of that
    raises, is raised. `model`: of all agents that name none. `apply`: put what the agents changed into the working
    tree, if the run passes; otherwise it is in the patch alone. The rest, and what is raised, as of
    `review`.
    """
    environment = _environment_for(environ)
    start = _folder(repository)
    review_request = ReviewRequest(
        _selection(revision, staged, None),
        base=base or environment.forge.base_of_pull_request,
        definitions=definitions,
        max_cost_usd=_positive("max_cost_usd", max_cost_usd),
        deadline_s=_positive("deadline_s", deadline_s),
        wire=read_wire(environment.variables),
    )
    request = RunRequest(review=review_request, model=_model(model), apply=apply)
    if not isinstance(workflow, (str, Workflow)):
        raise UsageError(
            "workflow is the id of one of the gate, or what @workflow made of a function, "
            f"not {repr(workflow)[:SHOWN_CHARACTERS]}."
        )
    if isinstance(workflow, Workflow):
        request = replace(request, plan=partial(plan_of, workflow))
    else:
        request = replace(request, workflow=workflow)
    with advising(named_revisions(review_request), start, environment, _INSTEAD):
        finished_run = await walk_workflow(
            request,
            start=start,
            environment=environment,
            clock=now,
            listeners=Listeners(progress or unheard),
        )
    return replace(finished_run, review=await _review_for_script(finished_run.review))


def run_agent(
    agent: Agent | str,
    prompt: str,
    *,
    context: Context = (),
    workspace: Path | str | None = None,
    resume: str | None = None,
    schema: Mapping[str, Any] | None = None,
    model: str | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
) -> AgentExecution:
    """Start an agent at once, as a run of its own; await what comes back for its turn's RunResult.

    `agent`: an Agent, or the id of one of the gate. `context`: results with whose files it begins,
    and whose last message, todos and patch it is shown. `workspace`: a folder of the repository to work on (default: the
    current one); its files are not touched, the agent has a clone. `resume`: the session to go on
    with, by its id or an unambiguous beginning. `schema`: the JSON schema of an answer. `model`
    is asked in place of the agent's own. USD and seconds; None takes the agent's own, then the
    gate's.
    """
    if not prompt:
        raise UsageError("prompt is empty.")
    results = results_in(context)
    limit_usd, limit_s = _positive("max_cost_usd", max_cost_usd), _positive("timeout_s", timeout_s)
    model_asked = _model(model)
    start = _folder(workspace)
    environment = read_process_environment()

    async def begin(watchers: Sequence[Watcher], stop: Stop) -> WorkflowRun:
        plan = one_agent(
            agent,
            prompt,
            context=results,
            resume=resume or "",
            schema=schema,
            model=model_asked,
            timeout_s=limit_s,
            max_cost_usd=limit_usd,
            watchers=watchers,
            stop=stop,
        )
        review = ReviewRequest(
            Selection("worktree"),
            max_cost_usd=limit_usd,
            deadline_s=limit_s,
            wire=read_wire(environment.variables),
        )
        request = RunRequest(review=review, plan=plan)
        run = await walk_workflow(
            request, start=start, environment=environment, clock=now, listeners=Listeners()
        )
        _log_notes(run)
        return run

    return AgentExecution(begin, Redactor(environment.variables), now)


@overload
async def judge(
    result: StageResult | RunResult,
    rubric: Rubric | str,
    *,
    workspace: Path | str | None = None,
    max_cost_usd: float | None = None,
    timeout_s: float | None = None,
) -> Summary: ...


@overload
async def judge(
    result: StageResult | RunResult,
    rubric: Rubric | str | None = None,
    instructions: str | None = None,
    *,
    answer: type[M],
    workspace: Path | str | None = None,
    max_cost_usd: float | None = None,
    timeout_s: float | None = None,
) -> M: ...


async def judge(
    result: StageResult | RunResult,
    rubric: Rubric | str | None = None,
    instructions: str | None = None,
    *,
    answer: type[M] | None = None,
    workspace: Path | str | None = None,
    max_cost_usd: float | None = None,
    timeout_s: float | None = None,
) -> Summary | M:
    """Judge the files that an agent left, and those before it, by a rubric; `.passed` says how it
    came out.

    Without `answer` the rubric's checks and judges decide, as in a review of your uncommitted
    changes with these files; a fail is a value, no exception. With a pydantic model as `answer` one
    agent that only reads is asked the rubric's questions and the `instructions`, and fills the
    model; AgentFailed: it did not. `rubric`: a Rubric, or the id of one of the gate. `workspace`,
    USD and seconds as of `run_agent`. UsageError: nothing is asked, or what the agent left does not
    fit your files any more.
    """
    results_in(result)
    plan = plan_judgement(result, rubric, instructions, answer)
    environment = read_process_environment()
    review_request = ReviewRequest(
        Selection("worktree"),
        max_cost_usd=_positive("max_cost_usd", max_cost_usd),
        deadline_s=_positive("timeout_s", timeout_s),
        wire=read_wire(environment.variables),
    )
    run = await walk_workflow(
        RunRequest(review=review_request, plan=plan),
        start=_folder(workspace),
        environment=environment,
        clock=now,
        listeners=Listeners(),
    )
    _log_notes(run)
    if answer is None:
        return run.review.summary
    return read_judgement(run, answer)


def _log_notes(run: WorkflowRun) -> None:
    """Log the run's notes, which the result that the caller gets does not have."""
    logger = logging.getLogger("vibe_gate")
    for note in run.review.notes:
        logger.warning("vibe-gate: %s", safe(note))


def _environment_for(environ: Mapping[str, str] | None) -> Environment:
    """What the caller gives in place of this process's environment, or this process's."""
    if environ is None:
        return read_process_environment()
    return read_environment(dict(environ))


# What cannot be meant


def _folder(path: Path | str | None) -> Path:
    """The folder of that path, else the current one. UsageError: there is none."""
    folder = Path.cwd() if path is None else Path(path)
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (OSError, ValueError):  # a name that is too long, half a surrogate pair
        is_folder = False
    if not is_folder:
        raise UsageError(f"There is no folder {paths.quote(str(folder)[:SHOWN_CHARACTERS])}.")
    return folder


def _rubric_ids(rubrics: Sequence[str]) -> tuple[str, ...]:
    """The ids, each once. UsageError: one id that is not in a list, of which each letter would be
    an id.
    """
    if isinstance(rubrics, str):
        raise UsageError(f"rubrics is a list of ids: rubrics=[{rubrics!r}].")
    return tuple(dict.fromkeys(rubrics))


def _model(model: str | None) -> str | None:
    try:
        return None if model is None else model_name(model)
    except ValueError as error:
        raise UsageError(f"model: {model!r} {error}.") from None


def _positive(name: str, value: float | None) -> float | None:
    """The number. UsageError: it is not above zero, or text, as a variable of the environment
    is.
    """
    if value is None:
        return None
    if isinstance(value, (int, float)) and 0 < value <= sys.float_info.max:
        return float(value)
    raise UsageError(f"{name} is a number above zero, not {repr(value)[:SHOWN_CHARACTERS]}.")


def _selection(revision: str | None, staged: bool, commit: str | None) -> Selection:
    for name, value in (("revision", revision), ("commit", commit)):
        if value == "":
            raise UsageError(f"{name} is empty; leave it out, or name one.")
    as_range = f"give it as the revision: {commit!r}."
    spelling = Spelling(f"revision={revision!r}", "staged=True", f"commit={commit!r}", as_range)
    return selected(revision, staged, commit, spelling)
