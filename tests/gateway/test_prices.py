"""The price table against the CLI's own, which is its source."""

from __future__ import annotations

import json

import pytest
import scripted_messages_api as scripted
from wire import answer, answering, hold, session_in

from vibe_gate.gateway.prices import DEAREST, PRICES, price_of, price_usage
from vibe_gate.gateway.token_usage import Meter, Usage

EVERY_KIND = Usage(
    input=100_000, output=70_001, cache_write=30_011, cache_write_1h=11_003, cache_read=500_009
)
"""So many of each that no two mistakes in a price cancel each other."""


class Reported(scripted.Usage):
    """Our usage, as the API reports it."""

    def __init__(self, usage: Usage) -> None:
        super().__init__(
            usage.input, usage.output, usage.cache_write + usage.cache_write_1h, usage.cache_read
        )
        split = {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        }
        object.__setattr__(self, "split", split)

    def as_json(self):
        return super().as_json() | {"cache_creation": self.split}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-opus-5", "claude-haiku-4-5-20251001"])
def test_our_prices_are_those_of_the_cli(tmp_path, environ, model):
    with answering(answer({"ok": True}, usage=Reported(EVERY_KIND))) as scripted_model:
        ending, _ = hold(session_in(tmp_path, scripted_model.base_url, environ, model=model))
    price, basis = price_of(model)
    assert ending.cost.usd == pytest.approx(price_usage(EVERY_KIND, price))
    assert ending.cost.basis == basis == "known"


def test_dated_names_and_long_contexts_are_the_same_model():
    assert (
        price_of("claude-haiku-4-5-20251001")
        == price_of("claude-haiku-4-5")
        == (PRICES["claude-haiku-4-5"], "known")
    )
    assert price_of("claude-sonnet-4-6[1m]") == (PRICES["claude-sonnet-4-6"], "known")


@pytest.mark.parametrize(
    "name", ["qwen3-coder", "", "claude-sonnet-6", "claude-sonnet-5-but-not-quite"]
)
def test_unknown_names_are_the_dearest(name):
    assert price_of(name) == (DEAREST, "unknown")
    assert all(price.output <= DEAREST.output for price in PRICES.values())


def test_usage_is_read_across_any_chunks():
    events = [
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "ä" * 30},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    stream = "".join(
        f"event: {e['type']}\r\ndata: {json.dumps(e)}\r\n\r\n" for e in events
    ).encode()
    for size in (1, 3, 7, len(stream)):
        meter = Meter()
        for start in range(0, len(stream), size):
            meter.feed(stream[start : start + size])
        assert (meter.complete, meter.stop_reason, meter.usage()) == (
            True,
            "end_turn",
            Usage(input=7, output=9),
        )


@pytest.mark.parametrize(
    "usage", [None, [], {"input_tokens": "many"}, {"input_tokens": -5}, {"cache_creation": 3}]
)
def test_a_usage_that_makes_no_sense_counts_nothing(usage):
    meter = Meter()
    meter.read_body({"usage": usage})
    assert meter.usage() == Usage()
