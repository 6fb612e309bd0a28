"""Votes: briefs out, answers in, evidence checked, votes counted.

For every question the change is cut into parts (`judging.brief`). A vote asks each part in a conversation of its
own and takes the worst answer; votes go on until no further one can change an outcome. What could not be asked is
said: a part whose conversation gave no answer is listed as unreviewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, convert
from msgspec.structs import replace

from vibe_gate import agent
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileVersion
from vibe_gate.domain.context import Facts, RunContext, repeated
from vibe_gate.domain.escape import ended, show_text
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import DETAILS, Outcome, Vote, short
from vibe_gate.domain.wire import EndKind, end_kind
from vibe_gate.judging import brief
from vibe_gate.judging.brief import BriefPart
from vibe_gate.judging.decide import check_vote, combine, settle
from vibe_gate.judging.evidence import quote_in_change
from vibe_gate.judging.open_model import OpenedModel
from vibe_gate.judging.questions import TOOLS, RubricBrief, RubricVotes
from vibe_gate.judging.reading import Reading, reading_of, sent_back

T = TypeVar("T")

TREES = "trees"
"""The judges' working directory: `after`, the whole tree after the change, and `before`, the changed files before."""

_STOPPING = frozenset({"broken", "limit"})
"""Ends of a conversation after which no further one is held."""


class VoteContext(Struct, frozen=True):
    """What every conversation of the run's judges shares.

    `folder` holds what judges may read (`trees`, with `after` and `before` in it) and the agents' homes; `read` gives
    the content of a side.
    """

    facts: Facts
    run: RunContext
    model: OpenedModel
    read: Callable[[FileVersion], bytes]
    folder: Path


class _Reply(Struct, frozen=True):
    kind: EndKind | None  # None: it was not asked
    detail: str
    votes: dict[str, Vote]
    used_tools: bool = False


async def cast_votes(shown: RubricBrief, context: VoteContext) -> RubricVotes:
    """Ask a rubric's judge criteria about the change, vote by vote, until their outcomes are settled."""
    rubric, parts, used_tools = shown.question.rubric, shown.parts, False
    nodes = _add_nodes(shown, context)
    votes: dict[str, list[Vote]] = {criterion.id: [] for part in parts for criterion in part.criteria}
    unanswered = dict.fromkeys(range(len(parts)), "not asked")
    stopped, at_once = "", rubric.votes // 2 + 1  # fewer votes settle nothing, so that many are cast side by side
    while not stopped and (undecided := {name for name, cast in votes.items() if settle(cast, rubric.votes) is None}):
        asked = [_only(part, undecided) for part in parts]
        for replies in await together(_ask_all(shown, asked, nodes, context) for _ in range(at_once)):
            used_tools = used_tools or any(reply.used_tools for reply in replies)
            for name in undecided:
                votes[name].append(combine([reply.votes[name] for reply in replies if name in reply.votes]))
            for index, reply in enumerate(replies):
                if reply.kind == "finished":
                    unanswered.pop(index, None)
                elif index in unanswered and reply.detail:
                    unanswered[index] = reply.detail
            limits = (reply.detail for reply in replies if reply.kind in _STOPPING)
            stopped = stopped or next(limits, "")
        at_once = 1
    missing = [item for index, why in unanswered.items() for item in _unreviewed(parts[index], why)]
    return RubricVotes(
        by_criterion={name: tuple(cast) for name, cast in votes.items()},
        stopped=stopped,
        unreviewed=tuple(dict.fromkeys((*shown.unshown, *missing))),
        used_tools=used_tools,
    )


def _add_nodes(shown: RubricBrief, context: VoteContext) -> list[str]:
    """Add the graph's nodes of the question, one for each part.

    A rubric that sees the author's message is asked twice. Both times the change is cut into the same number of parts:
    first come the nodes of those without the message, then of those with it.
    """
    rubric, count, facts = shown.question.rubric, len(shown.parts), context.facts
    first = count if shown.question.message else 0
    nodes = [node_id(rubric, first + index, facts.stage) for index in range(count)]
    for node in nodes:
        context.run.record.event("node.added", node, kind="judge", digest=rubric.digest)
        context.run.record.event("edge.added", **{"from": facts.checks_node, "to": node})
    return nodes


