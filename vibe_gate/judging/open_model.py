"""The way to the model for all that one run asks: its gateway, its limit in USD, the conversations side by side."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from vibe_gate import agent, scratch
from vibe_gate.context.listeners import Meter
from vibe_gate.context.world import RunContext
from vibe_gate.domain.gate import Budget
from vibe_gate.domain.summary import Cost
from vibe_gate.gateway import Gateway, Upstream, Wire

CONVERSATIONS_AT_ONCE = 4
"""Conversations side by side: about twice the cores of a small CI machine (0.1-0.2 GB each)."""


class OpenedModel:
    """An open way to the model, for any number of conversations.

    `folder` is private, for exported trees and agents' homes; `nonce` names the run's fences; `slots` is how many
    conversations run at once; `places` are literals that a cassette must not depend on; `uncounted` says why spending
    could not be added to the day's. `gone`: models that stayed overloaded or are not there, each with what was seen;
    `replaced`: which of them another was asked instead of.
    """

    def __init__(self, gateway: Gateway, folder: Path, nonce: str, limit_usd: float, places: dict[str, str]) -> None:
        self.gateway, self.folder, self.nonce, self.limit_usd = gateway, folder, nonce, limit_usd
        self.places = places
        self.slots = asyncio.Semaphore(CONVERSATIONS_AT_ONCE)
        self.uncounted: set[str] = set()
        self.gone: dict[str, str] = {}
        self.replaced: set[tuple[str, str]] = set()

    async def hold(self, turn: agent.Turn, run: RunContext, homes: Path) -> agent.TurnEnd:
        """Hold a conversation through the gateway, in what time the run has left; the agent's home is below `homes`."""
        return await agent.hold(
            turn,
            record=run.record,
            wire=self.gateway,
            environ=run.environ,
            homes=homes,
            redact=run.redactor.text,
            timeout_s=run.deadline.left(),
        )

    def why_unanswered(self, end: agent.TurnEnd, run: RunContext) -> str:
        """Why a conversation ended without an answer: a limit of the run, or what was seen."""
        limits = {"timeout": run.deadline.reached, "budget": f"The budget of ${self.limit_usd:g} is reached."}
        return limits.get(end.ending.status) or run.redactor.text(end.ending.detail)

    def notes(self) -> Iterator[str]:
        """Sentences for people: requests that the cassette lacks, models replaced, spending that is not counted."""
        yield from self.gateway.unmatched
        yield from self.gateway.notes
        for name, other in sorted(self.replaced):
            yield f"{other} was asked instead of {name}: {self.gone[name]}"
        for why in filter(None, self.uncounted):
            yield f"What was spent is not counted on this day's budget ({why})."


@contextmanager
def open_model(
    run: RunContext, wire: Wire, upstream: Upstream | None, budget: Budget, meter: Meter | None = None
) -> Iterator[OpenedModel]:
    """Open the gateway of a run; what is spent counts on the day's budget. Raises GatewayError."""
    spending, lock = run.state.spending, threading.Lock()

    def count(usd: float, node_id: str, tokens: int) -> None:
        if meter is not None:
            meter(node_id, tokens, usd)
        with lock:
            model.uncounted.add(spending.add(usd, run.record.run_id, run.clock()))

    scratch.remove_abandoned()
    with scratch.private_folder("run") as folder:
        run.record.describe(versions=agent.program_versions(run.environ, folder))
        earlier = run.record.earlier.cost if run.record.earlier else Cost()
        left = math.inf if budget.per_day_usd is None else max(budget.per_day_usd - spending.spent(run.clock()), 0.0)
        nonce, limit = secrets.token_hex(16), min(budget.max_cost_usd, earlier.usd + left)
        places = {nonce: "{{nonce}}", str(folder): "{{folder}}"}
        with Gateway(
            upstream, wire, limit, run.redactor.text, placeholders=places, on_settled=count, earlier=earlier
        ) as gateway:
            model = OpenedModel(gateway, folder, nonce, limit, places)
            yield model


ModelOpener = Callable[[Wire, Upstream | None], AbstractContextManager[OpenedModel]]
"""Opens it, or gives what is open: a workflow's stages share one."""
