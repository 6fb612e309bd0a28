"""Ask what no earlier review was answered: export the tree, start the gateway, hold the
conversations, and verify that the tree did not change. A verdict about something that is not there
any more is no verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from vibe_gate.context.facts import Facts
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.world import RunContext
from vibe_gate.domain.change import Change
from vibe_gate.domain.summary import Cost
from vibe_gate.git import Export, Repository
from vibe_gate.judging.cast_vote import CastVote, RubricVotes
from vibe_gate.judging.proving import Prover
from vibe_gate.judging.rubric_brief import RubricBrief
from vibe_gate.judging.votes import TREES, VoteContext, cast_votes, together


class CastVotes(Struct, frozen=True):
    """What was answered: votes by key of the question, and whether the exported trees are still
    what they were.

    `cast`: of these, by key and number, what was said now.
    """

    by_key: Mapping[str, RubricVotes]
    cast: Mapping[str, Mapping[int, CastVote]]
    cost: Cost
    notes: tuple[str, ...]
    intact: bool


async def ask(
    briefs: Sequence[RubricBrief],
    kept: Mapping[str, Mapping[int, CastVote]],
    facts: Facts,
    repository: Repository,
    run: RunContext,
    model: ModelAccess,
    tell: Callable[[str], object],
) -> CastVotes:
    """Hold the conversations that answer what these briefs show, as far as kept votes do not.
    Raises GatewayError.

    `kept`: by key of the question and number, votes of earlier runs.
    """
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    model.open()
    model.gateway.on_wait = lambda clause: tell(f"waiting for {clause}")
    folder = model.folder / facts.stage
    folder.mkdir(exist_ok=True)
    with run.deadline.interrupting():
        after, before = export_trees(facts.change, repository, folder / TREES)
    prover = (
        Prover(facts.tests, facts.change, repository, run, tell)
        if facts.tests and facts.asks_for_tests
        else None
    )
    shared = VoteContext(facts, run, model, cache(repository.read), folder, prover)
    keys = [brief.question.key for brief in briefs]
    new = await together(
        cast_votes(brief, kept.get(brief.question.key, {}), shared) for brief in briefs
    )
    cast = dict(zip(keys, new, strict=True))
    votes = {key: question_votes.votes for key, question_votes in cast.items()}
    with run.deadline.interrupting():
        intact = after.unchanged() and before.unchanged()
    spent = model.gateway.spent()
    if model.gateway.ledger.reached:
        _tell_budget(run, model.limit_usd, spent, votes)
    lack = (
        (f"Counterexamples are not run: {facts.tests.lack}.",)
        if facts.tests and facts.tests.lack
        else ()
    )
    notes = (*model.notes(), *lack)
    return CastVotes(votes, {key: one.cast for key, one in cast.items()}, spent, notes, intact)


def export_trees(change: Change, repository: Repository, trees: Path) -> tuple[Export, Export]:
    """The tree after the change, and of that before it the files that the change touches."""
    touched = {file.old_path or file.path for file in change.files if file.before}
    after = repository.export(change.after, trees / "after")
    return after, repository.export(change.before, trees / "before", only=touched)


def _tell_budget(
    run: RunContext, budget: float, spent: Cost, votes: Mapping[str, RubricVotes]
) -> None:
    missing = dict.fromkeys(
        item for cast in votes.values() if cast.stopped for item in cast.unreviewed
    )
    not_asked = [
        {"path": item.path, "line": item.line, "end_line": item.end_line} for item in missing
    ]
    run.record.event("budget.reached", limit_usd=budget, usd=spent.usd, not_asked=not_asked)
