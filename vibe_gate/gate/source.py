"""One definition file: its tables, what a model makes of them, and every mistake in the words of the file.

A mistake reads `path:line: key: what is wrong; suggestion`. Keys and values may come from a hostile tree, so each is
quoted before it becomes part of a sentence.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, TypeVar, get_args

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.gate import FINGERPRINT
from vibe_gate.domain.model import Model, keys_of
from vibe_gate.domain.rubric import IDENTIFIER

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]
"""The way to a key of a document: names of tables and keys, numbers of items."""

MAX_BYTES = 1_000_000
"""A definition is written by people; one larger than this is a mistake or an attack."""

MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts: 60 ms for one of this length, hours for MAX_BYTES."""

MISTAKES_SHOWN = 50
"""Of one file; more help nobody."""

SHOWN_CHARACTERS = 60
"""Values and keys are cut here: a mistake is a sentence, not a copy of the file."""

WRITE_SCHEMA = "write schema = 1 at the top of the file\na higher number asks for a newer vibe-gate"

_TOML_PLACE = expression(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")
_PLAINER = {"Cannot overwrite a value": "a key is set twice in one table"}
_BARE_KEY = expression(r"[A-Za-z0-9_-]{1,64}\Z")
_PATTERNS = {
    IDENTIFIER: 'lower-case letters, digits, ".", "_" and "-", at most 64',
    FINGERPRINT: "a whole fingerprint, 16 digits of 0 to 9 and a to f",
    r"^[A-Za-z][A-Za-z0-9_-]{0,127}$": "the name of a tool",
    r"^[A-Za-z][A-Za-z0-9_*-]{0,127}(\([^()]*\))?$": "a tool or a rule, as in Bash(git push *)",
    r"\S": "more than white space",
}
_VALUES = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "dict_type": "a table",
    "model_type": "a table",
    "dataclass_type": "a table",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_KINDS = {
    "tuple_type": "must be an array, not {value}\nwrite {array}",
    "missing": "is missing",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} items",
    "string_too_short": "must not be empty",
}

M = TypeVar("M", bound=Model)


class DefinitionTree(Protocol):
    """A tree read as blobs: never from disk, never through symbolic links."""

    def read(self, path: str) -> bytes | None:
        """The content of the regular file at `path`; None if there is none."""
        ...

    def links(self, prefix: str) -> list[str]:
        """The paths of symbolic links and submodules at `prefix` or below it."""
        ...

    def list(self, prefix: str) -> list[str]:
        """The paths, from the root, of the regular files below the folder `prefix`."""
        ...


class Mistake(NamedTuple):
    """What is wrong, or only odd, at a line of a definition file; `str()` is the sentence.

    `file` is quoted; `key` is "" for the file as a whole; `owner`: the id of the criterion or stage that has the key.
    """

    file: str
    line: int
    key: str
    message: str
    suggestion: str = ""
    owner: str = ""

    def __str__(self) -> str:
        key = self.key + (f" (id {self.owner})" if self.owner else "")
        what = "; ".join(filter(None, (self.message, self.suggestion)))
        return ": ".join(filter(None, (f"{self.file}:{self.line}", key, what)))


class Source(NamedTuple):
    """One definition file: its text, its tables, and the sha-256 of its bytes in hex.

    `written`: how a file that is not TOML writes a key of the tables, and at which line.
    """

    path: str
    text: str
    tables: dict[str, Any]
    digest: str
    written: Mapping[str, tuple[str, int]] = MappingProxyType({})

    def mistake(self, location: Location, what: str) -> Mistake:
        """The mistake about a key; in `what` a line break, which no quoted text holds, begins the suggestion."""
        name = None
        with suppress(LookupError, TypeError):
            name = self.tables[str(location[0])][location[1]]["id"] if location[0] in ("criterion", "stage") else None
        message, _, advice = what.partition("\n")
        owner = quoted(name) if isinstance(name, str) else ""
        if self.written:
            key, line = self.written.get(str(location[0]), (location[0], 1))
            location = (key, *location[1:])
        else:
            from vibe_gate.gate.toml_lines import line_of  # for mistakes only

            line = line_of(self.text, location)
        return Mistake(paths.quote(self.path), line, dotted(location), message, advice, owner)

    def values(self, *path: str | None) -> list[tuple[Location, Any]]:
        """Each value at a path of keys, whether right or not, with its location; None stands for every item."""
        found: list[tuple[Location, Any]] = [((), self.tables)]
        for part in path:
            found = [((*place, key), value) for place, inner in found for key, value in _members(inner, part)]
        return found


