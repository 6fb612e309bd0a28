"""Ask what no earlier review was answered: export the tree, start the gateway, hold the conversations, and verify that
the tree did not change. A verdict about something that is not there any more is no verdict.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain.context import RunContext
from vibe_gate.domain.gate import Budget
from vibe_gate.domain.summary import Cost
from vibe_gate.gateway import Gateway, Upstream, Wire
from vibe_gate.git import Export
from vibe_gate.judging.questions import JudgeContext, RubricBrief, RubricVotes
from vibe_gate.judging.votes import TREES, VoteContext, cast_votes, together

SESSIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""


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


class Asked(NamedTuple):
    """What was answered now: votes by key of the question, and whether the exported trees are still what they were."""

    votes: Mapping[str, RubricVotes]
    cost: Cost
    notes: tuple[str, ...]
    intact: bool


async def ask(
    context: JudgeContext,
    briefs: Sequence[RubricBrief],
    wire: Wire,
    upstream: Upstream | None,
    tell: Callable[[str], None],
) -> Asked:
    """Hold the conversations that answer what these briefs show. Raises GatewayError."""
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    run = context.run
    shared = context.shared or partial(model_session, run, budget=context.budget)
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
    return Asked(votes, spent, tuple(session.notes()), intact)


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
