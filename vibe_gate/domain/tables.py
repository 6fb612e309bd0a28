"""What people write, as TOML or in Python: a table becomes a value, or every mistake in it at once,
in plain words.

A key's type says what it takes (`msgspec.Meta`: limits, patterns). What a type cannot say stands in
its `Meta(extra=)`: `check` is a function that refuses a value with ValueError, `means` says in
words what a pattern asks for, `says` is the whole sentence about a key that is missing or wrong.
Keys and values may come from a hostile tree, so each is quoted before it becomes part of a
sentence.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields, force_setattr

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.escape import expression, shorten_text

T = TypeVar("T", bound=Struct)

Location = tuple[int | str, ...]
"""The way to a key of a document: names of tables and keys, numbers of items."""

MISTAKES_SHOWN = 50
"""Of one file; more help nobody."""

SHOWN_CHARACTERS = 60
"""Values and keys are cut here: a mistake is a sentence, not a copy of the file."""

_BARE_KEY = expression(r"[A-Za-z0-9_-]{1,64}\Z")
_EXPECTED = expression(r"Expected `(\w+)[^`]*`(?: (of length )?([<>]=?) (\S+))?")
_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    date: "a date, such as 2026-01-31",
}
_UNIONS = (Union, UnionType)
_LIMITS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


class WrongKey(Struct, frozen=True):
    """What is wrong at a key of a table; in `what` a line break, which no quoted text holds, begins
    a suggestion.
    """

    location: Location
    what: str


def read_table(
    kind: type[T], table: Mapping[str, Any], mistakes: list[WrongKey], at: Location = ()
) -> T | None:
    """The table as a value of that class, or None, and what is wrong with it goes to `mistakes`:
    MISTAKES_SHOWN and more.

    Nothing is converted: `must = "yes"` is a mistake. What `__post_init__` refuses is told once all
    keys are right.
    """
    mistakes_before = len(mistakes)
    keys = {key.encode_name: key for key in _keys(kind)}
    values = {}
    for name, key in keys.items():
        location = (*at, name)
        if name in table:
            values[key.name] = _read(key.type, table[name], location, mistakes)
        elif key.required:
            problem = _rule(key.type, "says") or "is missing"
            mistakes.append(WrongKey(location, problem))
    for name in table:
        if name not in keys and len(mistakes) <= MISTAKES_SHOWN:
            advice = suggestion(name, list(keys), "known keys here")
            mistakes.append(WrongKey((*at, name), f"unknown key\n{advice}"))
    if len(mistakes) > mistakes_before:
        return None
    try:
        return kind(**values)
    except ValueError as error:
        mistakes.append(WrongKey(at, paths.quote(str(error))))
        return None


def require_right(value: Struct, except_for: Collection[str] = ()) -> None:
    """Hold what code made against its keys' types (a list becomes a tuple). ValueError names every
    wrong key. `except_for`: keys that no document has.
    """
    mistakes: list[WrongKey] = []
    for key in _keys(type(value)):
        key_value = getattr(value, key.name)
        if key.name in except_for:
            continue
        if key_value is key.default:  # left as a file's is that has no such key: digests differ
            continue
        wrong_before = len(mistakes)
        read_value = _read(key.type, key_value, (key.encode_name,), mistakes)
        if len(mistakes) == wrong_before:
            force_setattr(value, key.name, read_value)
    if mistakes:
        raise ValueError("; ".join(map(sentence, mistakes)))


def sentence(problem: WrongKey) -> str:
    """The key and what is wrong with it, on one line."""
    text = problem.what.replace("\n", "; ")
    if not problem.location:
        return text
    return f"{dotted(problem.location)}: {text}"


def keys_of(kind: type[Struct]) -> dict[str, Any]:
    """The types of a document's values, by its keys."""
    return {key.encode_name: key.type for key in _keys(kind)}


