"""Cast votes: briefs out, answers in, evidence checked, votes counted.

For every question the change is cut into parts (`judging.brief`). A vote asks each part in a
conversation of its own and takes the worst answer; votes go on until no further one can change an
outcome. What could not be asked is said: a part whose conversation gave no answer is listed as
unreviewed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
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
from vibe_gate.domain.change import Change, FileVersion, Side
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import end_sentence, show_text
from vibe_gate.domain.event import NodeConfig
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import (
    MAX_GROUNDS,
    MAX_REASON,
    CheckedEvidence,
    Defect,
    Outcome,
    Vote,
    short,
)
from vibe_gate.domain.wire import EndKind, TurnResult
from vibe_gate.gate.prompts import requests_of
from vibe_gate.gate.session_records import words_in
from vibe_gate.judging.brief import (
    SYSTEM_PROMPT,
    BriefPart,
    FindingAnswer,
    QuotedLine,
    build_answer_schema,
    write_tests_prompt,
)
from vibe_gate.judging.cast_vote import (
    CastVote,
    RubricVotes,
    addressed_lines,
    count_votes,
)
from vibe_gate.judging.evidence import (
    NO_WORDS,
    quote_in_change,
    quote_in_files,
    quote_in_trees,
    quote_in_words,
)
from vibe_gate.judging.proving import Prover
from vibe_gate.judging.questions import TOOLS
from vibe_gate.judging.reading import Reading, read_answers, write_objection
from vibe_gate.judging.repeats import leave_out_repeats
from vibe_gate.judging.rubric_brief import RubricBrief
from vibe_gate.judging.vote_counting import check_vote, combine_parts, settle_votes

T = TypeVar("T")

FALLBACK_AFTER_S = 30.0
"""How long an overloaded model is waited for before the rubric's fallback is asked."""

_STOPPING = frozenset({"broken", "limit"})
"""Ends of a conversation after which no further one is held."""


class VoteContext(Struct, frozen=True):
    """What every conversation of the run's judges shares."""

    facts: Facts

    run: RunContext

    model: ModelAccess

    read: Callable[[FileVersion], bytes]
    """The content of a side."""

    read_tree: Mapping[Side, Callable[[str], bytes | None]]
    """The content at a path of the tree on a side; None without a file."""

    folder: Path
    """The judges' working directory, with `after` and `before` in it."""

    prover: Prover | None = None
    """Runs the tests that fails bring; None if none are asked for."""


class _Reply(Struct, frozen=True):
    """What one conversation about a part came to."""

    kind: EndKind | None
    """How it ended; None if nothing was asked."""

    cause: Cause | None
    """Why there is no answer."""

    votes: dict[str, Vote]
    """By criterion id."""

    model: str = ""
    """The language model that answered."""

    addressed: tuple[CheckedEvidence, ...] = ()
    """Changed lines that speak to the reviewer."""

    used_tools: bool = False
    """Whether the judge looked beyond its brief."""


class NewVotes(Struct, frozen=True):
    """What a question came to."""

    votes: RubricVotes
    """The answer."""

    cast: Mapping[int, CastVote]
    """Of its votes, by number, what this run's conversations said."""


async def cast_votes(
    brief: RubricBrief, kept_votes: Mapping[int, CastVote], context: VoteContext
) -> NewVotes:
    """Ask a rubric's judge criteria about the change, vote by vote, until their outcomes are
    settled.

    `kept_votes`: by number, the votes that earlier runs cast. Only what they leave open is asked.
    """
    planned = brief.question.rubric.votes
    nodes = _add_nodes(brief, context)
    criterion_ids = _asked_ids(brief.parts)
    unanswered = _unanswered_parts(brief.parts, kept_votes)
    all_votes = dict(kept_votes)
    new_votes: dict[int, CastVote] = {}
    stopped: Cause | None = None
    while not stopped:
        open_votes = _open_votes(criterion_ids, planned, all_votes)
        if not open_votes:
            break
        all_replies = await together(
            _ask_vote(brief, number, open_ids, nodes, context)
            for number, open_ids in open_votes.items()
        )
        for (number, open_ids), replies in zip(open_votes.items(), all_replies, strict=True):
            vote = _vote_of_replies(open_ids, replies, brief)
            _join_vote(new_votes, number, vote)
            _join_vote(all_votes, number, vote)
            _note_answered(unanswered, replies)
            stopped = stopped or _stopping_cause(replies)
    unreviewed = dict.fromkeys(brief.unshown)
    for index, cause in unanswered.items():
        unreviewed |= dict.fromkeys(_unreviewed(brief.parts[index], cause))
    by_criterion = count_votes(criterion_ids, planned, all_votes)
    votes = RubricVotes(
        by_criterion=by_criterion,
        stopped=stopped,
        unreviewed=tuple(unreviewed),
        addressed=addressed_lines(by_criterion, all_votes),
        is_kept=bool(kept_votes),
    )
    return NewVotes(votes, new_votes)


