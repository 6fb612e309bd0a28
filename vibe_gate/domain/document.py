"""Documents: values that cross disk or wire as JSON, each a `msgspec.Struct`, which is read by its
types.

A class that forbids unknown fields is one whose keys a later version may not extend (receipts,
definitions, a judge's answers); of the others, keys of later versions are left out.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

from vibe_gate.domain.escape import expression

T = TypeVar("T")
D = TypeVar("D", bound=Struct)

Timestamp = Annotated[datetime, Meta(tz=True)]
"""With a time zone."""

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Of times that somebody else names: at the ends of the calendar a time has no other zone, and no
second after it.
"""

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
"""A number of a document, also of milliseconds: with more, sums and JavaScript are not exact."""

Usd = Annotated[float, Meta(ge=0, le=1e9)]
"""US dollars of a document."""

MAX_NAMES = 100_000
"""Of an object whose names a document chooses itself."""

Named = Annotated[dict[str, T], Meta(max_length=MAX_NAMES)]
"""Values of a document by name."""


def read(kind: type[D], document: object) -> D:
    """The value of a document that JSON text had. ValueError: it is not one; `first_mistake` says
    why.
    """
    try:
        _require_plain_text(document)
        return msgspec.convert(document, kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _require_plain_text(document: object) -> None:
    """ValueError for what JSON text can spell and no document of ours has: half a surrogate pair,
    1e999.
    """
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError("it has a number that is not finite") from None
    text.encode()


def decode_document(kind: type[D], text: str | bytes) -> D:
    """The value of a document in JSON text. ValueError as of `read`."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def holds_all(value: Struct, document: object) -> bool:
    """Whether the value has all that its document says: reading leaves out the keys that a later
    version may bring.
    """
    return _is_within(document, msgspec.to_builtins(value))


def _is_within(document: Any, schema_values: Any) -> bool:
    if isinstance(document, dict):
        for name, value in document.items():
            if name not in schema_values or not _is_within(value, schema_values[name]):
                return False
    elif isinstance(document, list):
        for value, schema_value in zip(document, schema_values, strict=True):
            if not _is_within(value, schema_value):
                return False
    return True


def plain(value: Any) -> Any:
    """A document, or a part of one, as JSON has it."""
    if isinstance(value, Struct):
        value = msgspec.to_builtins(value, builtin_types=(datetime,))
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(member) for member in value]
    if isinstance(value, datetime):
        return iso(value)
    return value


def without_none(value: Any) -> Any:
    """What `plain` gives, without members that have no value."""
    if isinstance(value, dict):
        return {name: without_none(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_none(member) for member in value]
    return value


def to_json(document: Struct, *, indent: int | None = None) -> str:
    """The document as JSON text."""
    separators = (",", ":") if indent is None else None
    return json.dumps(plain(document), ensure_ascii=False, indent=indent, separators=separators)


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The document's JSON Schema, with those of the documents within it as `$defs`."""
    defs: dict[str, Any] = plain(msgspec.json.schema(kind)["$defs"])
    schema: dict[str, Any] = defs.pop(kind.__name__)
    if defs:
        schema["$defs"] = dict(sorted(defs.items()))
    return schema


def iso(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


MAX_VALUES = 1_000_000
"""Of one document or one line of a log: what a review of some 140,000 files leaves. 16 KB of a
compressed `[{},{},...]` would otherwise be gigabytes of objects."""

_ONE_MORE = expression(rb'(?s:(?:[^"{\[,]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+(?:[{\[,]|\Z))')
"""Up to the next brace, bracket or comma outside of strings, each of which is one value more, or to
the end: it matches wherever it begins, so that no text is looked at twice.
"""


def require_few(data: bytes) -> None:
    """ValueError if the JSON in `data` has more than MAX_VALUES values, counted before any of them
    is made.
    """
    if len(data) <= MAX_VALUES:
        return
    matches = islice(_ONE_MORE.finditer(data), MAX_VALUES + 1)
    count = sum(1 for _ in matches)
    if count > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")


def parse_object(data: bytes) -> dict[str, Any]:
    """The object in UTF-8 JSON that two readers cannot understand differently. ValueError with the
    reason.
    """
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
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Ambiguous("it has a name twice in one object")
    return document


def _no_number(name: str) -> NoReturn:
    raise _Ambiguous(f"{name} is not JSON")


_PLACE = re.compile(r" - at (`key` in )?`\$\.?(.*)`\Z", re.S)


def first_mistake(error: ValueError) -> str:
    """The first thing that is wrong with a document, as "where: what" if msgspec says it. It may
    quote the document.
    """
    message = str(error)
    if isinstance(error, UnicodeEncodeError):
        return "it has half a surrogate pair"
    if not isinstance(error, msgspec.DecodeError):
        return message
    if not isinstance(error, msgspec.ValidationError):
        return "it is not JSON"
    place = _PLACE.search(message)
    mistake = _PLACE.sub("", message)
    mistake = mistake[:1].lower() + mistake[1:]
    if place is None or not place[2]:
        return mistake
    return f"{place[2]}: {mistake}"


def read_text_of(document: Mapping[str, Any], name: str) -> str:
    """The text of that name; "" if it is missing or anything else."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def digest_of_definition(definition: Struct) -> str:
    """sha-256 of its canonical JSON: the same demands, the same digest.

    A class may name in `LATER` the keys that later versions brought: at its default, such a key is
    left out.
    """
    text = json.dumps(_demands(definition), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache  # msgspec reads the annotations of a class anew each time
def _keys(form: type[Struct]) -> tuple[FieldInfo, ...]:
    return fields(form)


def _demands(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_demands(member) for member in value]
    if not isinstance(value, Struct):
        return plain(value)
    later_keys: frozenset[str] = getattr(value, "LATER", frozenset())
    demands = {}
    for key in _keys(type(value)):
        member = getattr(value, key.name)
        if key.name not in later_keys or member != key.default:
            demands[key.encode_name] = _demands(member)
    return demands