def stem(path: str) -> str:
    """The file's name without its ending: what its id must be."""
    return path.rsplit("/", 1)[-1].rpartition(".")[0]


def digest_of(raw: bytes) -> str:
    """sha-256 in hex."""
    return hashlib.sha256(raw).hexdigest()


def read_text(path: str, raw: bytes) -> str | Mistake:
    """The file's text, or the mistake that keeps it from being read."""
    if len(raw) > MAX_BYTES:
        return Mistake(paths.quote(path), 1, "", f"{len(raw):,} bytes", f"a definition may have at most {MAX_BYTES:,}")
    try:
        return raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        what = f"not UTF-8 (byte {raw[error.start]:#04x})"
        return Mistake(paths.quote(path), raw.count(b"\n", 0, error.start) + 1, "", what, "save the file as UTF-8")


def read_toml(path: str, raw: bytes) -> Source | Mistake:
    """The file's tables, or the mistake that keeps it from being read."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        return text
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            advice = 'break it up (long text fits in """ quotes)'
            return Mistake(paths.quote(path), number, "", f"over {MAX_LINE:,} characters", advice)
    from pydantic_core import from_json

    try:
        tables = tomllib.loads(text)
        from_json(as_json(tables))
    except tomllib.TOMLDecodeError as error:
        return _syntax(path, text, str(error))
    except (RecursionError, ValueError):  # int() refuses thousands of digits
        what = "arrays or tables are nested too deeply, or a number has too many digits"
        return Mistake(paths.quote(path), 1, "", what)
    return Source(path, text, tables, digest_of(raw))


def as_json(tables: dict[str, Any]) -> str:
    """The tables as JSON; dates as ISO text."""
    return json.dumps(tables, default=str)


def _syntax(path: str, text: str, message: str) -> Mistake:
    found = _TOML_PLACE.search(message)
    what = paths.quote(_TOML_PLACE.sub("", message))
    what = f"not TOML: {_PLAINER.get(what, what[:1].lower() + what[1:])}"
    if found:
        what += f" (column {found[2]})" if found[2] else " (at the end of the file)"
    line = int(found[1]) if found and found[1] else text.rstrip().count("\n") + 1
    return Mistake(paths.quote(path), line, "", what)


def _members(value: object, key: str | None) -> Iterable[tuple[int | str, Any]]:
    """The items of an array, for None; else the value of a table's key, if it is there."""
    if key is None:
        return enumerate(value) if isinstance(value, list) else ()
    return [(key, value[key])] if isinstance(value, dict) and key in value else ()


# What they say


def validated(
    model: type[M], tables: dict[str, Any], prefix: Location, source: Source, found: list[Mistake]
) -> M | None:
    """The tables as `model`, or None, and their mistakes go to `found`.

    TOML has types of its own, so nothing is converted: `must = "yes"` is a mistake. Its dates are read as ISO text.
    """
    from pydantic_core import ValidationError

    try:
        return model.model_validate_json(as_json(tables), strict=True)
    except ValidationError as error:
        every = error.errors(include_url=False)
        # A list whose items are all wrong counts as empty, too. Ids that appear twice are found by _rubric.
        details = [one for one in every if one["loc"] and not (one["type"] == "too_short" and one["input"])]
        found += [
            source.mistake(prefix + _location(one), _sentence(one, model)) for one in details[: MISTAKES_SHOWN + 1]
        ]
        return None


def is_identifier(name: object) -> TypeGuard[str]:
    """Whether it can be an id."""
    return isinstance(name, str) and re.fullmatch(IDENTIFIER, name) is not None


def check_id(source: Source, found: list[Mistake]) -> None:
    """Add the mistake of an id that is not the file's name."""
    name, own = source.tables.get("id"), stem(source.path)
    if is_identifier(name) and name != own:
        what = f"is {quoted(name)}, but the file's name is {quoted(own)}\nmake them the same"
        found.append(source.mistake(("id",), what))