def _asked_ids(parts: Iterable[BriefPart]) -> list[str]:
    """The criteria that are asked about some part."""
    criterion_ids: dict[str, None] = {}
    for part in parts:
        criterion_ids |= dict.fromkeys(criterion.id for criterion in part.criteria)
    return list(criterion_ids)


def _unanswered_parts(
    parts: Sequence[BriefPart], kept_votes: Mapping[int, CastVote]
) -> dict[int, Cause]:
    """By index, the parts with a criterion on which no kept vote says anything."""
    answered_ids: set[str] = set()
    for vote in kept_votes.values():
        answered_ids.update(vote.by_criterion)
    unanswered: dict[int, Cause] = {}
    for index, part in enumerate(parts):
        if not answered_ids.issuperset(criterion.id for criterion in part.criteria):
            unanswered[index] = PartNotAsked()
    return unanswered


def _join_vote(votes: dict[int, CastVote], number: int, vote: CastVote) -> None:
    """Add the vote to what the vote of that number says already."""
    votes[number] = votes[number].join(vote) if number in votes else vote


def _stopping_cause(replies: Iterable[_Reply]) -> Cause | None:
    """Why no further conversation is held; None if one may be."""
    for reply in replies:
        if reply.kind in _STOPPING and reply.cause:
            return reply.cause
    return None


