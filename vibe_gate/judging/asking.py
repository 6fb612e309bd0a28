"""Ask what no earlier review was answered: export the tree, start the gateway, hold the
conversations, and verify that the tree did not change. A verdict about something that is not there
any more is no verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache

from msgspec import Struct

from vibe_gate.context.facts import Facts
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.world import RunContext
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.summary import Cost, Unreviewed
from vibe_gate.git import Repository
from vibe_gate.judging.cast_vote import CastVote, RubricVotes
from vibe_gate.judging.judged_trees import hold_judged_trees
from vibe_gate.judging.proving import Prover
from vibe_gate.judging.rubric_brief import RubricBrief
from vibe_gate.judging.votes import VoteContext, cast_votes, together

TREES = "trees"
"""Below the run's folder: the judges' working directory, if not the one that the clone keeps."""


class CastVotes(Struct, frozen=True):
    """What was answered."""

    by_key: Mapping[str, RubricVotes]
    """By key of the question, the votes that count."""

    cast: Mapping[str, Mapping[int, CastVote]]
    """Of these, by key and number, what was said now."""

    cost: Cost

    notes: tuple[str, ...]
    """Sentences for people."""

    intact: bool
    """Whether the exported trees are still what they were."""


async def ask(
    briefs: Sequence[RubricBrief],
    kept_votes: Mapping[str, Mapping[int, CastVote]],
    facts: Facts,
    repository: Repository,
    run: RunContext,
    model: ModelAccess,
    tell: Callable[[str], object],
) -> CastVotes:
    """Hold the conversations that answer what these briefs show, as far as kept votes do not.
    Raises GatewayError.

    `kept_votes`: by key of the question and number, votes of earlier runs.
    """
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    model.open()
    model.gateway.on_wait = lambda clause: tell(f"waiting for {clause}")
    folder = model.folder / facts.stage
    folder.mkdir(exist_ok=True)
    prover: Prover | None = None
    if facts.tests and facts.asks_for_tests:
        prover = Prover(facts.tests, facts.change, repository, run, tell)
    read_tree = tree_readers(facts.change, repository)
    with ExitStack() as resources:
        with run.deadline.interrupting():
            holding = hold_judged_trees(facts.change, repository, model, folder / TREES)
            trees = resources.enter_context(holding)
        read = cache(repository.read)
        context = VoteContext(facts, run, model, read, read_tree, trees.folder, prover)
        new_votes = await together(
            cast_votes(brief, kept_votes.get(brief.question.key, {}), context) for brief in briefs
        )
        with run.deadline.interrupting():
            intact = trees.are_unchanged()
    counted_by_key = {}
    cast_by_key = {}
    for brief, votes in zip(briefs, new_votes, strict=True):
        counted_by_key[brief.question.key] = votes.votes
        cast_by_key[brief.question.key] = votes.cast
    spent = model.gateway.spent()
    if model.gateway.ledger.reached:
        _record_budget(run, model.limit_usd, spent, counted_by_key)
    notes = [*model.notes()]
    if facts.tests and facts.tests.lack:
        notes.append(f"Counterexamples are not run: {facts.tests.lack}.")
    return CastVotes(
        by_key=counted_by_key,
        cast=cast_by_key,
        cost=spent,
        notes=tuple(notes),
        intact=intact,
    )


def tree_readers(
    change: Change, repository: Repository
) -> dict[Side, Callable[[str], bytes | None]]:
    """By side, what gives the content at a path of that tree; None without a file."""
    return {
        "after": repository.tree(change.after).read,
        "before": repository.tree(change.before).read,
    }


def _record_budget(
    run: RunContext, limit_usd: float, spent: Cost, votes: Mapping[str, RubricVotes]
) -> None:
    """Write down what was not asked because the budget was reached."""
    missing_items: dict[Unreviewed, None] = {}
    for question_votes in votes.values():
        if question_votes.stopped:
            missing_items |= dict.fromkeys(question_votes.unreviewed)
    not_asked = [
        {"path": item.path, "line": item.line, "end_line": item.end_line} for item in missing_items
    ]
    run.record.event("budget.reached", limit_usd=limit_usd, usd=spent.usd, not_asked=not_asked)
