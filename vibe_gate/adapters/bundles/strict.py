"""JSON that two readers cannot understand differently: no name twice in one object, no NaN, not too much of it."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, NoReturn

MAX_VALUES = 1_000_000
"""Of one document or one line of a log: what a review of some 80,000 files leaves. 16 KB of a
compressed `[{},{},...]` would otherwise be gigabytes of objects."""

_ONE_MORE = re.compile(rb'(?:[^"{\[,]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+(?:[{\[,]|\Z)', re.DOTALL)
"""Up to the next brace, bracket or comma outside of strings, each of which is one value more, or to the end:
it matches wherever it begins, so that no text is looked at twice."""


def require_few(data: bytes) -> None:
    """ValueError where the JSON in `data` has more than MAX_VALUES values, counted before any of them is made."""
    if len(data) > MAX_VALUES and sum(1 for _ in islice(_ONE_MORE.finditer(data), MAX_VALUES + 1)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The value of UTF-8 JSON. ValueError with the reason; also where it is nested without end."""
    require_few(data)
    try:
        return json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError:
        raise ValueError("it is not JSON") from None


def parse_object(data: bytes) -> dict[str, Any]:
    """The same of an object. ValueError."""
    value = parse(data)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("it has a name twice in one object")
    return made


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
