"""Documents that cross disk or wire: values whose classes cost a start next to nothing, and how they are read.

A class derived from `Model` names its keys as a dataclass does. Making, copying and writing a value is plain Python.
Reading one is the work of pydantic_core (`domain.reading`), loaded when the first document is read: unknown keys are
refused, or left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import partial
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    NoReturn,
    TypeVar,
    cast,
    dataclass_transform,
    get_type_hints,
)

from vibe_gate.domain.escape import expression

if TYPE_CHECKING:
    from typing import Literal, Self

    from pydantic_core import SchemaValidator

T = TypeVar("T")

REQUIRED: Any = object()


class ReadRule:
    """What is required of a type when a value of it is read: `apply` adds it to the type's schema of pydantic_core."""

    def __init__(self, apply: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.apply = apply


class Key(ReadRule):
    """A key's default, and what else is said of it."""

    def __init__(self, default: Any, make_default: Callable[[], Any] | None, about: dict[str, Any]) -> None:
        super().__init__(partial(_limited, about))
        self.default, self.make_default, self.about = default, make_default, about


def _limited(about: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the limits and the description of a key; limits of an optional value are the value's."""
    limits = {name: value for name, value in about.items() if name not in ("alias", "description")}
    within = schema["type"] in ("nullable", "function-after")
    schema = schema | ({"schema": _limited(limits, schema["schema"])} if within else limits)
    if "description" in about:
        schema["metadata"] = {"pydantic_js_updates": {"description": about["description"]}}
    return schema


def Field(*, default: Any = REQUIRED, default_factory: Callable[[], Any] | None = None, **about: Any) -> Any:
    """A key with more than a type and a default: `alias`, `description` and limits, as of pydantic's `Field`."""
    return Key(default, default_factory, about)


def checked_by(check: Callable[[T], T], when: Literal["before", "after"] = "after") -> ReadRule:
    """A type whose values `check` returns, or refuses with ValueError; `when`: as the document has them, or read."""
    function = {"type": "no-info", "function": check}
    return ReadRule(lambda schema: {"type": f"function-{when}", "function": function, "schema": schema})


def told_by(key: str) -> ReadRule:
    """A union of documents, of which this key says by its literal which one it is."""

    def apply(union: dict[str, Any]) -> dict[str, Any]:
        fields = ((one, field) for one in union["choices"] for field in one["schema"]["fields"] if field["name"] == key)
        choices = {literal: one for one, field in fields for literal in field["schema"]["expected"]}
        return {"type": "tagged-union", "discriminator": key, "choices": choices}

    return ReadRule(apply)


Timestamp = Annotated[datetime, Key(REQUIRED, None, {"tz_constraint": "aware"})]
"""With a time zone."""

Many = Annotated[tuple[T, ...], ReadRule(lambda schema: schema | {"fail_fast": True})]
"""Items of a document, read until the first that is wrong: a million errors would take gigabytes."""


class Shape(NamedTuple):
    """The keys of a class: attributes by the names in documents and by those in code, defaults, attributes of type
    `float`."""

    names: dict[str, str]
    given: dict[str, str]
    defaults: dict[str, Any]
    made: dict[str, Callable[[], Any]]
    floats: set[str]


_SHAPES: dict[type[Model], Shape] = {}


def shape_of(kind: type[Model]) -> Shape:
    """The keys of a class, its base's first."""
    if shape := _SHAPES.get(kind):
        return shape
    shape = Shape({}, {}, {}, {}, set())
    if kind is not Model:
        base = shape_of(kind.__bases__[0])
        shape = Shape({**base.names}, {**base.given}, {**base.defaults}, {**base.made}, {*base.floats})
    for name, annotation in kind.__annotations__.items():
        key = key_of(kind, name)
        shape.names[key.about.get("alias") or kind.key_in_documents(name)] = name
        shape.given[key.about.get("alias", name)] = name
        if annotation.partition(" ")[0] == "float":
            shape.floats.add(name)
        if key.make_default:
            shape.made[name] = key.make_default
        elif key.default is not REQUIRED:
            shape.defaults[name] = _fraction(key.default) if name in shape.floats else key.default
    _SHAPES[kind] = shape
    return shape


def key_of(kind: type, name: str) -> Key:
    """What a class itself says of one of its keys."""
    value = vars(kind).get(name, REQUIRED)
    return value if isinstance(value, Key) else Key(value, None, {})


def _fraction(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
class Model:
    """Immutable, equal by its values. What code makes is checked by `__post_init__` alone, what is read by its types.

    A whole number under a key of type `float` becomes a float: documents do not show which code made them.
    """

    def __init__(self, **given: Any) -> None:
        shape = shape_of(type(self))
        values = dict(shape.defaults)
        for key, value in given.items():
            name = shape.given[key]
            values[name] = _fraction(value) if name in shape.floats else value
        for name, make in shape.made.items():
            if name not in values:
                values[name] = make()
        if len(values) < len(shape.names):
            raise TypeError(f"{type(self).__name__} lacks {', '.join(sorted({*shape.names.values()} - values.keys()))}")
        self.__dict__.update(values)
        self.__post_init__()

    @staticmethod
    def key_in_documents(name: str) -> str:
        """The key of an attribute without an alias."""
        return name

    def __post_init__(self) -> None:
        """Refuse values that do not go together, with ValueError; of a document that is read, too."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__[name] for name in shape_of(type(self)).names.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with other values of these attributes."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **update)
        return made

    def model_dump(
        self, *, exclude_none: bool = False, exclude_defaults: bool = False, exclude: Collection[str] = ()
    ) -> dict[str, Any]:
        """The document as JSON has it, under its own keys; `exclude` are attributes."""
        shape, document = shape_of(type(self)), {}
        for key, name in shape.names.items():
            value = self.__dict__[name]
            is_default = exclude_defaults and name in shape.defaults and value == shape.defaults[name]
            if not (name in exclude or is_default or (exclude_none and value is None)):
                document[key] = plain(value, exclude_none=exclude_none, exclude_defaults=exclude_defaults)
        return document

    def model_dump_json(self, *, indent: int | None = None, exclude: Collection[str] = ()) -> str:
        """The document as JSON text."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.model_dump(exclude=exclude), ensure_ascii=False, indent=indent, separators=separators)

    @classmethod
    def model_validate(cls, document: object, *, extra: Literal["ignore"] | None = None) -> Self:
        """The value of a document. Raises pydantic.ValidationError, a ValueError."""
        return cast("Self", _reader(cls).validate_python(document, extra=extra))

    @classmethod
    def model_validate_json(cls, document: str | bytes, *, strict: bool | None = None) -> Self:
        """The same of JSON text; `strict`: nothing is converted."""
        return cast("Self", _reader(cls).validate_json(document, strict=strict))

    @classmethod
    def model_json_schema(cls, *, mode: Literal["validation", "serialization"] = "validation") -> dict[str, Any]:
        """The document's JSON Schema."""
        from vibe_gate.domain.reading import json_schema

        return json_schema(cls, mode)


class CheckedModel(Model):
    """A document that people make in code: its values are checked then, too. Raises pydantic.ValidationError."""

    def __init__(self, **given: Any) -> None:
        _reader(type(self)).validate_python(given, self_instance=self)


def _reader(kind: object) -> SchemaValidator:
    from vibe_gate.domain.reading import reader

    return reader(kind)


def plain(value: Any, **without: Any) -> Any:
    """A value of a document as JSON has it; `without` as of `model_dump`."""
    if isinstance(value, Model):
        return value.model_dump(**without)
    if isinstance(value, (tuple, list)):
        return [plain(item, **without) for item in value]
    if isinstance(value, dict):
        return {name: plain(item, **without) for name, item in value.items()}
    if isinstance(value, datetime):
        return iso(value)
    return value.isoformat() if isinstance(value, date) else value


def iso(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def keys_of(kind: type[Model]) -> dict[str, Any]:
    """The types of a document's values, by its keys."""
    hints = get_type_hints(kind)
    return {key: hints[name] for key, name in shape_of(kind).names.items()}


MAX_NAMES = 100_000
"""Of an object whose names a document chooses itself."""


def _require_few_members(value: object) -> object:
    if isinstance(value, dict) and len(value) > MAX_NAMES:
        raise ValueError(f"it has more than {MAX_NAMES:,} members")
    return value


Named = Annotated[dict[str, T], checked_by(_require_few_members, "before")]
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


D = TypeVar("D", bound="Model")


def read(model: type[D], document: dict[str, Any]) -> D:
    """The document as `model`, keys that it does not know left out. Raises pydantic.ValidationError."""
    return model.model_validate(document, extra="ignore")


def first_mistake(error: ValueError) -> str:
    """The first thing that is wrong with a document, as "where: what" if pydantic says it."""
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def text_of(document: Mapping[str, Any], name: str) -> str:
    """The text of that name; "" if it is missing or anything else."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def digest_of(definition: Mapping[str, Any]) -> str:
    """sha-256 of its canonical JSON: the same demands, the same digest."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
