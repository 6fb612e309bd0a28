"""The way to the language model for all that one run asks: one gateway, one limit in USD, one
folder.

Votes, second looks and the agents of all stages share it. It is opened when the first of them wants
it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from vibe_gate import scratch
from vibe_gate.agent import agent_environment_from, program_versions, sdk_version
from vibe_gate.domain.cause import BudgetReached, Cause, NoConversation, NoKey, NoSdk
from vibe_gate.domain.summary import Cost

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from vibe_gate.agent import TurnRequest
    from vibe_gate.context.review_request import ReviewRequest
    from vibe_gate.context.world import RunContext
    from vibe_gate.domain.gate import Gate
    from vibe_gate.domain.model_wire import Wire
    from vibe_gate.domain.wire import TurnResult
    from vibe_gate.gateway import Gateway, Upstream

CONVERSATIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""


class ModelAccess:
    """The way to the language model of one run. `open` opens it once, `close` ends it.

    Until it is open it tells only whether and how a model can be asked, and what the run has cost
    before.
    """

    gateway: Gateway
    """Once open: the server that agents take for the model's API."""
    folder: Path
    """Once open: private, for exported trees and agents' homes; deleted by `close`."""
    nonce: str
    """Once open: names the fences of this run's prompts."""
    limit_usd: float
    """Once open: what the run may cost, its own limit and what is left of the day's."""
    placeholders: dict[str, str]
    """Once open: names for literals of this run, on which a cassette must not depend."""
    slots: asyncio.Semaphore
    """Once open: one for each conversation that may run at the same time."""

    def __init__(self, run: RunContext, request: ReviewRequest, gate: Gate) -> None:
        self.is_open = False
        self.unavailable: dict[str, str] = {}
        """Models that stayed overloaded or that the API does not know, each with what was seen."""
        self.replacements: set[tuple[str, str]] = set()
        """Of these, pairs of a model and the one that was asked instead."""
        self.wire: Wire = request.wire
        """Whether the model is asked, recorded or replayed."""
        self._run, self._budget = run, request.budget_in(gate)
        self._uncounted: set[str] = set()
        self._lock = threading.Lock()
        self._resources = ExitStack()

    @cached_property
    def upstream(self) -> Upstream | None:
        """The model's API and the credentials for it; None if there are none. GatewayError."""
        from vibe_gate.gateway import find_upstream

        return find_upstream(self._run.environment.variables)

    @property
    def obstacle(self) -> NoKey | NoSdk | None:
        """Why neither a model nor a recording of one can be asked, if none can. GatewayError."""
        is_sdk_missing = not sdk_version()
        if self.wire.mode != "replay" and self.upstream is None:
            return NoKey(is_sdk_missing=is_sdk_missing)
        return NoSdk() if is_sdk_missing else None

    def open(self) -> None:
        """Open the gateway, unless it is open. GatewayError."""
        if self.is_open:
            return
        # What was answered before needs neither an event loop nor a server.
        import asyncio

        from vibe_gate.gateway import Gateway

        run, spending = self._run, self._run.state.spending
        scratch.remove_abandoned()
        self.folder = self._resources.enter_context(scratch.private_folder("run"))
        self._agent_environment = agent_environment_from(run.environment.variables)
        run.record.add_to_run_document(
            versions=program_versions(self._agent_environment.search_path, self.folder)
        )
        earlier = run.record.earlier.cost if run.record.earlier else Cost()
        left_today = math.inf
        if self._budget.per_day_usd is not None:
            left_today = max(self._budget.per_day_usd - spending.spent(run.clock()), 0.0)
        self.limit_usd = min(self._budget.max_cost_usd, earlier.usd + left_today)
        self.nonce = os.urandom(16).hex()
        self.placeholders = {self.nonce: "{{nonce}}", str(self.folder): "{{folder}}"}
        self.slots = asyncio.Semaphore(CONVERSATIONS_AT_ONCE)
        gateway = Gateway(
            self.upstream,
            self.wire,
            self.limit_usd,
            run.redactor.text,
            placeholders=self.placeholders,
            on_settled=self._count,
            earlier=earlier,
        )
        self.gateway = self._resources.enter_context(gateway)
        self.is_open = True

    def close(self) -> None:
        """Close the gateway and delete the folder, if it was opened."""
        self._resources.close()

    async def run_turn(self, turn: TurnRequest) -> TurnResult:
        """Run the turn of an agent through the gateway."""
        from vibe_gate.agent import run_turn  # asyncio, for who asks

        run = self._run
        return await run_turn(
            turn,
            record=run.record,
            gateway=self.gateway,
            environment=self._agent_environment,
            redact=run.redactor.text,
        )

    def why_unanswered(self, result: TurnResult) -> Cause:
        """Why a turn ended without an answer: a limit of the run, or what was seen."""
        if result.status == "timeout":
            return self._run.deadline.cause
        if result.status == "budget":
            return BudgetReached(limit_usd=self.limit_usd)
        return result.cause or NoConversation(message=self._run.redactor.text(result.detail))

    @property
    def cost(self) -> Cost:
        """What the run has cost until now; of one that was resumed, with what it had cost
        before.
        """
        if self.is_open:
            return self.gateway.spent()
        if self._run.record.earlier:
            return self._run.record.earlier.cost
        return Cost()

    def spent_by(self, node: str) -> float:
        """USD that a node of the run's graph has cost until now."""
        return self.cost.by_node.get(node, 0.0)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Requests that a cassette lacks, each with the difference to the nearest recorded one."""
        return tuple(self.gateway.unmatched) if self.is_open else ()

    def notes(self) -> Iterator[str]:
        """Sentences for people: what the cassette lacks, models replaced, spending not counted."""
        if not self.is_open:
            return
        yield from self.gateway.unmatched
        yield from self.gateway.notes
        for model, other in sorted(self.replacements):
            yield f"{other} was asked instead of {model}: {self.unavailable[model]}"
        for problem in self._uncounted:
            yield f"What was spent is not counted on this day's budget ({problem})."

    def _count(self, usd: float, node_id: str, tokens: int) -> None:
        """Count an answer that was paid for on the day's budget; called in threads of the
        gateway.
        """
        if self._run.meter is not None:
            self._run.meter(node_id, tokens, usd)
        run = self._run
        with self._lock:
            problem = run.state.spending.add(usd, run.record.run_id, run.clock())
            if problem:
                self._uncounted.add(problem)
