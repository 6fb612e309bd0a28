"""What the log of a turn says of its model and its tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vibe_gate.domain.document import text_of

SessionEvent = Mapping[str, Any]
"""An event of the turn's session."""

KINDS = ("input", "output", "cache_read", "cache_write")
"""Of tokens; those of the cache are among the input."""


def model_of(said: Iterable[SessionEvent]) -> str:
    """The first that is named; "" if none is."""
    return next((model for item in said if (model := text_of(item, "model"))), "")


def turn_tokens(said: Iterable[SessionEvent]) -> dict[str, int]:
    """The turn's tokens by kind, as far as they are known.

    A turn that ended has a total, which counts each kind that it names; of the others its answers
    tell.
    """
    usages = [item for item in said if item.get("type") == "usage"]
    totals = [usage for usage in usages if "cost" in usage]
    return sum_tokens([usage for usage in usages if "cost" not in usage]) | sum_tokens(totals)


def sum_tokens(usages: Sequence[SessionEvent]) -> dict[str, int]:
    """The sum of these by kind, without the kinds that none of them names."""
    counts = [each for usage in usages if isinstance(each := usage.get("tokens"), dict)]
    return {
        name: sum(_count(each.get(name)) for each in counts)
        for name in KINDS
        if any(name in each for each in counts)
    }


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) else 0