@cache
def _keys(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return fields(kind)


# A value by its type


def _read(hint: Any, value: Any, at: Location, mistakes: list[WrongKey]) -> Any:
    """The value as its type has it; what is wrong with it goes to `mistakes`."""
    bare_type = _bare(hint)
    inner = _chosen(bare_type, value)
    is_struct = isinstance(inner, type) and issubclass(inner, Struct)
    is_made = is_struct and isinstance(value, inner)  # in Python, and right since then
    if inner is None or is_made:
        return value
    if inner is not bare_type:
        return _read(inner, value, at, mistakes)
    kind = Struct if is_struct else get_origin(inner)
    if kind is tuple and isinstance(value, (list, tuple)):
        return _items(hint, value, at, mistakes)
    if kind is Struct and isinstance(value, Mapping):
        return read_table(inner, value, mistakes, at)
    if kind is dict and isinstance(value, Mapping):
        return {name: _member(inner, name, item, at, mistakes) for name, item in value.items()}
    if kind is tuple:
        mistake = f"must be an array, not {_describe_value(value)}\nwrite {_as_array(value, at)}"
    elif kind in (Struct, dict):
        mistake = f"must be a table, not {_describe_value(value)}"
    else:
        value, mistake = _scalar(hint, inner, value)
    if mistake:
        mistakes.append(WrongKey(at, _rule(hint, "says") or mistake))
    return value


def _bare(hint: Any) -> Any:
    """The type without its rules."""
    if get_origin(hint) is not Annotated:
        return hint
    return get_args(hint)[0]


def _rule(hint: Any, name: str) -> Any:
    """What the type says of itself under that name, in the attributes of its `Meta` or in its
    `extra`.
    """
    if get_origin(hint) is not Annotated:
        return None
    for rule in get_args(hint)[1:]:
        value = rule.extra.get(name) if rule.extra else None
        value = value or getattr(rule, name, None)
        if value is not None:
            return value
    return None


def _chosen(hint: Any, value: object) -> Any:
    """Of a union the member that the value is meant for, None if it has no value: of an array or
    its one item, say.
    """
    if get_origin(hint) not in _UNIONS:
        return hint
    members = [member for member in get_args(hint) if member is not NoneType]
    if value is None and len(members) < len(get_args(hint)):
        return None
    if len(members) == 1:
        return members[0]
    arrays = [member for member in members if get_origin(member) is tuple]
    if not arrays:
        return hint
    if isinstance(value, str):
        return str
    return arrays[0]


def _items(
    hint: Any, value: Sequence[Any], at: Location, mistakes: list[WrongKey]
) -> tuple[Any, ...]:
    item, _ = get_args(_bare(hint))
    read_items = []
    for number, item_value in enumerate(value):
        read_items.append(_read(item, item_value, (*at, number), mistakes))
        if len(mistakes) > MISTAKES_SHOWN:
            break
    if not value and _rule(hint, "min_length"):
        mistakes.append(WrongKey(at, "must not be empty"))
    max_items = _rule(hint, "max_length")
    if max_items and len(value) > max_items:
        mistakes.append(WrongKey(at, f"must have at most {max_items} items"))
    return tuple(read_items)


def _member(hint: Any, name: str, value: Any, at: Location, mistakes: list[WrongKey]) -> Any:
    """A value of a table whose keys are names; a wrong name is a mistake, too."""
    key, inner = get_args(hint)
    if get_origin(key) is Annotated:
        _, mistake = _scalar(key, str, name)
        if mistake:
            mistakes.append(WrongKey((*at, name), mistake))
    return _read(inner, value, (*at, name), mistakes)


def _scalar(hint: Any, inner: Any, value: Any) -> tuple[Any, str]:
    """The value that msgspec makes of it, and what is wrong with it, or ""."""
    if inner is float and isinstance(value, float) and not math.isfinite(value):
        return value, f"must be a finite number, not {_describe_value(value)}"
    check = _rule(hint, "check")
    try:
        if check and get_origin(inner) in _UNIONS:  # which has no type to name
            check(value)
        value = msgspec.convert(value, hint)
        if check:
            check(value)
        if isinstance(value, str):
            value.encode()
    except msgspec.ValidationError as error:
        return value, _refused(str(error), hint, inner, value)
    except UnicodeEncodeError:
        return value, "must be text, without half a surrogate pair"
    except ValueError as error:
        reason = paths.quote(str(error))
        if isinstance(value, str):
            reason = f"{quoted(value)} {reason}"
        return value, reason
    return value, ""


def _refused(message: str, hint: Any, inner: Any, value: object) -> str:
    """msgspec's message in our words."""
    if get_origin(inner) is Literal:
        return _refused_word(get_args(inner), value)
    described_value = _describe_value(value)
    match = _EXPECTED.match(message)
    if match and match[3]:
        is_length, limit, number = match[2], _LIMITS[match[3]], match[4]
        if is_length and number == "1":
            return "must not be empty"
        if is_length:
            return f"must have {limit} {int(number):,} characters"
        return f"must be {limit} {float(number):g}, not {described_value}"
    means = _rule(hint, "means")
    if means and "regex" in message:
        return f"must be {means}, not {described_value}"
    return f"must be {_TYPES[inner]}, not {described_value}"


def _refused_word(words: Sequence[str], value: object) -> str:
    """That the value is not one of these words, and which of them may be meant."""
    quoted_words = [f'"{word}"' for word in words]
    expected = quoted_words[-1]
    if len(words) > 1:
        expected = f"{', '.join(quoted_words[:-1])} or {expected}"
    mistake = f"must be {expected}, not {_describe_value(value)}"
    advice = advise_nearest(value, words)
    if advice:
        return f"{mistake}\n{advice}"
    return mistake


# Words


def suggestion(word: str, candidates: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    return advise_nearest(word, candidates) or f"{kind}: {', '.join(sorted(candidates))}"


def advise_nearest(value: object, candidates: Sequence[str]) -> str:
    """`did you mean ...?`, or "" if nothing is near."""
    if not isinstance(value, str):
        return ""
    near = nearest(value, candidates)
    return f"did you mean {quoted(near)}?" if near else ""


def quoted(text: str) -> str:
    """Text from a file in double quotes: cut, and with nothing invisible left in it."""
    quoted_text = paths.quote(shorten_text(text, SHOWN_CHARACTERS))
    if quoted_text.startswith('"'):
        return quoted_text
    return f'"{quoted_text}"'


def dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    return "".join(map(_dotted_part, location)).removeprefix(".")


def _dotted_part(part: int | str) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _BARE_KEY.match(part):
        return f".{part}"
    return f".{quoted(part)}"


def _describe_value(value: object) -> str:
    """A value from a file as TOML would have it; an array or a table by its kind."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "an array"
    return paths.quote(str(value).lower()[:SHOWN_CHARACTERS])


def _as_array(value: object, location: Location) -> str:
    """How to write what is not an array as one."""
    if not isinstance(value, str):
        return f"[[{dotted(location)}]] with two brackets"
    words = value.split() if location[-1] == "command" else [value]
    return f"[{', '.join(map(quoted, words))}]"
