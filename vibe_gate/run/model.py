"""A workflow's one way to the model: opened when it is first needed, and shared by all of its stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

from vibe_gate.domain.context import ReviewRequest, RunContext
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Cost
from vibe_gate.gateway import Upstream, Wire, find_upstream, wire_from
from vibe_gate.judging.session import ModelSession, model_session


class RunModel:
    """The session of a run; `close` ends it."""

    def __init__(self, run: RunContext, request: ReviewRequest, gate: Gate) -> None:
        self._run, self._request, self._gate = run, request, gate
        self._session: ModelSession | None = None
        self._open = ExitStack()

    def session(self) -> ModelSession:
        """The session, by the wire that the request names. GatewayError."""
        wire = wire_from(self._run.environ, self._request.wire, self._request.cassette)
        return self._opened(wire, find_upstream(self._run.environ))

    def shared(self, wire: Wire, upstream: Upstream | None) -> AbstractContextManager[ModelSession]:
        """The session for the judges of one stage, who leave it open."""
        return nullcontext(self._opened(wire, upstream))

    def _opened(self, wire: Wire, upstream: Upstream | None) -> ModelSession:
        if self._session is None:
            budget = self._request.budget_in(self._gate)
            self._session = self._open.enter_context(model_session(self._run, wire, upstream, budget))
        return self._session

    @property
    def cost(self) -> Cost:
        """What the run has cost until now; of one that is resumed, what it had cost."""
        if self._session is not None:
            return self._session.gateway.spent()
        return self._run.record.earlier.cost if self._run.record.earlier else Cost()

    def spent(self, node: str) -> float:
        """USD that a node has cost until now."""
        return self.cost.by_node.get(node, 0.0)

    @property
    def limit_usd(self) -> float:
        """What the run may cost; 0 before a model was wanted."""
        return self._session.limit_usd if self._session else 0.0

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Requests that a cassette had no answer to, with the difference."""
        return tuple(self._session.gateway.unmatched) if self._session else ()

    def notes(self) -> Iterator[str]:
        """Sentences for people."""
        yield from self._session.notes() if self._session else ()

    def close(self) -> None:
        """End it."""
        self._open.close()
