"""JSON that two readers cannot understand differently: no name twice in one object, no NaN, not too much of it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from vibe_gate.store.plain_json import MAX_VALUES, require_few

__all__ = ["MAX_VALUES", "parse", "parse_object", "require_few"]


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
    except _Ambiguous:
        raise
    except ValueError:  # whose own words are advice for programmers
        raise ValueError("it has a number of more digits than any of ours") from None


def parse_object(data: bytes) -> dict[str, Any]:
    """The same of an object. ValueError."""
    value = parse(data)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


class _Ambiguous(ValueError):
    """Two readers could understand it differently."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Ambiguous("it has a name twice in one object")
    return made


def _no_number(name: str) -> NoReturn:
    raise _Ambiguous(f"{name} is no JSON")