def _open_votes(
    criterion_ids: Iterable[str], planned: int, cast: Mapping[int, CastVote]
) -> dict[int, set[str]]:
    """By number, the votes to be cast now, each on the criteria that are open. {}: every outcome is
    settled.

    Fewer votes than more than half settle nothing, so that many are cast side by side, then one at
    a time.
    """
    open_votes: dict[int, set[str]] = {}
    for criterion_id, votes in count_votes(criterion_ids, planned, cast).items():
        if settle_votes(votes, planned) is not None:
            continue
        first = len(votes) + 1
        last = max(first, planned // 2 + 1)
        for number in range(first, last + 1):
            if number not in cast or criterion_id not in cast[number].by_criterion:
                open_votes.setdefault(number, set()).add(criterion_id)
    return open_votes


def _vote_of_replies(
    criterion_ids: Iterable[str], replies: Sequence[_Reply], brief: RubricBrief
) -> CastVote:
    """One vote of the replies to all parts, cast by the fallback if that answered about one."""
    by_criterion = {}
    for criterion_id in sorted(criterion_ids):
        part_votes = [reply.votes[criterion_id] for reply in replies if criterion_id in reply.votes]
        by_criterion[criterion_id] = combine_parts(part_votes)
    addressed: dict[CheckedEvidence, None] = {}
    for reply in replies:
        addressed |= dict.fromkeys(reply.addressed)
    return CastVote(
        by_criterion=by_criterion,
        model=_voting_model(replies, brief.question.rubric.fallback),
        unreviewed=brief.unshown,
        addressed=tuple(addressed),
        used_tools=any(reply.used_tools for reply in replies),
    )


def _voting_model(replies: Iterable[_Reply], fallback: str | None) -> str:
    """The fallback if it answered about a part, else the first model that did."""
    models = [reply.model for reply in replies if reply.model]
    if fallback and fallback in models:
        return fallback
    return models[0] if models else ""


def _note_answered(unanswered: dict[int, Cause], replies: Sequence[_Reply]) -> None:
    """Take out the parts that were answered, and note of the others why not."""
    for index, reply in enumerate(replies):
        if reply.kind == "finished":
            unanswered.pop(index, None)
        elif index in unanswered and reply.cause:
            unanswered[index] = reply.cause


def _add_nodes(brief: RubricBrief, context: VoteContext) -> list[str]:
    """Add the graph's nodes of the question, one for each part.

    A rubric that sees claims is asked twice, the first time about no more parts of the change than
    the second: first come the nodes of those without claims, then of those with them.
    """
    rubric = brief.question.rubric
    facts = context.facts
    count = len(brief.parts)
    is_second = bool(brief.question.claims and rubric.knowing(()).judge_criteria)
    first = count if is_second else 0
    nodes = [node_id(rubric, first + index, facts.stage) for index in range(count)]
    config = NodeConfig(
        model=brief.question.model_of(1),
        tools=TOOLS,
        max_turns=facts.gate.file.budget.max_turns,
        rubrics=(rubric.id,),
        criteria=tuple(f"{rubric.id}/{criterion.id}" for criterion in rubric.judge_criteria),
    )
    fields = {"kind": "judge", "digest": rubric.digest, "config": plain(config)}
    for node in nodes:
        context.run.record.event("node.added", node, **fields, **facts.node_fields)
        context.run.record.event("edge.added", **{"from": facts.checks_node, "to": node})
    return nodes


def _only_criteria(part: BriefPart, criterion_ids: set[str]) -> BriefPart:
    criteria = [criterion for criterion in part.criteria if criterion.id in criterion_ids]
    return replace(part, criteria=tuple(criteria))


async def _ask_vote(
    brief: RubricBrief,
    number: int,
    criterion_ids: set[str],
    nodes: list[str],
    context: VoteContext,
) -> list[_Reply]:
    """The replies of one vote's conversations, one for each part."""

    async def ask_part(part: BriefPart, node: str) -> _Reply:
        if not part.criteria:
            return _Reply(None, None, {})
        async with context.model.slots:
            return await _ask_part(brief, number, part, node, context)

    parts = [_only_criteria(part, criterion_ids) for part in brief.parts]
    return await together(ask_part(part, node) for part, node in zip(parts, nodes, strict=True))


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first error ends the others and is raised itself: faces know no
    groups.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        first_error = errors.exceptions[0]
        while isinstance(first_error, BaseExceptionGroup):
            first_error = first_error.exceptions[0]
        raise first_error from None
    return [task.result() for task in tasks]


def node_id(rubric: Rubric, index: int, stage: str = "") -> str:
    """`judge-<rubric>`, or `<stage>-<rubric>`, then -b, -c ... for the further parts of a large
    change.
    """
    return f"{stage or 'judge'}-{rubric.id}{repeat_suffix(index)}"


async def _ask_part(
    brief: RubricBrief, number: int, part: BriefPart, node: str, context: VoteContext
) -> _Reply:
    """Hold one conversation: with the model whose turn it is, or with the fallback if that does not
    answer.
    """
    question = brief.question
    hold = partial(_hold_vote, brief, number, part, node, context)
    end, model_name = await with_fallback(
        hold,
        question.model_of(number),
        question.rubric.fallback,
        context.model,
        context.run.redactor.text,
    )
    reply = await _reply_of(part, end, model_name, brief.change, context)
    return _leave_out_requests(reply, brief)


def _leave_out_requests(reply: _Reply, brief: RubricBrief) -> _Reply:
    """The reply without what it repeats of what people asked the agent for, or of what it said:
    answers go where that may not.
    """
    requests: list[str] = []
    for claim in brief.question.claims:
        if claim.kind == "prompt":
            requests += requests_of(claim.text)
        elif claim.kind == "said":
            requests.append(words_in(claim.text))
    if not requests:
        return reply

    def leave_out(text: str) -> str:
        return leave_out_repeats(text, requests, brief.texts)

    votes = {name: _clean_vote(vote, leave_out) for name, vote in reply.votes.items()}
    cause = _clean_cause(reply.cause, leave_out) if reply.cause else None
    return replace(reply, votes=votes, cause=cause)


def _clean_vote(vote: Vote, leave_out: Callable[[str], str]) -> Vote:
    """The vote with each text that the model wrote passed through `leave_out`."""
    return replace(
        vote,
        reason=short(leave_out(vote.reason), _most_of(vote)),
        defects=tuple(_clean_defect(defect, leave_out) for defect in vote.defects),
        changes=short(leave_out(vote.changes)),
        cause=_clean_cause(vote.cause, leave_out) if vote.cause else UNSET,
    )


def _clean_defect(defect: Defect, leave_out: Callable[[str], str]) -> Defect:
    return replace(
        defect,
        reason=short(leave_out(defect.reason), MAX_GROUNDS),
        counterexample=short(leave_out(defect.counterexample), MAX_GROUNDS),
        evidence=tuple(_clean_evidence(line, leave_out) for line in defect.evidence),
        also=tuple(_clean_evidence(line, leave_out) for line in defect.also),
    )


def _most_of(vote: Vote) -> int:
    """Characters that are kept of the vote's reason."""
    return MAX_GROUNDS if vote.outcome == "fail" else MAX_REASON


def _clean_evidence(line: CheckedEvidence, leave_out: Callable[[str], str]) -> CheckedEvidence:
    if line.standing != "void":
        return line  # it stands in the change
    return replace(line, quote=leave_out(line.quote), path=leave_out(line.path))


def _clean_cause(cause: Cause, leave_out: Callable[[str], str]) -> Cause:
    if isinstance(cause, NoConversation | ApiUnavailable):
        message = leave_out(cause.message)
        return replace(cause, message=message, details=leave_out(cause.details))
    if isinstance(cause, Unanswered):
        return replace(cause, details=leave_out(cause.details))
    return cause


async def with_fallback(
    hold: Callable[[str, float], Coroutine[Any, Any, TurnResult]],
    model_name: str,
    fallback: str | None,
    model: ModelAccess,
    redact: Callable[[str], str],
) -> tuple[TurnResult, str]:
    """How a conversation with a model ended, or with its fallback if that model stays overloaded or
    is not there.

    Args:
        hold: Takes a model's name and how many seconds an overloaded one is waited for.
        model_name: Asked first.
        fallback: None if there is none.
        model: The way to both, which knows what does not answer.
        redact: For why a model did not answer.

    Returns:
        How it ended, and the name of the model whose answer it is.
    """
    if fallback is None:
        return await hold(model_name, math.inf), model_name
    if model_name not in model.unavailable:
        patience_s = math.inf if fallback == model_name else FALLBACK_AFTER_S
        end = await hold(model_name, patience_s)
        if fallback == model_name or not end.is_unavailable:
            return end, model_name
        model.unavailable.setdefault(model_name, redact(end.detail))
    model.replacements.add((model_name, fallback))
    return await hold(fallback, math.inf), fallback


async def _hold_vote(
    brief: RubricBrief,
    number: int,
    part: BriefPart,
    node: str,
    context: VoteContext,
    model_name: str,
    patience_s: float,
) -> TurnResult:
    """Hold one conversation; an overloaded model is waited for as long as `patience_s`."""
    model = context.model
    tests = brief.question.tests
    turn = TurnRequest(
        node=node,
        prompt=brief.prompt(part, model.nonce, number),
        system_prompt=SYSTEM_PROMPT + write_tests_prompt(tests),
        schema=build_answer_schema(tests=tests is not None),
        objection=partial(write_objection, [criterion.id for criterion in part.criteria]),
        folder=context.folder,
        hides_folder=True,
        homes=model.folder,
        tools=TOOLS,
        model=model_name,
        max_turns=context.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
        timeout_s=context.run.deadline.seconds_left(),
        patience_s=patience_s,
    )
    return await model.run_turn(turn)


async def _reply_of(
    part: BriefPart, end: TurnResult, model_name: str, change: Change, context: VoteContext
) -> _Reply:
    if end.status == "answered":
        reply = await _read_reply(part, end.answer, change, end.folder, context)
    else:
        cause = context.model.why_unanswered(end)
        reply = _no_answer(part, end.kind, cause, end.folder)
    votes = {name: replace(vote, model=model_name) for name, vote in reply.votes.items()}
    ran_test = False
    for vote in votes.values():
        ran_test = ran_test or any(defect.proof is not UNSET for defect in vote.defects)
    # A test runs all code.
    return replace(reply, votes=votes, model=model_name, used_tools=end.used_tools or ran_test)


def _no_answer(part: BriefPart, kind: EndKind, cause: Cause, turn: str) -> _Reply:
    """No usable answer: error if the infrastructure failed, else an abstention. Never fail, never
    pass.
    """
    outcome: Outcome = "error" if kind == "broken" else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(cause.reason), turn=turn, cause=cause)
    return _Reply(kind, cause, {criterion.id: vote for criterion in part.criteria})


