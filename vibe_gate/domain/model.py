"""Models of documents that cross disk or wire: unknown keys are refused, or left out when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, ValidationError

from vibe_gate.domain.escape import expression


class Model(BaseModel):
    """Immutable; an unknown key is an error, never ignored. What validates it is built at its first use."""

    # With a limit of its length pydantic reads a text as UTF-8, so that half a surrogate pair is an error.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, str_max_length=1 << 30
    )


T = TypeVar("T")
Many = Annotated[tuple[T, ...], FailFast()]
"""Items of a document, read until the first that is wrong: a million errors would take gigabytes."""

MAX_NAMES = 100_000
"""Of an object whose names a document chooses itself."""


def _require_few_members(value: object) -> object:
    if isinstance(value, dict) and len(value) > MAX_NAMES:
        raise ValueError(f"it has more than {MAX_NAMES:,} members")
    return value


Named = Annotated[dict[str, T], BeforeValidator(_require_few_members)]
"""Values of a document by name; of a dict pydantic names every wrong value, so that a million are never read."""


MAX_VALUES = 1_000_000
"""Of one document or one line of a log: what a review of some 80,000 files leaves. 16 KB of a
compressed `[{},{},...]` would otherwise be gigabytes of objects."""

_ONE_MORE = expression(rb'(?s:(?:[^"{\[,]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+(?:[{\[,]|\Z))')
"""Up to the next brace, bracket or comma outside of strings, each of which is one value more, or to the end:
it matches wherever it begins, so that no text is looked at twice."""


def require_few(data: bytes) -> None:
    """ValueError if the JSON in `data` has more than MAX_VALUES values, counted before any of them is made."""
    if len(data) > MAX_VALUES and sum(1 for _ in islice(_ONE_MORE.finditer(data), MAX_VALUES + 1)) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def parse_object(data: bytes) -> dict[str, Any]:
    """The object in UTF-8 JSON that two readers cannot understand differently. ValueError with the reason."""
    require_few(data)
    try:
        value = json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    except _Ambiguous:
        raise
    except ValueError:  # whose own words are advice for programmers
        raise ValueError("it has a number with too many digits") from None
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
    raise _Ambiguous(f"{name} is not JSON")


M = TypeVar("M", bound=Model)


def read(model: type[M], document: dict[str, Any]) -> M:
    """The document as `model`, keys that it does not know left out. Raises pydantic.ValidationError."""
    return model.model_validate(document, extra="ignore")


def first_mistake(error: ValidationError) -> str:
    """The first thing that is wrong with a document, as "where: what"."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def text_of(document: Mapping[str, Any], name: str) -> str:
    """The text of that name; "" if it is missing or anything else."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def digest_of(definition: Model) -> str:
    """sha-256 of its canonical JSON: the same demands, the same digest."""
    plain = definition.model_dump(mode="json", by_alias=True)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
