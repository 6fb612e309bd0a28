"""What Python scripts call, with this process's environment and clock: review, run_workflow, run_agent.

Each takes plain words, with the meaning of the command line's options. A word that cannot be meant is a UsageError,
which names the nearest right one.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Never, ParamSpec, TypeVar

from msgspec.structs import replace

from vibe_gate.agent import Stop
from vibe_gate.context.listeners import Progress, unheard
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import nearest, paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.rubric import model_name
from vibe_gate.domain.tables import SHOWN_CHARACTERS
from vibe_gate.errors import UsageError
from vibe_gate.faces.advice import advising, words_of
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.cli.request import Spelling, base_of_pull_request, selected
from vibe_gate.faces.progress import run as finished
from vibe_gate.report import sentences
from vibe_gate.run import review as review_walk
from vibe_gate.run import walk as workflow_walk
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.execution import AgentExecution
from vibe_gate.run.result import StageResult
from vibe_gate.run.review import Review
from vibe_gate.run.stage_request import Context, Watcher
from vibe_gate.run.workflow import workflow
from vibe_gate.store.result import RunResult

__all__ = [
    "Agent", "AgentExecution", "Review", "WorkflowRun", "review", "review_sync", "run_agent",
    "run_workflow", "workflow",
]  # fmt: skip

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
    **unknown: Never,
) -> Review:
    """Review a change of the repository around `repository` (default: the current folder).

    `revision`: from REV to the working tree, or a range, "A..B" or "A...B"; without it HEAD to the working tree, unless
    `staged` (the index against HEAD) or `commit` (one commit against its first parent) is given. `rubrics`: only
    these, by id. `judge=False`: run checks only. `base`: the trusted base revision, where definitions are read;
    `definitions`: read them at this revision, or from disk ("worktree"). US dollars and seconds; None takes the
    gate's own. `progress(stage, text)` hears what is done. `environ`: in place of this process's, for tests.
    Raises GateError: UsageError and its kinds for what cannot be understood, GatewayError for a wire that is set up
    wrongly. A model that cannot be reached is no error but an outcome.
    """
    _refuse(unknown, review)
    _check_words(revision=revision, commit=commit, base=base, definitions=definitions)
    _check_flags(staged=staged, judge=judge)
    known = _environ(environ)
    request = ReviewRequest(
        _selected(revision, staged, commit),
        rubrics=_ids(rubrics),
        judge="if checks pass" if judge else "never",
        base=base or base_of_pull_request(known),
        definitions=definitions,
        max_cost_usd=_positive("max_cost_usd", max_cost_usd),
        deadline_s=_positive("deadline_s", deadline_s),
    )
    start = _folder("repository", repository)
    heard = _callable("progress", progress) or unheard
    with _advising(request, start, known):
        found = await review_walk.review(request, start=start, environ=known, clock=now, progress=heard)
    found = await _shared(found)
    return replace(found, notes=(*_unasked(found), *found.notes))


async def _shared(found: Review) -> Review:
    """The review, its run uploaded to the shared store if there is one, with notes about what failed."""
    failed = await asyncio.to_thread(found.unshared.upload) if found.unshared else ()
    return replace(found, notes=(*found.notes, *failed), unshared=None)


def _unasked(found: Review) -> tuple[str, ...]:
    """The note that a key is missing, if a review passed without the questions that need one."""
    left = found.summary.unasked
    if not left or not isinstance(left[0].cause, NoKey):
        return sentences.key_advice(found.summary)
    questions = counted(len(left), "question")
    return (f"{questions} {left[0].reason}. Set ANTHROPIC_API_KEY and review again to ask them.",)


def _blocking(walk: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @wraps(walk)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            name = walk.__name__
            raise UsageError(f"{name}_sync cannot wait inside of a running event loop: await vibe_gate.{name} there.")
        return finished(walk(*args, **kwargs))

    run.__name__ = run.__qualname__ = f"{walk.__name__}_sync"
    return run


review_sync = _blocking(review)
"""`review`, where no event loop runs."""


async def run_workflow(
    workflow: str,
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
    **unknown: Never,
) -> WorkflowRun:
    """Run the workflow of this id about a change, which is named as for `review`.

    `model`: of all agents that name none. `apply`: put what the agents changed into the working tree, if the run
    passes; otherwise it is in the patch alone. The rest, and what is raised, as of `review`.
    """
    _refuse(unknown, run_workflow)
    _check_words(workflow=workflow, revision=revision, base=base, definitions=definitions)
    _check_flags(staged=staged, apply=apply)
    known, start = _environ(environ), _folder("repository", repository)
    asked = ReviewRequest(
        _selected(revision, staged, None),
        base=base or base_of_pull_request(known),
        definitions=definitions,
        max_cost_usd=_positive("max_cost_usd", max_cost_usd),
        deadline_s=_positive("deadline_s", deadline_s),
    )
    request = workflow_walk.RunRequest(review=asked, workflow=workflow, model=_model(model), apply=apply)
    heard = _callable("progress", progress) or unheard
    with _advising(asked, start, known):
        done = await workflow_walk.run_workflow(request, start=start, environ=known, clock=now, progress=heard)
    return replace(done, review=await _shared(done.review))


def run_agent(
    agent: Agent | str,
    prompt: str,
    *,
    context: Context = (),
    workspace: Path | str | None = None,
    resume: str | None = None,
    schema: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    **unknown: Never,
) -> AgentExecution:
    """Start an agent at once, as a run of its own; await what comes back for its turn's RunResult.

    `agent`: an Agent, or the id of one of the gate. `context`: results whose last message, todos and patch are handed
    over. `workspace`: a folder of the repository to work on (default: the current one); its files are not touched, the
    agent has a clone. `resume`: the session to go on with, by its id or an unambiguous beginning. `schema`: the JSON
    schema of an answer. USD and seconds; None takes the agent's own, then the gate's.
    """
    _refuse(unknown, run_agent)
    _check_words(prompt=prompt, resume=resume, **({} if isinstance(agent, Agent) else {"agent": agent}))
    if schema is not None and not isinstance(schema, Mapping):
        raise UsageError(f"schema is a JSON schema as a mapping, not {schema!r}.")
    results = _results(context)
    limit_usd, limit_s = _positive("max_cost_usd", max_cost_usd), _positive("timeout_s", timeout_s)
    start, environ = _folder("workspace", workspace), dict(os.environ)

    async def begin(watchers: Sequence[Watcher], stop: Stop) -> WorkflowRun:
        plan = workflow_walk.one_agent(
            agent, prompt, context=results, resume=resume or "", schema=schema, timeout_s=limit_s,
            max_cost_usd=limit_usd, watchers=watchers, stop=stop,
        )  # fmt: skip
        review = ReviewRequest(Selection("worktree"), max_cost_usd=limit_usd, deadline_s=limit_s)
        request = workflow_walk.RunRequest(review=review, plan=plan)
        return await workflow_walk.run_workflow(request, start=start, environ=environ, clock=now, progress=unheard)

    return AgentExecution(begin)


# What cannot be meant


def _refuse(unknown: Iterable[str], function: Callable[..., object]) -> None:
    """UsageError for the first of the unknown words, with the nearest that the function takes."""
    for word in unknown:
        near = _nearest_word(word, [name for name in function.__annotations__ if name not in ("return", "unknown")])
        advice = f"; did you mean {near!r}?" if near else "."
        raise UsageError(f"{function.__name__} takes no {word!r}{advice}")


def _nearest_word(word: str, known: Sequence[str]) -> str:
    """The word that `word` is the beginning of, else the one most like it; "" if none is near."""
    beginning = [name for name in known if name.startswith(word)]
    return beginning[0] if len(beginning) == 1 else nearest(word, known)


def _folder(name: str, named: object) -> Path:
    if named is None:
        return Path.cwd()
    if not isinstance(named, (Path, str)) or not str(named):
        raise UsageError(f"{name} is the path of a folder, not {named!r}.")
    folder = Path(named)
    try:
        found = stat.S_ISDIR(folder.stat().st_mode)
    except (OSError, ValueError):  # a name that is too long, half a surrogate pair
        found = False
    if not found:
        raise UsageError(f"There is no folder {paths.quote(str(folder)[:SHOWN_CHARACTERS])}.")
    return folder


def _environ(given: object) -> dict[str, str]:
    if given is None:
        return dict(os.environ)
    if not isinstance(given, Mapping):
        raise UsageError(f"environ is a mapping of names to values, not {given!r}.")
    return dict(given)


def _results(context: object) -> Sequence[StageResult | RunResult]:
    results = context if isinstance(context, (list, tuple)) else (context,)
    for one in results:
        if not isinstance(one, (StageResult, RunResult)):
            raise UsageError(f"context is what stages or agents gave, not {str(one)[:SHOWN_CHARACTERS]!r}.")
    return results


def _check_words(**words: object) -> None:
    for name, word in words.items():
        if word is not None:
            _check_word(name, word)


def _check_word(name: str, word: object) -> None:
    if not isinstance(word, str):
        raise UsageError(f"{name} is text, not {word!r}.")
    if not word:
        raise UsageError(f"{name} is empty; leave it out, or name one.")
    if not word.isascii() and word.encode(errors="replace").decode() != word:
        raise UsageError(f"{name} has half of a surrogate pair, which is no text.")


def _check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise UsageError(f"{name} is True or False, not {flag!r}.")


def _callable(name: str, given: T) -> T:
    if given is not None and not callable(given):
        raise UsageError(f"{name} is a function that takes a stage and a text, not {given!r}.")
    return given


def _ids(rubrics: object) -> tuple[str, ...]:
    if isinstance(rubrics, str) or not isinstance(rubrics, Iterable):
        raise UsageError(f"rubrics is a list of ids: rubrics=[{rubrics!r}].")
    ids = tuple(rubrics)
    for one in ids:
        if not isinstance(one, str):
            raise UsageError(f"rubrics is a list of ids, which are text; {one!r} is not.")
        _check_word("rubrics", one)
    return tuple(dict.fromkeys(ids))


def _model(model: str | None) -> str | None:
    _check_words(model=model)
    try:
        return None if model is None else model_name(model)
    except ValueError as error:
        raise UsageError(f"model: {model!r} {error}.") from None


def _positive(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise UsageError(f"{name} is a number above zero, not {repr(value)[:SHOWN_CHARACTERS]}.")
    return float(value)


def _selected(revision: str | None, staged: bool, commit: str | None) -> Selection:
    as_range = f"give it as the revision: {commit!r}."
    spelling = Spelling(f"revision={revision!r}", "staged=True", f"commit={commit!r}", as_range)
    return selected(revision, staged, commit, spelling)


def _advising(request: ReviewRequest, start: Path, environ: Mapping[str, str]) -> AbstractContextManager[None]:
    return advising(words_of(request), start, environ, _INSTEAD)
