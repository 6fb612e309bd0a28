"""Run the judges of one review: look up what was answered before, export the tree, start the gateway, ask, and verify
that the tree did not change. A verdict about something that is not there any more is no verdict.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic_core import ValidationError

from vibe_gate import __version__
from vibe_gate.agent import load_without_mcp, sdk_version
from vibe_gate.domain import in_ci
from vibe_gate.domain.change import Change, Hunk
from vibe_gate.domain.context import ReviewRequest, ReviewSubject, RunContext
from vibe_gate.domain.gate import Budget
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost, Unreviewed
from vibe_gate.domain.verdict import NO_KEY, NOT_NOW
from vibe_gate.gateway import Gateway, Upstream, Wire, find_upstream, wire_from
from vibe_gate.git import Export, Repository
from vibe_gate.judging import brief
from vibe_gate.judging.assemble import JudgeResult
from vibe_gate.judging.surroundings import surroundings
from vibe_gate.judging.votes import (
    SESSIONS_AT_ONCE,
    TREES,
    RubricBrief,
    RubricQuestion,
    RubricVotes,
    VoteContext,
    cast_votes,
    question_key,
    together,
)

if TYPE_CHECKING:
    from vibe_gate.store.state import AnswerCache

ADVICE = (
    "No API key: {count} judge questions skipped. Set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or "
    "CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL for a local model), or use --no-judge."
)

POLL_S = 0.1
"""Between two looks whether another review has its answer."""


@dataclass(frozen=True, slots=True)
class ModelSession:
    """The way to the model for all that one run asks: its gateway and the limit in USD.

    `folder` is private, for exported trees and agents' homes; `nonce` names the run's fences; `slots` is how many
    conversations run at once; `places` are literals that a cassette must not depend on; `uncounted` says why spending
    could not be added to the day's.
    """

    gateway: Gateway
    folder: Path
    nonce: str
    limit_usd: float
    places: dict[str, str]
    slots: asyncio.Semaphore
    uncounted: set[str] = field(default_factory=set)

    def notes(self) -> Iterator[str]:
        """Sentences for people: requests that the cassette lacks, spending that is not counted."""
        yield from self.gateway.unmatched
        yield from self.gateway.notes
        for why in filter(None, self.uncounted):
            yield f"What was spent is not counted on this day's budget ({why})."


@contextmanager
def model_session(run: RunContext, wire: Wire, upstream: Upstream | None, budget: Budget) -> Iterator[ModelSession]:
    """Open the gateway of a run; what is spent counts on the day's budget. Raises GatewayError."""
    spending, lock = run.state.spending, threading.Lock()

    def count(usd: float, _node_id: str) -> None:
        with lock:
            session.uncounted.add(spending.add(usd, run.record.run_id, run.clock()))

    with tempfile.TemporaryDirectory(prefix="vibe-gate-") as folder:
        earlier = run.record.earlier.cost if run.record.earlier else Cost()
        left = math.inf if budget.per_day_usd is None else max(budget.per_day_usd - spending.spent(run.clock()), 0.0)
        nonce, limit = secrets.token_hex(16), min(budget.max_cost_usd, earlier.usd + left)
        places = {nonce: "{{nonce}}", folder: "{{folder}}"}
        with Gateway(
            upstream, wire, limit, run.redactor.text, placeholders=places, on_settled=count, earlier=earlier
        ) as gateway:
            slots = asyncio.Semaphore(SESSIONS_AT_ONCE)
            session = ModelSession(gateway, Path(folder), nonce, limit, places, slots)
            yield session


