"""Votes: briefs out, answers in, evidence checked, votes counted.

For every question the change is cut into parts (`judging.brief`). A vote asks each part in a
conversation of its own and takes the worst answer; votes go on until no further one can change an
outcome. What could not be asked is said: a part whose conversation gave no answer is listed as
unreviewed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, Struct, convert
from msgspec.structs import replace

from vibe_gate.agent import TurnRequest
from vibe_gate.context.facts import Facts
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.cause import (
    ApiUnavailable,
    Cause,
    Misfit,
    NoConversation,
    PartNotAsked,
    Unanswered,
)
from vibe_gate.domain.change import Change, FileVersion
from vibe_gate.domain.escape import ended, show_text
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Outcome, Vote, short
from vibe_gate.domain.wire import EndKind, TurnResult
from vibe_gate.gate.prompts import requests_of
from vibe_gate.judging import brief
from vibe_gate.judging.brief import BriefPart
from vibe_gate.judging.cast_vote import CastVote, RubricVotes, count_votes
from vibe_gate.judging.evidence import quote_in_change
from vibe_gate.judging.proving import Prover
from vibe_gate.judging.questions import TOOLS
from vibe_gate.judging.reading import Reading, read_answers, write_objection
from vibe_gate.judging.repeats import leave_out_repeats
from vibe_gate.judging.rubric_brief import RubricBrief
from vibe_gate.judging.vote_counting import check_vote, combine_parts, settle_votes

T = TypeVar("T")

TREES = "trees"
"""The judges' working directory: `after`, the whole tree after the change, and `before`, the
changed files before.
"""

FALLBACK_AFTER_S = 30.0
"""How long an overloaded model is waited for before the rubric's fallback is asked."""

_STOPPING = frozenset({"broken", "limit"})
"""Ends of a conversation after which no further one is held."""


class VoteContext(Struct, frozen=True):
    """What every conversation of the run's judges shares.

    `folder` holds what judges may read (`trees`, with `after` and `before` in it) and the agents'
    homes; `read` gives the content of a side. `prover` runs the tests that fails bring; None if
    none are asked for.
    """

    facts: Facts
    run: RunContext
    model: ModelAccess
    read: Callable[[FileVersion], bytes]
    folder: Path
    prover: Prover | None = None


class _Reply(Struct, frozen=True):
    kind: EndKind | None  # None: it was not asked
    cause: Cause | None  # why there is no answer
    votes: dict[str, Vote]
    model: str = ""
    used_tools: bool = False


class NewVotes(Struct, frozen=True):
    """The answer to a question, and of its votes, by number, what this run's conversations said."""

    votes: RubricVotes
    cast: Mapping[int, CastVote]


async def cast_votes(
    shown: RubricBrief, kept: Mapping[int, CastVote], context: VoteContext
) -> NewVotes:
    """Ask a rubric's judge criteria about the change, vote by vote, until their outcomes are
    settled.

    `kept`: by number, the votes that earlier runs cast. Only what they leave open is asked.
    """
    rubric, parts, nodes = shown.question.rubric, shown.parts, _add_nodes(shown, context)
    asked = dict.fromkeys(criterion.id for part in parts for criterion in part.criteria)
    known = {name for vote in kept.values() for name in vote.by_criterion}
    unanswered: dict[int, Cause] = {}
    for index, part in enumerate(parts):
        if not known.issuperset(criterion.id for criterion in part.criteria):
            unanswered[index] = PartNotAsked()
    cast, new = dict(kept), dict[int, CastVote]()
    stopped: Cause | None = None
    while not stopped and (wanted := _wanted(asked, rubric.votes, cast)):
        rounds = [
            _ask_all(shown, number, names, nodes, context) for number, names in wanted.items()
        ]
        for (number, names), replies in zip(wanted.items(), await together(rounds), strict=True):
            vote = _cast(names, replies, shown)
            new[number] = new[number].join(vote) if number in new else vote
            cast[number] = cast[number].join(vote) if number in cast else vote
            _note_answered(unanswered, replies)
            for reply in replies:
                if stopped is None and reply.kind in _STOPPING:
                    stopped = reply.cause
    missing = [
        item for index, cause in unanswered.items() for item in _unreviewed(parts[index], cause)
    ]
    votes = RubricVotes(
        by_criterion=count_votes(asked, rubric.votes, cast),
        stopped=stopped,
        unreviewed=tuple(dict.fromkeys((*shown.unshown, *missing))),
        is_kept=bool(kept),
    )
    return NewVotes(votes, new)