async def _read_reply(
    part: BriefPart, answer: object, change: Change, turn: str, context: VoteContext
) -> _Reply:
    reading = read_answers([criterion.id for criterion in part.criteria], answer)
    if reading.unfit:
        return _no_answer(part, "unanswered", _misfit(reading.unfit, context), turn)
    votes = {}
    spoken_texts = [words_in(claim.text) for claim in part.claims if claim.kind == "said"]
    words = "\n".join(spoken_texts)
    for criterion in part.criteria:
        votes[criterion.id] = _read_vote(criterion, reading, change, words, turn, context)
    if context.prover is not None:
        for criterion_id, criterion_answer in reading.answers.items():
            vote = votes[criterion_id]
            votes[criterion_id] = await context.prover.prove(vote, criterion_answer.findings)
    return _Reply("finished", None, votes, addressed=_check_addressed(reading, change, context))


def _check_addressed(
    reading: Reading, change: Change, context: VoteContext
) -> tuple[CheckedEvidence, ...]:
    """The quotes of text that speaks to the reviewer that stand in changed lines."""
    checked_lines = [quote_in_files(line, change, context.read) for line in reading.addressed]
    return tuple(line for line in checked_lines if line.standing != "void")


def _misfit(problem: str, context: VoteContext) -> Misfit:
    # The problem can quote the answer; it is redacted before it is cut.
    return Misfit(details=short(show_text(context.run.redactor.text(problem))))


