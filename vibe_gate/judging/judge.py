"""Answer the questions of one review: by what was answered before, else by asking (`judging.asking`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain import in_ci
from vibe_gate.domain.bundles import PRIVATE
from vibe_gate.domain.change import Change
from vibe_gate.domain.document import holds_all, plain, read
from vibe_gate.domain.escape import counted
from vibe_gate.domain.verdict import NO_KEY
from vibe_gate.errors import UsageError
from vibe_gate.gateway import Wire
from vibe_gate.git import Repository
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.questions import (
    CastVote,
    RubricBrief,
    RubricQuestion,
    RubricVotes,
    asked_of,
    briefs_of,
    named_keys_of,
    questions_of,
    settled,
)

if TYPE_CHECKING:
    from vibe_gate.context.model_access import ModelAccess
    from vibe_gate.judging.asking import CastVotes

POLL_S = 0.1
"""Between two looks whether another review has its answer."""

MANY_CONVERSATIONS, MANY_USD = 10, 1.0
"""More than this is said before it is paid."""

NO_CASSETTE = (
    "A cassette would keep what an agent was asked for, which stays in this clone: review without "
    "--wire record, or name rubrics that do not see prompts with --rubric."
)

ADVICE = (
    "No API key: {questions} skipped. Set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or "
    "CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL for a local model), or use --no-judge."
)


async def judge(
    request: ReviewRequest,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
    model: ModelAccess,
) -> Answers:
    """Ask the judge criteria of the rubrics about the change, unless the same was asked before.

    The same: about the same trees, or about others if the judge was shown the same then and looked at nothing else. If
    another review asks it at this moment, its answer is waited for. `tell` hears of that, and what is asked. `model` is
    opened if something is asked.
    Raises GatewayError for a wire that is set up wrongly (a cassette that is not there), UsageError if a cassette would
    keep what stays in this clone.
    """
    questions = questions_of(facts, facts.gate.default_model(run.environ))
    if model.wire.mode == "record" and any(each.is_private for each in questions):
        raise UsageError(NO_CASSETTE)
    run.record.describe(shown=_prompts_in(questions))
    kept = _KeptVotes(facts.change, repository, run, model.wire, force=request.force)
    known = kept.known(questions)
    missing = [question for question in questions if question.key not in known]
    if not missing:
        return _answers(questions, known)
    if not model.can_answer:
        answers = _answers(questions, known)
        return _without_key(answers, missing, facts, optional=_is_optional(facts, run))
    with run.deadline.interrupting():
        briefs = briefs_of(missing, facts, repository)
    known |= kept.known((), briefs)
    briefs = _unanswered(briefs, known)
    if why := request.mode.why_nothing_new:
        return replace(_answers(questions, known), silence=why if briefs else "")
    if not briefs:  # no need to wait for another review that asks
        return _answers(questions, known)
    private = [each.key for each in briefs if each.question.is_private]
    async with claimed([each.key for each in briefs] if kept.reads else [], run, tell, private):
        known |= kept.known(missing, briefs)  # what another review was answered meanwhile
        if not (briefs := _unanswered(briefs, known)):
            return _answers(questions, known)
        told = most_of(briefs, kept.cast, request.budget_in(facts.gate).max_cost_usd) if kept.writes else ""
        tell(f"asking about {', '.join(dict.fromkeys(each.question.rubric.id for each in briefs))}{told}")
        from vibe_gate.judging.asking import ask  # agents: what is known needs none

        asked = await ask(briefs, kept.cast, facts, repository, run, model, tell)
        notes = kept.keep(asked, briefs)
    return _with_new(questions, known, asked, notes, final=kept.writes and asked.intact)


def _prompts_in(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """What run.json says if a judge is shown what people asked for: whether that stays in this clone."""
    shown = [claim for each in questions for claim in each.claims if claim.kind == "prompt"]
    return {claim.kind: PRIVATE if claim.is_private else "shared" for claim in shown}


def _unanswered(briefs: Iterable[RubricBrief], known: Mapping[str, RubricVotes]) -> list[RubricBrief]:
    return [each for each in briefs if each.question.key not in known]


def most_of(briefs: Iterable[RubricBrief], kept: Mapping[str, Mapping[int, CastVote]], limit_usd: float) -> str:
    """`: at most N conversations, at most $X`, if it may be many or dear, else "".

    `limit_usd` is the run's budget, which nothing passes. `kept`: by key of the question and number, what is not asked.
    """
    wanted = [(each.question, len(each.parts)) for each in briefs]
    most = sum(parts * (each.rubric.votes - len(kept.get(each.key, {}))) for each, parts in wanted)
    if most <= MANY_CONVERSATIONS and limit_usd <= MANY_USD:
        return ""
    looks = any(each.rubric.second_look != "never" for each, _ in wanted)
    more = " and a second look at each fail" if looks else ""
    return f": at most {counted(most, 'conversation')}{more}, at most ${limit_usd:.2f}"


def _is_optional(facts: Facts, run: RunContext) -> bool:
    """Whether nobody demanded the answers (the built-in gate outside CI): without a key they are left out."""
    return facts.gate.origin == "built-in" and not in_ci(run.environ)


def _without_key(answers: Answers, missing: Iterable[RubricQuestion], facts: Facts, *, optional: bool) -> Answers:
    """The answers, and that the rest is not asked for want of a key."""
    counts: dict[str, int] = {}
    for question in missing:
        counts[question.rubric.id] = len(facts.judge_questions(question.rubric))
    advice = ADVICE.format(questions=counted(sum(counts.values()), "judge question"))
    return replace(answers, silence=NO_KEY, chosen=optional, notes=() if optional else (advice,))


@asynccontextmanager
async def claimed(
    keys: list[str], run: RunContext, tell: Callable[[str], object], private: Collection[str] = ()
) -> AsyncIterator[None]:
    """Be the only one who asks what these keys show, as far as that can be had in half of the time that is left.

    The other half is enough to ask after all if the other review gets stuck. Other machines hear nothing of `private`
    keys.
    """
    answers, latest = run.state.answers, run.deadline.left() / 2
    held = not keys or answers.claim(keys, run.deadline.left(), private)
    if not held:
        import asyncio  # few wait

        tell("another review asks the same just now; waiting for its answer")
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    while not held and run.deadline.left() > latest:
        await asyncio.sleep(POLL_S)
        held = answers.claim(keys, run.deadline.left(), private)
    try:
        yield
    finally:
        if held:
            answers.release(keys)


def _vote_keys(questions: Iterable[RubricQuestion], briefs: Iterable[RubricBrief]) -> Iterator[str]:
    """The keys under which others may keep votes on these."""
    asked = [*((one, one.about) for one in questions), *((each.question, (each.about,)) for each in briefs)]
    for question, about in ((one, about) for one, about in asked if not one.is_private):
        for number in range(1, question.rubric.votes + 1):
            yield from question.vote_keys(number, about).values()


class _KeptVotes:
    """The votes on a change's questions that this machine keeps, for a review in this repository.

    A recording must hold the conversation and a replay must show it: neither uses what is kept. With `force` nothing is
    taken, only kept. `cast` are those that were found, by key of the question and number.
    """

    def __init__(self, change: Change, repository: Repository, run: RunContext, wire: Wire, *, force: bool) -> None:
        self.writes = wire.mode == "live"
        self.reads = self.writes and not force
        self.cast: dict[str, dict[int, CastVote]] = {}
        self._change = change
        self._read = cache(repository.read)
        self._run = run

    def known(self, questions: Iterable[RubricQuestion], briefs: Iterable[RubricBrief] = ()) -> dict[str, RubricVotes]:
        """By key of the question, the answers that votes settle: about the same trees, or without tools to a brief."""
        if not self.reads:
            return {}
        questions, briefs, now = list(questions), list(briefs), self._run.clock()
        self._run.state.answers.fetch(_vote_keys(questions, briefs), now)
        for question in questions:
            self._look_up(question, question.about, now)
        for each in briefs:
            self._look_up(each.question, (each.about,), now, each)
        asked = {each.key: each for each in (*questions, *(one.question for one in briefs))}
        answers = {key: self._settled(question) for key, question in asked.items()}
        return {key: votes for key, votes in answers.items() if votes}

    def _settled(self, question: RubricQuestion) -> RubricVotes | None:
        asked = asked_of(question, self._change)
        return settled(asked, question.rubric.votes, self.cast.get(question.key, {}))

    def _look_up(
        self, question: RubricQuestion, about: Sequence[str], now: datetime, shown: RubricBrief | None = None
    ) -> None:
        """Take the kept votes on a question; what they say about the trees comes before what they say of a brief."""
        found = self.cast.setdefault(question.key, {})
        for number in range(1, question.rubric.votes + 1):
            kept = filter(None, (self._vote(*one, now) for one in question.vote_keys(number, about).items()))
            if (vote := next(kept, None)) and (shown is None or shown.supports(vote, self._read)):
                found[number] = vote.joined(found[number]) if number in found else vote

    def _vote(self, model: str, key: str, now: datetime) -> CastVote | None:
        answer = self._run.state.answers.get(key, now)
        with suppress(ValueError):  # written by another version, or by someone else: a miss
            vote = None if answer is None else read(CastVote, answer)
            return vote if vote and vote.model == model and holds_all(vote, answer) else None
        return None

    def keep(self, asked: CastVotes, briefs: Iterable[RubricBrief]) -> tuple[str, ...]:
        """Keep the votes for later reviews; what could not be kept comes back as a sentence."""
        if not self.writes or not asked.intact:
            return ()
        run, now, problem = self._run, self._run.clock(), ""
        for each in briefs:
            for number, cast in asked.cast[each.question.key].items():
                vote = cast.kept_in(run.record.relative)
                if earlier := self.cast.get(each.question.key, {}).get(number):
                    vote = earlier.joined(vote)
                if vote.by_criterion:
                    problem = self._put(each, number, vote, now) or problem
        run.state.answers.prune(now)
        return (
            (f"The answers are kept nowhere, so the same question is paid for again ({problem}).",) if problem else ()
        )

    def _put(self, shown: RubricBrief, number: int, vote: CastVote, now: datetime) -> str:
        entry = self._run.redactor.value(plain(vote))
        abouts = [shown.question.about] if vote.used_tools else [shown.question.about, (shown.about,)]
        keys = [shown.question.vote_keys(number, about)[vote.model] for about in abouts]
        private = shown.question.is_private
        problems = [self._run.state.answers.put(key, entry, now, private=private) for key in keys]
        return next(filter(None, problems), "")


def _with_new(
    questions: tuple[RubricQuestion, ...],
    known: Mapping[str, RubricVotes],
    asked: CastVotes,
    notes: tuple[str, ...],
    *,
    final: bool,
) -> Answers:
    """Known and new answers. Only `final` ones have their keys named, for the receipt."""
    answers = replace(
        _answers(questions, known, asked.by_key), cost=asked.cost, notes=(*notes, *asked.notes), intact=asked.intact
    )
    keys = named_keys_of(questions)
    named = {name: keys[name] for name in answers.answered_now if name in keys}
    return replace(answers, questions=named) if final else answers


def _answers(
    questions: tuple[RubricQuestion, ...],
    known: Mapping[str, RubricVotes],
    new: Mapping[str, RubricVotes] = MappingProxyType({}),
) -> Answers:
    """The votes by rubric, only of rubrics whose questions are all answered, by earlier runs or by this one."""
    by_rubric: dict[str, list[str]] = {}
    for question in questions:
        by_rubric.setdefault(question.rubric.id, []).append(question.key)
    votes = {**known, **new}
    complete = {name: keys for name, keys in by_rubric.items() if all(key in votes for key in keys)}
    return Answers(
        by_rubric={name: tuple(votes[key] for key in keys) for name, keys in complete.items()},
        cached=frozenset(name for name, keys in complete.items() if any(votes[key].is_kept for key in keys)),
        asked=frozenset(name for name, keys in complete.items() if not new.keys().isdisjoint(keys)),
    )
