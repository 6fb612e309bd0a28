"""What models cost.

Source: the list prices that Claude Code 2.1.327 (bundled with claude-agent-sdk
0.2.184) itself charges, read by giving it responses of 100,000 tokens of one kind
each and looking at `total_cost_usd`; `tests/gateway/test_prices.py` asks it again. A model that
is newer than this table is priced as the dearest until its first session has ended: then the
CLI's own list price counts (see `ledger`).
"""

from __future__ import annotations

import re

from msgspec import Struct

from vibe_gate.domain.summary import CostBasis
from vibe_gate.gateway.token_usage import Usage

CACHE_WRITE_1H = 2.0
"""A cache entry of one hour, as a multiple of the input price; of five minutes it is
`cache_write`.
"""


class Price(Struct, frozen=True):
    """USD for a million tokens of each kind."""

    input: float
    output: float
    cache_write: float
    cache_read: float


_FABLE = Price(10, 50, 12.5, 1.0)
_OPUS = Price(5, 25, 6.25, 0.5)
_SONNET = Price(3, 15, 3.75, 0.3)

PRICES = {
    "claude-fable-5": _FABLE,
    "claude-mythos-5": _FABLE,
    "claude-opus-5-5": Price(4, 20, 5, 0.2),
    "claude-opus-5": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-sonnet-5-5": Price(2, 10, 2.5, 0.1),
    "claude-sonnet-5": Price(2, 10, 2.5, 0.2),
    "claude-sonnet-4-6": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-3-7-sonnet": _SONNET,
    "claude-3-5-sonnet": _SONNET,
    "claude-haiku-5-5": Price(0.1, 0.5, 0.125, 0.01),
    "claude-haiku-4-5": Price(1, 5, 1.25, 0.1),
    "claude-3-5-haiku": Price(0.8, 4, 1, 0.08),
}

DEAREST = max(PRICES.values(), key=lambda price: price.output)

_DATED = re.compile(r"-(20\d{6}|latest)$")


def price_of(model: str) -> tuple[Price, CostBasis]:
    """The price of a model by its name, dated or not; of an unknown one that of the dearest, and
    "unknown".
    """
    name = _DATED.sub("", model.removesuffix("[1m]"))
    if name in PRICES:
        return PRICES[name], "known"
    return DEAREST, "unknown"


def price_usage(usage: Usage, price: Price) -> float:
    """USD."""
    millionths = (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_write * price.cache_write
        + usage.cache_write_1h * price.input * CACHE_WRITE_1H
        + usage.cache_read * price.cache_read
    )
    return millionths / 1_000_000