OpenSession = Callable[[Wire, Upstream | None], AbstractContextManager[ModelSession]]
"""Gives the session that a workflow's stages share."""


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What judges are asked about, and within which limits.

    `shared` is given by a workflow, whose stages ask through one gateway.
    """

    request: ReviewRequest
    subject: ReviewSubject
    repository: Repository
    run: RunContext
    shared: OpenSession | None = None

    @property
    def model(self) -> str:
        """What is asked where a rubric names none."""
        return self.subject.gate.default_model(self.run.environ)

    @property
    def budget(self) -> Budget:
        """The gate's, with the request's own limit in USD."""
        budget = self.subject.gate.file.budget
        return budget.model_copy(update={"max_cost_usd": self.request.max_cost_usd or budget.max_cost_usd})

    @property
    def optional(self) -> bool:
        """Whether nobody demanded the answers (the built-in gate outside CI): without a key they are left out."""
        return self.subject.gate.origin == "built-in" and not in_ci(self.run.environ)

    def questions(self, sdk: str | None = None) -> tuple[RubricQuestion, ...]:
        """What is asked about the change: of a rubric that sees the message two questions, without it and with it.

        `sdk`: the version of the SDK that asks, if it is not the installed one.
        """
        trees, asked = (self.subject.change.before, self.subject.change.after), []
        for rubric in self.subject.judged:
            seen = self.subject.message if "message" in rubric.sees else ""
            for message in dict.fromkeys(("", seen)):
                asked.append(RubricQuestion(rubric, message, self._key(rubric, message, trees, sdk)))
        return tuple(asked)

    def briefs(self, questions: Iterable[RubricQuestion]) -> list[RubricBrief]:
        """What a judge is shown for each question; rubrics about the same files share what stands around them."""
        around, made = cache(partial(surroundings, self.repository)), []
        for question in questions:
            change = brief.concerned(self.subject.change, question.rubric)
            near = around(change)
            change, hunks, large = self._with_moved_in(change, question.rubric)
            parts, unshown = brief.parts(change, question.rubric, {**near.hunks, **hunks}, question.message)
            shown = RubricBrief(question, change, near, parts, (*unshown, *large), "")
            prompts = [shown.prompt(part, "") for part in parts]  # the nonce is another in every run
            sides = (side for file in change.files for side in (file.before, file.after))
            blobs = [side.blob if side else "" for side in sides]
            made.append(shown._replace(key=self._key(question.rubric, question.message, [*blobs, *prompts])))
        return made

    def _with_moved_in(
        self, change: Change, rubric: Rubric
    ) -> tuple[Change, dict[str, tuple[Hunk, ...]], list[Unreviewed]]:
        """The change with whole files where they move in, by path their hunks, and which are too large for that."""
        files = {file.path: file for file in change.files}
        whole, large = {}, []
        for path, file in files.items():
            if not (file.after and brief.moves_in(file, rubric, self.subject.gate.reach(rubric.id))):
                continue
            if file.after.size > brief.MAX_NEW:
                why = "moved here, and too large to be shown whole"
                large.append(Unreviewed(path=file.shown_path, line=0, end_line=0, reason=why))
            else:
                whole[path] = brief.as_new(file, self.repository.read(file.after))
        hunks = {path: file.hunks for path, file in whole.items()}
        return change._replace(files=tuple({**files, **whole}.values())), hunks, large

    def keys(self, sdk: str | None = None) -> dict[str, str]:
        """By rubric id, the key of both trees of the question that shows the most."""
        return {question.rubric.id: question.key for question in self.questions(sdk)}

    def _key(self, rubric: Rubric, message: str, about: Sequence[str], sdk: str | None = None) -> str:
        return question_key(
            about=about,
            rubric=rubric.digest,
            model=rubric.model or self.model,
            message=message,
            versions={"vibe-gate": __version__, "claude-agent-sdk": sdk_version() if sdk is None else sdk},
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    votes: Mapping[str, RubricVotes]
    cost: Cost
    notes: tuple[str, ...]
    intact: bool


async def judge(context: JudgeContext, tell: Callable[[str], None]) -> JudgeResult:
    """Ask the judge criteria of the rubrics about the change, unless the same was asked before.

    The same: about the same trees, or about others if the judge was shown the same then and looked at nothing else. If
    another review asks it at this moment, its answer is waited for. `tell` hears of that, and what is asked.
    Raises GatewayError for a wire that is set up wrongly (a cassette that is not there).
    """
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    run, request = context.run, context.request
    wire = wire_from(run.environ, request.wire, request.cassette)
    questions = context.questions()
    answers = run.state.answers
    # A recording must hold the conversation and a replay must show it: neither uses what is known.
    reads, writes = wire.mode == "live" and not request.force, wire.mode == "live"
    known = _known(context, questions) if reads else {}
    missing = [question for question in questions if question.key not in known]
    if not missing:
        return _result(questions, known)
    upstream = None if request.answered else find_upstream(run.environ)
    if upstream is None and wire.mode != "replay" and not request.answered:
        count = sum({question.rubric.id: len(question.rubric.judged) for question in missing}.values())
        notes: tuple[str, ...] = () if context.optional else (ADVICE.format(count=count),)
        return _result(questions, known)._replace(silence=NO_KEY, chosen=context.optional, notes=notes)
    with run.deadline.interrupting():
        briefs = context.briefs(missing)
    async with _claimed(answers, [each.key for each in briefs] if reads and not request.answered else [], run, tell):
        if reads:
            known |= _known(context, missing, briefs)
            briefs = [each for each in briefs if each.question.key not in known]
        if not briefs:
            return _result(questions, known)
        if request.answered:
            return _result(questions, known)._replace(silence=NOT_NOW)
        tell(f"asking about {', '.join(dict.fromkeys(each.question.rubric.id for each in briefs))}")
        asked = await _ask(context, briefs, wire, upstream, tell)
        notes = (*_keep(answers, asked, briefs, context), *asked.notes) if writes else asked.notes
    result = _result(questions, known, asked.votes)._replace(cost=asked.cost, notes=notes, intact=asked.intact)
    if not (writes and asked.intact):
        return result
    return result._replace(questions={name: context.keys()[name] for name in result.answered_now})


@asynccontextmanager
async def _claimed(
    answers: AnswerCache, keys: list[str], run: RunContext, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """Be the only one who asks what these keys show, as far as that can be had in half of the time that is left.

    The other half is enough to ask after all if the other review gets stuck.
    """
    latest = run.deadline.left() / 2
    held = not keys or answers.claim(keys)
    if not held:
        tell("another review asks the same just now; waiting for its answer")
    while not held and run.deadline.left() > latest:
        await asyncio.sleep(POLL_S)
        held = answers.claim(keys)
    try:
        yield
    finally:
        if held:
            answers.release(keys)


def _known(
    context: JudgeContext, questions: Iterable[RubricQuestion], briefs: Iterable[RubricBrief] = ()
) -> dict[str, RubricVotes]:
    """By key of the question, what was answered about the same trees, or without tools to one of these briefs."""
    answers, now, read = context.run.state.answers, context.run.clock(), cache(context.repository.read)
    shown = ((each, _kept(answers, each.key, now)) for each in briefs)
    same = {each.question.key: votes for each, votes in shown if votes and each.supports(votes, read)}
    return same | {each.key: votes for each in questions if (votes := _kept(answers, each.key, now))}


def _kept(answers: AnswerCache, key: str, now: datetime) -> RubricVotes | None:
    answer = answers.get(key, now)
    with suppress(ValidationError):  # written by another version, or by someone else: a miss
        return None if answer is None else RubricVotes.model_validate(answer)
    return None


async def _ask(
    context: JudgeContext,
    briefs: Sequence[RubricBrief],
    wire: Wire,
    upstream: Upstream | None,
    tell: Callable[[str], None],
) -> _Asked:
    run = context.run
    shared = context.shared or partial(model_session, run, budget=context.budget)
    if context.request.alone:
        load_without_mcp()
    with shared(wire, upstream) as session:
        session.gateway.on_wait = lambda clause: tell(f"waiting: {clause}")
        folder = session.folder / context.subject.stage
        folder.mkdir(exist_ok=True)
        with run.deadline.interrupting():
            after, before = _export(context, folder / TREES)
        votes_of = VoteContext(context, session, cache(context.repository.read), folder)
        cast = await together(cast_votes(each, votes_of) for each in briefs)
        votes = dict(zip((each.question.key for each in briefs), cast, strict=True))
        with run.deadline.interrupting():
            intact = after.unchanged() and before.unchanged()
        spent = session.gateway.spent()
    if session.gateway.ledger.reached:
        _tell_budget(run, session.limit_usd, spent, votes)
    return _Asked(votes, spent, tuple(session.notes()), intact)


def _export(context: JudgeContext, trees: Path) -> tuple[Export, Export]:
    """The tree after the change, and of that before it the files that the change touches."""
    change, repository = context.subject.change, context.repository
    touched = {file.old_path or file.path for file in change.files if file.before}
    after = repository.export(change.after, trees / "after")
    return after, repository.export(change.before, trees / "before", only=touched)


def _tell_budget(run: RunContext, budget: float, spent: Cost, votes: Mapping[str, RubricVotes]) -> None:
    missing = dict.fromkeys(item for cast in votes.values() if cast.stopped for item in cast.unreviewed)
    not_asked = [{"path": item.path, "line": item.line, "end_line": item.end_line} for item in missing]
    run.record.event("budget.reached", limit_usd=budget, usd=spent.usd, not_asked=not_asked)


def _keep(answers: AnswerCache, asked: _Asked, briefs: Iterable[RubricBrief], context: JudgeContext) -> tuple[str, ...]:
    """Keep the final answers for later reviews; what could not be kept comes back as a sentence."""
    now, problem = context.run.clock(), ""
    for each in briefs:
        votes = asked.votes[each.question.key]
        if asked.intact and votes.is_final:
            entry = context.run.redactor.value(votes.from_bundle(context.run.record.relative).model_dump())
            for key in (each.question.key,) if votes.used_tools else (each.question.key, each.key):
                problem = answers.put(key, entry, now) or problem
    answers.prune(now)
    return (f"The answers are kept nowhere, so the same question is paid for again ({problem}).",) if problem else ()


def _result(
    questions: tuple[RubricQuestion, ...],
    known: Mapping[str, RubricVotes],
    new: Mapping[str, RubricVotes] = MappingProxyType({}),
) -> JudgeResult:
    """The votes by rubric, only of rubrics whose questions are all answered, by earlier runs or by this one."""
    by_rubric: dict[str, list[str]] = {}
    for question in questions:
        by_rubric.setdefault(question.rubric.id, []).append(question.key)
    votes = {**known, **new}
    complete = {name: keys for name, keys in by_rubric.items() if all(key in votes for key in keys)}
    return JudgeResult(
        votes={name: tuple(votes[key] for key in keys) for name, keys in complete.items()},
        cached=frozenset(name for name, keys in complete.items() if not new.keys() >= {*keys}),
        asked=frozenset(name for name, keys in complete.items() if not new.keys().isdisjoint(keys)),
    )
