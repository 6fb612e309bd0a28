"""What each answer of the model cost, written beside its tokens; together what the turn cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vibe_gate.agent.protocols import SessionRecord
from vibe_gate.domain.wire import ModelCost, SessionCost

Price = Callable[[str, Mapping[str, int]], ModelCost]
"""What tokens of a model cost: `input` with those of the prompt cache, of these `cache_read`,
`cache_write` and `cache_write_1h`, and `output`.
"""

_LEAST_USD = 1e-9
"""A difference below this is one of floating point."""


class AnswerCosts:
    """A session's record, which adds to each usage event what that answer cost."""

    def __init__(self, record: SessionRecord, price: Price) -> None:
        self._record = record
        self._price = price
        self._input_tokens = 0
        self._output_tokens = 0
        self._usd = 0.0

    def event(self, data: dict[str, Any]) -> None:
        """Write an item of the conversation."""
        if data.get("type") != "usage":
            self._record.event(data)
            return
        tokens = data["tokens"]
        cost = self._price(str(data.get("model") or ""), tokens)
        self._input_tokens += tokens["input"]
        self._output_tokens += tokens["output"]
        self._usd += cost.usd
        self._record.event({**data, "cost": cost.usd, "basis": cost.basis})

    def hook(self, data: dict[str, Any]) -> None:
        """Write a hook's event."""
        self._record.hook(data)

    def write_rest(self, total: SessionCost) -> None:
        """Write what the turn cost besides its answers, if it did: answers that broke off, requests
        beside the conversation, prices that became known at its end (then less than 0).
        """
        tokens = {
            "input": total.input_tokens - self._input_tokens,
            "output": total.output_tokens - self._output_tokens,
        }
        usd = total.usd - self._usd
        if abs(usd) < _LEAST_USD and not any(tokens.values()):
            return
        difference = {"type": "usage", "rest": True, "tokens": tokens, "cost": usd}
        self._record.event({**difference, "basis": total.basis})
