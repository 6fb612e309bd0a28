"""The run's money: reserved before a request leaves, settled when its answer is metered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from vibe_gate.domain.summary import CostBasis
from vibe_gate.gateway.prices import cost, price_of
from vibe_gate.gateway.usage import Usage

USEFUL_TOKENS = 1024
"""An answer with less room than this is cut before it says anything; better not to ask."""

FAIR_TOKENS = 16_000
"""Beyond this a request takes at most half of what is left, so that sessions at the same time get their turn."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What the run's models cost until now: USD, tokens (input with cache), by node id and by model name."""

    usd: float = 0.0
    basis: CostBasis = "none"
    input_tokens: int = 0
    output_tokens: int = 0
    by_node: Mapping[str, float] = field(default_factory=dict)
    by_model: Mapping[str, float] = field(default_factory=dict)
    budget_reached: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """Leave to ask `model` for at most `max_tokens` of output; `usd` is set aside until it is settled."""

    model: str
    usd: float
    max_tokens: int


class Ledger:
    """Thread-safe. Requests that only wait for other requests' change wait; what never fits is refused."""

    def __init__(self, budget_usd: float) -> None:
        self._budget = budget_usd
        self._changed = threading.Condition()
        self._reserved = 0.0
        self._usd = 0.0
        self._tokens = [0, 0]
        self._by_node: dict[str, float] = {}
        self._by_model: dict[str, float] = {}
        self._bases: set[CostBasis] = set()
        self._reached = False
        self._closed = False

    def reserve(self, model: str, expected: Usage, wanted: int, useful: int) -> Reservation | None:
        """Set aside what this request may cost, or None when the budget cannot pay for it.

        `expected` is the input; of `wanted` output tokens as many are granted as are
        paid for, and `useful` is the fewest that make sense.
        """
        price, _ = price_of(model)
        base = cost(expected, price)
        with self._changed:
            while not self._closed:
                left = self._budget - self._usd - self._reserved - base
                affordable = int(left / (price.output / 1_000_000))
                if affordable >= min(useful, wanted):
                    fair = max(FAIR_TOKENS, affordable // 2, useful)
                    granted = min(wanted, affordable, fair)
                    usd = base + granted * price.output / 1_000_000
                    self._reserved += usd
                    return Reservation(model, usd, granted)
                if self._reserved <= 0:
                    self._reached = True
                    return None
                self._changed.wait()
        return None

    def settle(self, reservation: Reservation, node_id: str, used: Usage) -> None:
        """Count what the request used in place of what was set aside for it."""
        price, basis = price_of(reservation.model)
        with self._changed:
            self._release(reservation)
            if used != Usage():
                self._add(node_id, reservation.model, cost(used, price), basis)
                self._tokens[0] += used.all_input
                self._tokens[1] += used.output

    def add(self, node_id: str, by_model: Mapping[str, float], basis: CostBasis, tokens: tuple[int, int]) -> None:
        """Count what an agent used past the gateway (Bedrock, Vertex); tokens are (input, output)."""
        with self._changed:
            for model, usd in by_model.items():
                self._add(node_id, model, usd, basis)
            self._tokens[0] += tokens[0]
            self._tokens[1] += tokens[1]
            self._reached = self._reached or self._usd >= self._budget

    def reached(self) -> None:
        """The budget cut an answer short."""
        with self._changed:
            self._reached = True

    def left(self) -> float:
        """USD that nobody has spent or set aside."""
        with self._changed:
            return max(0.0, self._budget - self._usd - self._reserved)

    def spent(self) -> Spending:
        """What was spent until now."""
        with self._changed:
            basis: CostBasis = "unknown" if "unknown" in self._bases else "known" if self._bases else "none"
            read, written = self._tokens
            nodes, models = dict(self._by_node), dict(self._by_model)
            return Spending(self._usd, basis, read, written, nodes, models, self._reached)

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _release(self, reservation: Reservation) -> None:
        self._reserved = max(0.0, self._reserved - reservation.usd)
        if self._reserved < 1e-12:
            self._reserved = 0.0  # sums of floats do not come back to nothing by themselves
        self._changed.notify_all()

    def _add(self, node_id: str, model: str, usd: float, basis: CostBasis) -> None:
        self._usd += usd
        self._by_node[node_id] = self._by_node.get(node_id, 0.0) + usd
        self._by_model[model] = self._by_model.get(model, 0.0) + usd
        self._bases.add(basis)
