"""Votes: briefs out, answers in, evidence checked, votes counted.

For every question the change is cut into parts (`judging.brief`). A vote asks each
part in a conversation of its own and takes the worst answer; votes go on until no
further one can change an outcome. What could not be asked is said: a part whose
conversation gave no answer is listed as unreviewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from vibe_gate import agent
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileDiff, FileVersion
from vibe_gate.domain.context import CHECKS_NODE, RunContext
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Outcome, Vote, short
from vibe_gate.judging import brief
from vibe_gate.judging.brief import AbstainAnswer, BriefPart, CriterionAnswer, FailAnswer, QuotedLine
from vibe_gate.judging.decide import check_vote, combine, settle
from vibe_gate.judging.evidence import check_evidence
from vibe_gate.judging.question import RubricQuestion, RubricVotes
from vibe_gate.judging.surroundings import Surroundings

T = TypeVar("T")

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""

TREES = "trees"
"""The judges' working directory: `after`, the whole tree after the change, and `before`, the changed files before."""

SESSIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""

_INFRASTRUCTURE = frozenset({"api_error", "died"})
_LIMITS = frozenset({"budget", "timeout"})


@dataclass(frozen=True, slots=True)
class VoteContext:
    """What every conversation of the run's judges shares.

    `folder` holds what judges may read (`trees`, with `after` and `before` in it) and the agents' homes; `read` gives
    the content of a side; `model` is asked if a rubric names none; `slots` is how many conversations run at once.
    """

    run: RunContext
    change: Change
    surroundings: Surroundings
    read: Callable[[FileVersion], bytes]
    wire: agent.ModelAccess
    folder: Path
    model: str
    max_turns: int
    max_cost_usd: float
    nonce: str
    slots: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class _Reply:
    """What one conversation about one part came to."""

    status: str
    detail: str
    votes: dict[str, Vote]


async def cast_votes(question: RubricQuestion, context: VoteContext) -> RubricVotes:
    """Ask a rubric's judge criteria about the change, vote by vote, until their outcomes are settled."""
    rubric = question.rubric
    parts, unshown = brief.parts(context.change, rubric, context.surroundings.hunks)
    nodes = [node_id(rubric, index) for index in range(2 * len(parts))]
    if question.message:  # the nodes before are those of the same rubric asked without the message
        parts, nodes = tuple(replace(part, message=question.message) for part in parts), nodes[len(parts) :]
    for node in nodes[: len(parts)]:
        context.run.record.event("node.added", node, kind="judge")
        context.run.record.event("edge.added", **{"from": CHECKS_NODE, "to": node})
    votes: dict[str, list[Vote]] = {criterion.id: [] for part in parts for criterion in part.criteria}
    unanswered = dict.fromkeys(range(len(parts)), "not asked")
    stopped = ""
    for _ in range(rubric.votes):
        undecided = {name for name, cast in votes.items() if settle(cast, rubric.votes) is None}
        if not undecided or stopped:
            break
        replies = await _ask_all(rubric, [_only(part, undecided) for part in parts], nodes, context)
        for name in undecided:
            votes[name].append(combine([reply.votes[name] for reply in replies if name in reply.votes]))
        for index, reply in enumerate(replies):
            if reply.status == "answered":
                unanswered.pop(index, None)
            elif index in unanswered and reply.detail:
                unanswered[index] = reply.detail
        stopped = next((reply.detail for reply in replies if reply.status in _INFRASTRUCTURE | _LIMITS), "")
    missing = [item for index, why in unanswered.items() for item in _unreviewed(parts[index], why)]
    return RubricVotes(
        votes={name: tuple(cast) for name, cast in votes.items()},
        stopped=stopped,
        unreviewed=tuple(dict.fromkeys((*unshown, *missing))),
    )


def _only(part: BriefPart, names: set[str]) -> BriefPart:
    return replace(part, criteria=tuple(criterion for criterion in part.criteria if criterion.id in names))


async def _ask_all(rubric: Rubric, parts: list[BriefPart], nodes: list[str], context: VoteContext) -> list[_Reply]:
    async def ask(part: BriefPart, node: str) -> _Reply:
        if not part.criteria:
            return _Reply("skipped", "", {})
        async with context.slots:
            return await _ask(rubric, part, node, context)

    return await together(ask(part, node) for part, node in zip(parts, nodes, strict=False))


async def together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first error ends the others and is raised itself: faces know no groups."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return [task.result() for task in tasks]


