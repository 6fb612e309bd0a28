"""JSON that any reader takes: ASCII, no NaN, and not more values than readers make of one text."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import Any

from vibe_gate.domain.expressions import expression

MAX_VALUES = 1_000_000
"""Of one document or one line of a log: what a review of some 80,000 files leaves. 16 KB of a
compressed `[{},{},...]` would otherwise be gigabytes of objects."""

_ONE_MORE = expression(rb'(?s:(?:[^"{\[,]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+(?:[{\[,]|\Z))')
"""Up to the next brace, bracket or comma outside of strings, each of which is one value more, or to the end:
it matches wherever it begins, so that no text is looked at twice."""


def require_few(data: bytes) -> None:
    """ValueError where the JSON in `data` has more than MAX_VALUES values, counted before any of them is made."""
    if len(data) > MAX_VALUES and sum(1 for _ in islice(_ONE_MORE.finditer(data), MAX_VALUES + 1)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def dumps(value: dict[str, Any], indent: int | None = None) -> str:
    """ASCII JSON: no control character, direction mark or lone surrogate stays raw. Else the repr."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, indent=indent, separators=separators, allow_nan=False, default=repr)
    except (ValueError, TypeError):
        # NaN and infinity are not JSON; keys may be no text. Rare, so looked for only now.
        return json.dumps(_finite(value), indent=indent, separators=separators, default=repr)


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
