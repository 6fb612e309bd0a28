"""How documents are read: their types as a schema of pydantic_core, the part of pydantic that validates.

Loaded when the first document is read; pydantic itself takes three times as long to load.
"""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic_core import SchemaValidator

from vibe_gate.domain.model import REQUIRED, Model, ReadRule, key_of, plain, shape_of

_PLAIN = {str: "str", int: "int", float: "float", bool: "bool", date: "date", datetime: "datetime", Any: "any"}

# With a limit of its length a text is read as UTF-8, so that half a surrogate pair is an error.
_CONFIG = {"extra_fields_behavior": "forbid", "allow_inf_nan": False, "str_max_length": 1 << 30}


@cache
def reader(kind: Any) -> SchemaValidator:
    """What reads documents of this class."""
    return SchemaValidator(schema_of(kind))


def json_schema(kind: type[Model], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """The JSON Schema of a document's class."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def encode_default(self, dft: Any) -> Any:
            return plain(dft)

    return Generator().generate(schema_of(kind), mode)


def schema_of(hint: Any) -> Any:
    """The schema of a type, as far as documents have it."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Annotated:
        schema = schema_of(arguments[0])
        for rule in arguments[1:]:
            schema = rule.apply(schema) if isinstance(rule, ReadRule) else schema
        return schema
    if kind is Literal:
        return {"type": "literal", "expected": list(arguments)}
    if kind in (Union, UnionType):
        choices = [schema_of(argument) for argument in arguments if argument is not NoneType]
        union = {"type": "union", "choices": choices} if len(choices) > 1 else choices[0]
        return {"type": "nullable", "schema": union} if NoneType in arguments else union
    if kind is tuple:
        return {"type": "tuple", "items_schema": [schema_of(arguments[0])], "variadic_item_index": 0}
    if kind is dict:
        return {"type": "dict", "keys_schema": schema_of(arguments[0]), "values_schema": schema_of(arguments[1])}
    if hasattr(hint, "_fields"):  # a NamedTuple
        parts = [{"name": name, "schema": schema_of(part)} for name, part in get_type_hints(hint).items()]
        return {"type": "call", "function": hint, "arguments_schema": {"type": "arguments", "arguments_schema": parts}}
    return {"type": _PLAIN[hint]} if hint in _PLAIN else _document(hint)


@cache
def _document(kind: type[Model]) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    fields = [_field(kind, key, name, hints[name]) for key, name in shape_of(kind).names.items()]
    arguments = {"type": "dataclass-args", "dataclass_name": kind.__name__, "fields": fields}
    return {
        "type": "dataclass", "cls": kind, "ref": f"{kind.__module__}.{kind.__name__}", "fields": [*hints],
        "schema": arguments, "post_init": True, "config": _CONFIG,
    }  # fmt: skip


def _field(kind: type[Model], alias: str, name: str, hint: Any) -> Any:
    key = next(key_of(base, name) for base in kind.__mro__ if name in base.__annotations__)
    schema = key.apply(schema_of(hint))
    if key.make_default:
        schema = {"type": "default", "schema": schema, "default_factory": key.make_default}
    elif key.default is not REQUIRED:
        schema = {"type": "default", "schema": schema, "default": key.default}
    aliases = {"validation_alias": alias, "serialization_alias": alias}
    return {"type": "dataclass-field", "name": name, "schema": schema, "kw_only": True, **aliases}
