"""Documents that a later version may have written: under the same `schema` fields may be added, and are not read.

What this version writes has known keys only (`Model`); what it reads may have more.
Everything else about a document is as strict as ever.

A document is read from its leaves up, each list until the first of its items that is
wrong: a validator that is given all of it at once tells of every item, and a million
wrong ones take gigabytes to tell.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from vibe_gate.domain.event import Event
from vibe_gate.domain.model import Model

M = TypeVar("M", bound=Model)
Way = tuple[int | str, ...]


def read(model: type[M], document: dict[str, Any]) -> M:
    """The document as `model`, keys that it does not know left out. `document` is not changed. ValidationError."""
    return cast("M", _model(model, document, ()))


def read_event(document: dict[str, Any]) -> Event:
    """A line of events.ndjson, as `read`; its `data` may hold any text that JSON can, half characters too."""
    return Event.model_validate({name: value for name, value in document.items() if name in Event.model_fields})


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
    elif isinstance(value, str) and not value.isascii() and not value.isprintable():
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
