"""Answer the questions of one review: by what was answered before, else by asking (`judging.asking`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic_core import ValidationError

from vibe_gate.domain.context import RunContext
from vibe_gate.domain.verdict import NO_KEY, NOT_NOW
from vibe_gate.gateway import find_upstream, wire_from
from vibe_gate.judging.answers import JudgeResult
from vibe_gate.judging.questions import JudgeContext, RubricBrief, RubricQuestion, RubricVotes

if TYPE_CHECKING:
    from vibe_gate.judging.asking import Asked
    from vibe_gate.store.state import AnswerCache

POLL_S = 0.1
"""Between two looks whether another review has its answer."""

ADVICE = (
    "No API key: {count} judge questions skipped. Set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or "
    "CLAUDE_CODE_OAUTH_TOKEN (or ANTHROPIC_BASE_URL for a local model), or use --no-judge."
)


async def judge(context: JudgeContext, tell: Callable[[str], None]) -> JudgeResult:
    """Ask the judge criteria of the rubrics about the change, unless the same was asked before.

    The same: about the same trees, or about others if the judge was shown the same then and looked at nothing else. If
    another review asks it at this moment, its answer is waited for. `tell` hears of that, and what is asked.
    Raises GatewayError for a wire that is set up wrongly (a cassette that is not there).
    """
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
    if reads:  # whoever is answered need not wait for another who asks
        known |= _known(context, (), briefs)
        briefs = [each for each in briefs if each.question.key not in known]
    async with _claimed(answers, [each.key for each in briefs] if reads and not request.answered else [], run, tell):
        if reads:
            known |= _known(context, missing, briefs)
            briefs = [each for each in briefs if each.question.key not in known]
        if not briefs:
            return _result(questions, known)
        if request.answered:
            return _result(questions, known)._replace(silence=NOT_NOW)
        tell(f"asking about {', '.join(dict.fromkeys(each.question.rubric.id for each in briefs))}")
        from vibe_gate.judging.asking import ask  # the gateway and agents: what is known needs neither

        asked = await ask(context, briefs, wire, upstream, tell)
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
        import asyncio  # few wait

        tell("another review asks the same just now; waiting for its answer")
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
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


def _keep(answers: AnswerCache, asked: Asked, briefs: Iterable[RubricBrief], context: JudgeContext) -> tuple[str, ...]:
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
