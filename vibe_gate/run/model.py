"""A workflow's one way to the model: opened when it is first needed, and shared by all of its stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

from vibe_gate.agent import load_without_mcp
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Cost
from vibe_gate.gateway import Upstream, Wire, find_upstream, wire_from
from vibe_gate.judging.open_model import OpenedModel, open_model


class RunModel:
    """The way to the model of a run; `close` ends it."""

    def __init__(self, run: RunContext, request: ReviewRequest, gate: Gate) -> None:
        self._run, self._request, self._gate = run, request, gate
        self._model: OpenedModel | None = None
        self._open = ExitStack()

    def opened(self) -> OpenedModel:
        """It, opened by the wire that the request names. GatewayError."""
        wire = wire_from(self._run.environ, self._request.wire, self._request.cassette)
        return self._open_once(wire, find_upstream(self._run.environ))

    def shared(self, wire: Wire, upstream: Upstream | None) -> AbstractContextManager[OpenedModel]:
        """It, for the judges of one stage, who leave it open."""
        return nullcontext(self._open_once(wire, upstream))

    def _open_once(self, wire: Wire, upstream: Upstream | None) -> OpenedModel:
        if self._model is None:
            if self._request.alone:
                load_without_mcp()
            budget = self._request.budget_in(self._gate)
            self._model = self._open.enter_context(open_model(self._run, wire, upstream, budget, self._request.meter))
        return self._model

    @property
    def cost(self) -> Cost:
        """What the run has cost until now; of one that is resumed, what it had cost."""
        if self._model is not None:
            return self._model.gateway.spent()
        return self._run.record.earlier.cost if self._run.record.earlier else Cost()

    def spent(self, node: str) -> float:
        """USD that a node has cost until now."""
        return self.cost.by_node.get(node, 0.0)

    @property
    def limit_usd(self) -> float:
        """What the run may cost; 0 before a model was wanted."""
        return self._model.limit_usd if self._model else 0.0

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Requests that a cassette had no answer to, with the difference."""
        return tuple(self._model.gateway.unmatched) if self._model else ()

    def notes(self) -> Iterator[str]:
        """Sentences for people."""
        yield from self._model.notes() if self._model else ()

    def close(self) -> None:
        """End it."""
        self._open.close()