def node_id(rubric: Rubric, index: int) -> str:
    """`judge-<rubric>`, then -b, -c ... for the further parts of a large change."""
    letters = ""
    number = index + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return f"judge-{rubric.id}" + (f"-{letters}" if index else "")


async def _ask(rubric: Rubric, part: BriefPart, node: str, context: VoteContext) -> _Reply:
    facts = context.surroundings.facts({piece.path for piece in part.pieces})
    turn = agent.Turn(
        node=node,
        prompt=brief.prompt(context.change, part, facts, context.nonce),
        system_prompt=brief.system_prompt(context.nonce),
        schema=brief.answer_schema(part.criteria),
        cwd=context.folder / TREES,
        tools=TOOLS,
        model=rubric.model or context.model,
        max_turns=context.max_turns,
        max_cost_usd=context.max_cost_usd,
    )
    run = context.run
    end = await agent.hold(
        turn,
        record=run.record,
        wire=context.wire,
        environ=run.environ,
        homes=context.folder,
        timeout_s=run.deadline.left(),
    )
    if end.ending.status != "answered":
        return _no_answer(part, end.ending.status, run.redactor.text(end.ending.detail), end.folder)
    return _reply(part, end.ending.answer, end.folder, context)


def _no_answer(part: BriefPart, status: str, detail: str, turn: str) -> _Reply:
    """No usable answer: error if the infrastructure failed, else an abstention. Never fail, never pass."""
    outcome: Outcome = "error" if status in _INFRASTRUCTURE else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(detail), turn=turn)
    return _Reply(status, short(detail), {criterion.id: vote for criterion in part.criteria})


def _reply(part: BriefPart, answer: object, turn: str, context: VoteContext) -> _Reply:
    try:
        answers = brief.JudgeAnswers.model_validate(answer).answers
    except ValidationError as error:
        return _no_answer(part, "no_answer", f"the answer does not fit its form ({error.error_count()} faults)", turn)
    if {answer.criterion for answer in answers} - {criterion.id for criterion in part.criteria}:
        return _no_answer(part, "no_answer", "the answer speaks of criteria that were not asked", turn)
    votes = {
        criterion.id: _vote(
            criterion, [answer for answer in answers if answer.criterion == criterion.id], turn, context
        )
        for criterion in part.criteria
    }
    return _Reply("answered", "", votes)


def _vote(criterion: Criterion, answers: list[CriterionAnswer], turn: str, context: VoteContext) -> Vote:
    if len(answers) != 1:
        why = "the answer leaves this criterion out" if not answers else "the answer speaks of this criterion twice"
        return Vote(outcome="abstain", said=None, reason=why, turn=turn)
    answer, redact = answers[0], context.run.redactor.text
    said = f"{answer.reason} Missing: {answer.missing}" if isinstance(answer, AbstainAnswer) else answer.reason
    evidence = answer.evidence if isinstance(answer, FailAnswer) else ()
    return check_vote(
        Vote(
            outcome=answer.outcome,
            said=answer.outcome,
            # Redacted before it is cut: what a limit leaves of a secret may not be known as one any more.
            reason=short(redact(said)),
            counterexample=short(redact(answer.counterexample)) if isinstance(answer, FailAnswer) else None,
            evidence=tuple(_check(criterion, quoted, context) for quoted in evidence),
            turn=turn,
        )
    )


def _check(criterion: Criterion, evidence: QuotedLine, context: VoteContext) -> CheckedEvidence:
    file = _file_of(evidence, context.change)
    if file is None or not criterion.concerns(file):
        return check_evidence(evidence, None, b"")
    version = file.after if evidence.side == "after" else file.before
    return check_evidence(evidence, file, context.read(version) if version else b"")


def _file_of(evidence: QuotedLine, change: Change) -> FileDiff | None:
    path = paths.unquote(evidence.path)
    file = change.file(path) or change.file(path.removeprefix(f"{evidence.side}/"))  # as the judge's tools name it
    if file is None and evidence.side == "before":
        file = next((renamed for renamed in change.files if renamed.old_path == path), None)
    return file


def _unreviewed(part: BriefPart, why: str) -> list[Unreviewed]:
    """The pieces of a part that no judge answered for."""
    return [
        Unreviewed(path=paths.quote(piece.path), line=piece.line, end_line=piece.end_line, reason=why)
        for piece in part.pieces
    ]
