"""The costs of a turn's answers, and that they come to what the turn is charged."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_gate.agent.answer_costs import AnswerCosts
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.gateway.ledger import Ledger
from vibe_gate.gateway.token_usage import Usage

HAIKU = "claude-haiku-4-5"


class Notes:
    """A session's record in memory."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, data: dict[str, Any]) -> None:
        self.events.append(data)

    def hook(self, data: dict[str, Any]) -> None:
        self.events.append(data)


@pytest.mark.parametrize(
    ("tokens", "metered"),
    [
        ({"input": 900, "output": 60}, Usage(input=900, output=60)),
        (
            {"input": 900, "output": 60, "cache_read": 400, "cache_write": 100},
            Usage(input=400, output=60, cache_read=400, cache_write=100),
        ),
        (
            {"input": 900, "output": 0, "cache_write": 900, "cache_write_1h": 800},
            Usage(cache_write=100, cache_write_1h=800),
        ),
        # Nobody is charged for more that is kept for an hour than was written.
        (
            {"input": 900, "output": 0, "cache_write": 100, "cache_write_1h": 800},
            Usage(input=800, cache_write_1h=100),
        ),
    ],
)
@pytest.mark.parametrize(
    ("model", "basis"), [(HAIKU, "known"), (f"{HAIKU}-20251001", "known"), ("our-own", "unknown")]
)
def test_an_answer_costs_what_the_gateway_counts_for_it(model, basis, tokens, metered):
    ledger = Ledger(budget_usd=10)
    account = ledger.account("fix")
    ledger.count_replayed(account, model, metered)
    assert ledger.price(model, tokens) == account.by_model[model] == (
        ModelCost(account.cost.usd, basis)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("total", "remainder"),
    [
        (SessionCost(200, 40, {HAIKU: ModelCost(0.0004, "known")}), None),
        # An answer broke off; the price of the model became known.
        (
            SessionCost(300, 45, {HAIKU: ModelCost(0.001, "known")}),
            ({"input": 100, "output": 5}, 0.0006, "known"),
        ),
        (
            SessionCost(200, 40, {HAIKU: ModelCost(0.0001, "known")}),
            ({"input": 0, "output": 0}, -0.0003, "known"),
        ),
    ],
)
def test_usage_events_together_come_to_the_total_of_the_turn(total, remainder):
    notes = Notes()
    costs = AnswerCosts(notes, Ledger(budget_usd=10).price)
    message = {"type": "message", "content": "No."}
    tokens = {"input": 100, "output": 20}
    costs.event({"type": "usage", "tokens": tokens, "model": HAIKU, "message_id": "m1"})
    costs.event(message)
    costs.event({"type": "usage", "tokens": tokens, "model": HAIKU, "message_id": "m2"})
    costs.write_rest(total)
    assert notes.events[1] == message
    usages = [event for event in notes.events if event["type"] == "usage"]
    assert [usage["cost"] for usage in usages[:2]] == pytest.approx([0.0002, 0.0002])
    assert sum(usage["cost"] for usage in usages) == pytest.approx(total.usd)
    for kind, count in (("input", total.input_tokens), ("output", total.output_tokens)):
        assert sum(usage["tokens"][kind] for usage in usages) == count
    rests = [
        (usage["tokens"], pytest.approx(usage["cost"]), usage["basis"])
        for usage in usages
        if "rest" in usage
    ]
    assert rests == ([] if remainder is None else [remainder])
