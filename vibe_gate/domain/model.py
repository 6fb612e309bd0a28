"""Models of documents that cross disk or wire: unknown keys are refused, or left out when read."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from vibe_gate.domain.escape import expression


class Model(BaseModel):
    """Immutable; an unknown key is an error, never ignored. What validates it is built at its first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


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
Way = tuple[int | str, ...]


def read(model: type[M], document: dict[str, Any]) -> M:
    """The document as `model`, keys that it does not know left out. Raises pydantic.ValidationError.

    It is read from its leaves up, each list until the first of its items that is wrong: a validator that is given all
    of it at once tells of every item, and a million wrong ones take gigabytes to tell.
    """
    return cast("M", _model(model, document, ()))


def _model(model: type[Model], document: dict[str, Any], way: Way) -> Model:
    known = {
        name: _value(annotation, document[name], (*way, name))
        for name, annotation in _fields(model).items()
        if name in document
    }
    return cast("Model", _checked(model, known, way))


@cache
def _fields(model: type[Model]) -> dict[str, Any]:
    """The types of a model's fields by their names in a document, and by their own where a document may have these."""
    found = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    if model.model_config.get("populate_by_name"):
        found |= {name: field.annotation for name, field in model.model_fields.items()}
    return found


def _value(annotation: Any, value: Any, way: Way) -> Any:  # noqa: ANN401 - any JSON
    """The value with what is inside of it read; as it is where nothing in it can be wrong by itself."""
    if isinstance(value, dict):
        model = _model_in(annotation)
        if model is not None:
            return _model(model, value, way)
        if get_origin(annotation) is dict:
            inner = get_args(annotation)[1]
            return {name: _item(inner, item, (*way, name)) for name, item in value.items()}
    elif isinstance(value, list) and get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        return tuple([_item(inner, item, (*way, number)) for number, item in enumerate(value)])
    elif isinstance(value, str) and annotation is not Any and not value.isascii() and not value.isprintable():
        _require_whole(value, way)
    return value


def _require_whole(text: str, way: Way) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _wrong(way, "half a character is no text") from None


@cache
def _model_in(annotation: Any) -> type[Model] | None:  # noqa: ANN401 - any type
    """The model that an object under this type is read as."""
    arms = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next((arm for arm in arms if isinstance(arm, type) and issubclass(arm, Model)), None)


def _item(annotation: Any, item: Any, way: Way) -> Any:  # noqa: ANN401 - any JSON
    made = _value(annotation, item, way)
    return made if isinstance(made, Model) else _checked(annotation, made, way)


def _checked(annotation: Any, value: Any, way: Way) -> Any:  # noqa: ANN401 - any JSON
    try:
        return _validator(annotation).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise _wrong((*way, *first["loc"]), first["msg"]) from None


def _wrong(way: Way, why: str) -> ValidationError:
    said = PydanticCustomError("document", "{why}", {"why": why})
    return ValidationError.from_exception_data("document", [{"type": said, "loc": way, "input": None}])


@cache
def _validator(annotation: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    return TypeAdapter(annotation)