def _check_evidence(
    criterion: Criterion,
    quoted_lines: Sequence[QuotedLine],
    change: Change,
    words: str,
    context: VoteContext,
) -> Iterator[CheckedEvidence]:
    """Each quoted line, looked up in the change. About what agents said one must stand in their
    words, or none counts; `words`: what they said.
    """
    if criterion.needs != "said":
        for line in quoted_lines:
            yield quote_in_change(criterion, line, change, context.read)
        return
    spoken_lines = [quote_in_words(line, words) for line in quoted_lines]
    has_words = any(line.standing == "holds" for line in spoken_lines)
    for line, spoken_line in zip(quoted_lines, spoken_lines, strict=True):
        if spoken_line.standing == "holds":
            yield spoken_line
            continue
        changed_line = quote_in_change(criterion, line, change, context.read)
        yield changed_line if has_words else replace(changed_line, standing="void", why=NO_WORDS)


def _read_vote(
    criterion: Criterion,
    reading: Reading,
    change: Change,
    words: str,
    turn: str,
    context: VoteContext,
) -> Vote:
    problem = reading.problems.get(criterion.id)
    if problem:
        misfit = _misfit(problem, context)
        reason = short(misfit.reason)
        return Vote(outcome="abstain", said=None, reason=reason, turn=turn, cause=misfit)
    answer = reading.answers[criterion.id]
    # Redacted before it is cut: what a limit leaves of a secret may not be known as one any more.
    redact = context.run.redactor.text
    outcome: Outcome = convert(answer.outcome, Outcome)
    reason = answer.reason
    if outcome == "abstain" and answer.missing.strip():
        reason = f"{end_sentence(answer.reason)} Missing: {end_sentence(answer.missing)}"
    defects: list[Defect] = []
    if outcome == "fail":
        for finding in answer.findings:
            defects.append(_read_defect(criterion, finding, change, words, context))
    vote = Vote(
        outcome=outcome,
        said=outcome,
        reason=defects[0].reason if defects else short(redact(reason)),
        defects=tuple(defects),
        changes=short(redact(reading.changes)),
        turn=turn,
    )
    return check_vote(vote)


def _read_defect(
    criterion: Criterion, finding: FindingAnswer, change: Change, words: str, context: VoteContext
) -> Defect:
    """One defect of a fail with its quoted lines looked up."""
    redact = context.run.redactor.text
    evidence = _check_evidence(criterion, finding.evidence, change, words, context)
    also = [quote_in_trees(line, context.read_tree) for line in finding.also]
    return Defect(
        reason=short(redact(finding.reason), MAX_GROUNDS),
        counterexample=short(redact(finding.counterexample), MAX_GROUNDS),
        stops=finding.stops is not False,
        evidence=tuple(evidence),
        also=tuple(also),
    )


def _unreviewed(part: BriefPart, cause: Cause) -> list[Unreviewed]:
    """The part's pieces, as no judge saw them."""
    unreviewed = []
    for piece in part.pieces:
        item = Unreviewed(
            path=paths.quote(piece.path),
            line=piece.line,
            end_line=piece.end_line,
            reason=short(cause.reason),
            cause=cause,
        )
        unreviewed.append(item)
    return unreviewed