def _only(part: BriefPart, names: set[str]) -> BriefPart:
    return replace(part, criteria=tuple(criterion for criterion in part.criteria if criterion.id in names))


async def _ask_all(shown: RubricBrief, parts: list[BriefPart], nodes: list[str], context: VoteContext) -> list[_Reply]:
    async def ask(part: BriefPart, node: str) -> _Reply:
        if not part.criteria:
            return _Reply(None, "", {})
        async with context.model.slots:
            return await _ask(shown, part, node, context)

    return await together(ask(part, node) for part, node in zip(parts, nodes, strict=True))


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


def node_id(rubric: Rubric, index: int, stage: str = "") -> str:
    """`judge-<rubric>`, or `<stage>-<rubric>`, then -b, -c ... for the further parts of a large change."""
    return f"{stage or 'judge'}-{rubric.id}{repeated(index)}"


async def _ask(shown: RubricBrief, part: BriefPart, node: str, context: VoteContext) -> _Reply:
    model, run = context.model, context.run
    turn = agent.Turn(
        node=node,
        prompt=shown.prompt(part, model.nonce),
        system_prompt=brief.SYSTEM_PROMPT,
        schema=brief.answer_schema(),
        objection=partial(sent_back, [criterion.id for criterion in part.criteria]),
        cwd=context.folder / TREES,
        tools=TOOLS,
        model=shown.question.model,
        max_turns=context.facts.gate.file.budget.max_turns,
        max_cost_usd=model.limit_usd,
    )
    end = await agent.hold(
        turn,
        record=run.record,
        wire=model.gateway,
        environ=run.environ,
        redact=run.redactor.text,
        homes=context.folder,
        timeout_s=run.deadline.left(),
    )
    if end.ending.status != "answered":
        status = end.ending.status
        limits = {"timeout": run.deadline.reached, "budget": f"The budget of ${model.limit_usd:g} is reached."}
        detail = limits.get(status) or run.redactor.text(end.ending.detail)
        return _no_answer(part, status, detail, end.folder)
    reply = _reply(part, end.ending.answer, shown.change, end.folder, context)
    return replace(reply, used_tools=end.ending.used_tools)


def _no_answer(part: BriefPart, status: str, detail: str, turn: str) -> _Reply:
    """No usable answer: error if the infrastructure failed, else an abstention. Never fail, never pass."""
    kind = end_kind(status)
    outcome: Outcome = "error" if kind == "broken" else "abstain"
    vote = Vote(outcome=outcome, said=None, reason=short(detail), turn=turn)
    return _Reply(kind, short(detail), {criterion.id: vote for criterion in part.criteria})


def _reply(part: BriefPart, answer: object, change: Change, turn: str, context: VoteContext) -> _Reply:
    reading = reading_of([criterion.id for criterion in part.criteria], answer)
    if reading.unfit:
        return _no_answer(part, "no_answer", _misfit(reading.unfit, context), turn)
    votes = {criterion.id: _vote(criterion, reading, change, turn, context) for criterion in part.criteria}
    return _Reply("finished", "", votes)


def _misfit(problem: str, context: VoteContext) -> str:
    told = show_text(context.run.redactor.text(problem))  # it can quote the answer; before it is cut
    return f"The model's answer does not fit its form.{DETAILS}{told}"


def _vote(criterion: Criterion, reading: Reading, change: Change, turn: str, context: VoteContext) -> Vote:
    if problem := reading.problems.get(criterion.id):
        return Vote(outcome="abstain", said=None, reason=short(_misfit(problem, context)), turn=turn)
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
            # Redacted before it is cut: what a limit leaves of a secret may not be known as one any more.
            reason=short(redact(said)),
            counterexample=short(redact(answer.counterexample)) if is_fail else None,
            changes=short(redact(reading.changes)),
            evidence=tuple(quote_in_change(criterion, quoted, change, context.read) for quoted in evidence),
            turn=turn,
        )
    )


def _unreviewed(part: BriefPart, why: str) -> list[Unreviewed]:
    return [
        Unreviewed(path=paths.quote(piece.path), line=piece.line, end_line=piece.end_line, reason=why)
        for piece in part.pieces
    ]