def _wanted(
    asked: Iterable[str], planned: int, cast: Mapping[int, CastVote]
) -> dict[int, set[str]]:
    """By number, the votes to be cast now, each on the criteria that are open. {}: every outcome is
    settled.

    Fewer votes than more than half settle nothing, so that many are cast side by side, then one at
    a time.
    """
    wanted: dict[int, set[str]] = {}
    for name, votes in count_votes(asked, planned, cast).items():
        if settle_votes(votes, planned) is None:
            first = len(votes) + 1
            for number in range(first, max(first, planned // 2 + 1) + 1):
                if number not in cast or name not in cast[number].by_criterion:
                    wanted.setdefault(number, set()).add(name)
    return wanted


def _cast(names: Iterable[str], replies: Sequence[_Reply], shown: RubricBrief) -> CastVote:
    models = {reply.model for reply in replies if reply.model}
    other = shown.question.rubric.fallback
    return CastVote(
        by_criterion={
            name: combine_parts([reply.votes[name] for reply in replies if name in reply.votes])
            for name in sorted(names)
        },
        model=other if other in models else next(iter(models), ""),
        unreviewed=shown.unshown,
        used_tools=any(reply.used_tools for reply in replies),
    )


def _note_answered(unanswered: dict[int, Cause], replies: Sequence[_Reply]) -> None:
    """Take out the parts that were answered, and note of the others why not."""
    for index, reply in enumerate(replies):
        if reply.kind == "finished":
            unanswered.pop(index, None)
        elif index in unanswered and reply.cause:
            unanswered[index] = reply.cause


def _add_nodes(shown: RubricBrief, context: VoteContext) -> list[str]:
    """Add the graph's nodes of the question, one for each part.

    A rubric that sees claims is asked twice, the first time about no more parts of the change than
    the second: first come the nodes of those without claims, then of those with them.
    """
    rubric, count, facts = shown.question.rubric, len(shown.parts), context.facts
    first = count if shown.question.claims and rubric.knowing(()).judge_criteria else 0
    nodes = [node_id(rubric, first + index, facts.stage) for index in range(count)]
    for node in nodes:
        context.run.record.event("node.added", node, kind="judge", digest=rubric.digest)
        context.run.record.event("edge.added", **{"from": facts.checks_node, "to": node})
    return nodes


def _only(part: BriefPart, names: set[str]) -> BriefPart:
    return replace(
        part, criteria=tuple(criterion for criterion in part.criteria if criterion.id in names)
    )


async def _ask_all(
    shown: RubricBrief, number: int, names: set[str], nodes: list[str], context: VoteContext
) -> list[_Reply]:
    """The replies of one vote's conversations, one for each part."""

    async def ask(part: BriefPart, node: str) -> _Reply:
        if not part.criteria:
            return _Reply(None, None, {})
        async with context.model.slots:
            return await _ask(shown, number, part, node, context)

    parts = (_only(part, names) for part in shown.parts)
    return await together(ask(part, node) for part, node in zip(parts, nodes, strict=True))


async def together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first error ends the others and is raised itself: faces know no
    groups.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return [task.result() for task in tasks]


def node_id(rubric: Rubric, index: int, stage: str = "") -> str:
    """`judge-<rubric>`, or `<stage>-<rubric>`, then -b, -c ... for the further parts of a large
    change.
    """
    return f"{stage or 'judge'}-{rubric.id}{repeat_suffix(index)}"


async def _ask(
    shown: RubricBrief, number: int, part: BriefPart, node: str, context: VoteContext
) -> _Reply:
    """Hold one conversation: with the model whose turn it is, or with the fallback if that does not
    answer.
    """
    question, hold = shown.question, partial(_hold, shown, number, part, node, context)
    end, name = await with_fallback(
        hold,
        question.model_of(number),
        question.rubric.fallback,
        context.model,
        context.run.redactor.text,
    )
    return _discreet(await _reply_of(part, end, name, shown.change, context), shown)


def _discreet(reply: _Reply, shown: RubricBrief) -> _Reply:
    """The reply without what it repeats of what people asked the agent for: answers go where that
    may not.
    """
    private = [
        one
        for claim in shown.question.claims
        if claim.kind == "prompt"
        for one in requests_of(claim.text)
    ]
    if not private:
        return reply

    def own(text: str) -> str:
        return leave_out_repeats(text, private, shown.texts)

    def own_line(line: CheckedEvidence) -> CheckedEvidence:
        # A line that stands in the change is the change's.
        return (
            replace(line, quote=own(line.quote), path=own(line.path))
            if line.standing == "void"
            else line
        )

    def own_cause(cause: Cause | None) -> Cause | None:
        if isinstance(cause, NoConversation | ApiUnavailable):
            return replace(cause, message=own(cause.message), details=own(cause.details))
        return (
            replace(cause, details=own(cause.details)) if isinstance(cause, Unanswered) else cause
        )

    votes = {
        name: replace(
            vote,
            reason=short(own(vote.reason)),
            counterexample=vote.counterexample and short(own(vote.counterexample)),
            changes=short(own(vote.changes)),
            evidence=tuple(map(own_line, vote.evidence)),
            cause=own_cause(vote.cause or None) or UNSET,
        )
        for name, vote in reply.votes.items()
    }
    return replace(reply, votes=votes, cause=own_cause(reply.cause))


async def with_fallback(
    hold: Callable[[str, float], Coroutine[Any, Any, TurnResult]],
    name: str,
    other: str | None,
    model: ModelAccess,
    redact: Callable[[str], str],
) -> tuple[TurnResult, str]:
    """How a conversation with the model `name` ended, or with `other` if that one stays overloaded
    or is not there.

    `hold` takes a model's name and how many seconds an overloaded one is waited for. Returns whose
    answer it is, too.
    """
    if other is None or name not in model.unavailable:
        end = await hold(name, math.inf if other in (None, name) else FALLBACK_AFTER_S)
        if other is None or other == name or not end.is_unavailable:
            return end, name
        model.unavailable.setdefault(name, redact(end.detail))
    model.replacements.add((name, other))
    return await hold(other, math.inf), other


async def _hold(
    shown: RubricBrief,
    number: int,
    part: BriefPart,
    node: str,
    context: VoteContext,
    name: str,
    patience_s: float,
) -> TurnResult:
    model = context.model
    turn = TurnRequest(
        node=node,
        prompt=shown.prompt(part, model.nonce, number),
        system_prompt=brief.SYSTEM_PROMPT + brief.tests_prompt(shown.question.tests),
        schema=brief.answer_schema(tests=shown.question.tests is not None),
        objection=partial(write_objection, [criterion.id for criterion in part.criteria]),
        folder=context.folder / TREES,
        homes=model.folder,
        tools=TOOLS,
        model=name,
        max_turns=context.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
        timeout_s=context.run.deadline.left(),
        patience_s=patience_s,
    )
    return await model.run_turn(turn)


async def _reply_of(
    part: BriefPart, end: TurnResult, model: str, change: Change, context: VoteContext
) -> _Reply:
    if end.status == "answered":
        reply = await _reply(part, end.answer, change, end.folder, context)
    else:
        cause = context.model.why_unanswered(end)
        reply = _no_answer(part, end.kind, cause, end.folder)
    votes = {name: replace(vote, model=model) for name, vote in reply.votes.items()}
    looked = end.used_tools or any(
        vote.proof is not UNSET for vote in votes.values()
    )  # a test runs all code
    return replace(reply, votes=votes, model=model, used_tools=looked)


def _no_answer(part: BriefPart, kind: EndKind, cause: Cause, turn: str) -> _Reply:
    """No usable answer: error if the infrastructure failed, else an abstention. Never fail, never
    pass.
    """
    outcome: Outcome = "error" if kind == "broken" else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(cause.reason), turn=turn, cause=cause)
    return _Reply(kind, cause, {criterion.id: vote for criterion in part.criteria})


async def _reply(
    part: BriefPart, answer: object, change: Change, turn: str, context: VoteContext
) -> _Reply:
    reading = read_answers([criterion.id for criterion in part.criteria], answer)
    if reading.unfit:
        return _no_answer(part, "unanswered", _misfit(reading.unfit, context), turn)
    votes = {
        criterion.id: _vote(criterion, reading, change, turn, context)
        for criterion in part.criteria
    }
    if context.prover is not None:
        for name, given in reading.answers.items():
            votes[name] = await context.prover.prove(votes[name], given)
    return _Reply("finished", None, votes)


def _misfit(problem: str, context: VoteContext) -> Misfit:
    # The problem can quote the answer; it is redacted before it is cut.
    return Misfit(details=short(show_text(context.run.redactor.text(problem))))


def _vote(
    criterion: Criterion, reading: Reading, change: Change, turn: str, context: VoteContext
) -> Vote:
    if problem := reading.problems.get(criterion.id):
        misfit = _misfit(problem, context)
        return Vote(
            outcome="abstain", said=None, reason=short(misfit.reason), turn=turn, cause=misfit
        )
    answer, redact = reading.answers[criterion.id], context.run.redactor.text
    outcome: Outcome = convert(answer.outcome, Outcome)
    said, is_fail = answer.reason, outcome == "fail"
    if outcome == "abstain" and answer.missing.strip():
        said = f"{ended(answer.reason)} Missing: {ended(answer.missing)}"
    evidence = answer.evidence if is_fail else ()
    return check_vote(
        Vote(
            outcome=outcome,
            said=outcome,
            # Redacted before it is cut: what a limit leaves of a secret may not be known as one any
            # more.
            reason=short(redact(said)),
            counterexample=short(redact(answer.counterexample)) if is_fail else None,
            changes=short(redact(reading.changes)),
            evidence=tuple(
                quote_in_change(criterion, quoted, change, context.read) for quoted in evidence
            ),
            turn=turn,
        )
    )


def _unreviewed(part: BriefPart, cause: Cause) -> list[Unreviewed]:
    return [
        Unreviewed(
            path=paths.quote(piece.path),
            line=piece.line,
            end_line=piece.end_line,
            reason=short(cause.reason),
            cause=cause,
        )
        for piece in part.pieces
    ]