def check_unique(source: Source, array: str, found: list[Mistake]) -> None:
    """Add the mistakes of ids that two tables of an array have."""
    first: dict[str, Location] = {}
    for location, name in source.values(array, None, "id"):
        if is_identifier(name) and first.setdefault(name, location) != location and len(found) <= MISTAKES_SHOWN:
            found.append(source.mistake(location, f"is the id of {dotted(first[name][:-1])}, too"))


def missing(kind: str, name: str, known: Sequence[str]) -> str:
    """That no file defines the agent or rubric that is named."""
    why = f"no {kind} {quoted(name)}: there is no file {paths.quote(f'.vibe-gate/{kind}s/{name}.toml')}"
    advice = did_you_mean(name, known) or "write it, or take the name out"
    return f"{why} (symbolic links are not followed)\n{advice}"


# How a mistake gets its sentence


def _sentence(detail: ErrorDetails, model: type[Any]) -> str:
    kind, location, value = detail["type"], _location(detail), detail["input"]
    context = detail.get("ctx", {})
    if location == ("schema",):
        return WRITE_SCHEMA
    if kind in _UNKNOWN:
        known = list(keys_of(_table_of(model, location)))
        return f"unknown key\n{suggestion(str(location[-1]), known, 'known keys here')}"
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", '"')
        words = re.findall(r'"([^"]*)"', expected)
        if detail["loc"][-1] == "[key]":
            return f"unknown name\n{suggestion(str(value), words, 'known names here')}"
        return "\n".join(filter(None, (f"must be {expected}, not {_shown(value)}", did_you_mean(value, words))))
    if kind in _VALUES:
        return f"must be {_VALUES[kind].format(**context)}, not {_shown(value)}"
    if kind in _KINDS:
        return _KINDS[kind].format(value=_shown(value), array=_as_array(value, location), **context)
    if kind == "string_pattern_mismatch" and context["pattern"] in _PATTERNS:
        return f"must be {_PATTERNS[context['pattern']]}, not {_shown(value)}"
    if kind == "value_error":
        told = paths.quote(str(context["error"]))
        return f"{quoted(value)} {told}" if isinstance(value, str) else told
    said = detail["msg"].replace("Input should be", "must be")
    return paths.quote(said[:1].lower() + said[1:])


def _location(detail: ErrorDetails) -> Location:
    """Where the mistake is. pydantic appends "[key]" if a key is wrong; an unknown key may have that very name."""
    location = detail["loc"]
    return location[:-1] if location[-1:] == ("[key]",) and detail["type"] not in _UNKNOWN else location


def suggestion(word: str, known: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    return did_you_mean(word, known) or f"{kind}: {', '.join(sorted(known))}"


def did_you_mean(value: object, known: Sequence[str]) -> str:
    """`did you mean ...?`, or "" if nothing is near."""
    near = nearest(value, known) if isinstance(value, str) else ""
    return f"did you mean {quoted(near)}?" if near else ""


def quoted(text: str) -> str:
    """Text from a file in double quotes: cut, and with nothing invisible left in it."""
    cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    shown = paths.quote(cut)
    return shown if shown.startswith('"') else f'"{shown}"'


def _shown(value: object) -> str:
    """A value from a file as TOML would have it; an array or a table by its kind."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "a table"
    return str(value).lower()[:SHOWN_CHARACTERS]


def _as_array(value: object, location: Location) -> str:
    """How to write what is not an array as one."""
    if not isinstance(value, str):
        return f"[[{dotted(location)}]] with two brackets"
    words = value.split() if location[-1] == "command" else [value]
    return f"[{', '.join(map(quoted, words))}]"


def dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" if _BARE_KEY.match(part) else f".{quoted(part)}"
        for part in location
    )
    return "".join(parts).removeprefix(".")


def _table_of(model: type[Any], location: Location) -> type[Any]:
    """The model of the table in which the last part of the location stands."""
    for part in location[:-1]:
        model = _model_within(keys_of(model).get(str(part))) or model
    return model


def _model_within(annotation: object) -> type[Any] | None:
    if isinstance(annotation, type) and hasattr(annotation, "model_validate"):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_within(part))), None)
