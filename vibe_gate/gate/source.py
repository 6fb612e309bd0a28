"""One definition file: its tables, what a model makes of them, and every mistake in the words of
the file.

A mistake reads `path:line: key: what is wrong; suggestion`. Keys and values may come from a hostile
tree, so each is quoted before it becomes part of a sentence.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from types import MappingProxyType
from typing import Any, Protocol, TypeGuard, TypeVar

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.rubric import IDENTIFIER
from vibe_gate.domain.tables import (
    MISTAKES_SHOWN,
    Location,
    WrongKey,
    advise_nearest,
    dotted,
    quoted,
    read_table,
)
from vibe_gate.gate.toml_lines import line_of

MAX_BYTES = 1_000_000
"""A definition is written by people; one larger than this is a mistake or an attack."""

MAX_DEPTH = 100
"""Tables and arrays within one another; no definition has more than five."""

MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts: 60 ms for one of this length, hours
for MAX_BYTES.
"""

_TOML_PLACE = expression(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")
_PLAINER = {"Cannot overwrite a value": "a key is set twice in one table"}
T = TypeVar("T", bound=Struct)


class DefinitionTree(Protocol):
    """A tree read as blobs: never from disk, never through symbolic links."""

    def read(self, path: str) -> bytes | None:
        """The content of the regular file at `path`; None if there is none."""
        ...

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        """The paths of symbolic links and submodules at `prefix` or below it, but for those in the
        folder `without`.
        """
        ...

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        """The paths, from the root, of the regular files below the folder `prefix`, but for those
        in `without`.
        """
        ...


class Mistake(Struct, frozen=True):
    """What is wrong, or only odd, at a line of a definition file; `str()` is the sentence."""

    file: str
    """Its path, quoted."""

    line: int

    key: str
    """Which key; "" for the file as a whole."""

    message: str

    suggestion: str = ""

    owner: str = ""
    """The id of the criterion or stage that has the key."""

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}"]
        key = f"{self.key} (id {self.owner})" if self.owner else self.key
        if key:
            parts.append(key)
        sentence = "; ".join(filter(None, (self.message, self.suggestion)))
        if sentence:
            parts.append(sentence)
        return ": ".join(parts)


class Source(Struct, frozen=True):
    """One definition file."""

    path: str

    text: str

    tables: dict[str, Any]

    digest: str
    """The sha-256 of its bytes, in hex."""

    written: Mapping[str, tuple[str, int]] = MappingProxyType({})
    """How a file that is not TOML writes a key of the tables, and at which line."""

    def mistake(self, location: Location, problem: str) -> Mistake:
        """The mistake about a key; in `problem` a line break, which no quoted text holds, begins
        the suggestion.
        """
        message, _, advice = problem.partition("\n")
        if self.written:
            key, line = self.written.get(str(location[0]), (location[0], 1))
            key_path = dotted((key, *location[1:]))
        else:
            line = line_of(self.text, location)
            key_path = dotted(location)
        owner = self._owner_of(location)
        return Mistake(paths.quote(self.path), line, key_path, message, advice, owner)

    def _owner_of(self, location: Location) -> str:
        """The id, quoted, of the criterion or stage that the location is in; "" if it has none."""
        with suppress(LookupError, TypeError):
            if location[0] in ("criterion", "stage"):
                owner_id = self.tables[str(location[0])][location[1]]["id"]
                if not isinstance(owner_id, str):
                    return ""
                return quoted(owner_id)
        return ""

    def values(self, *path: str | None) -> list[tuple[Location, Any]]:
        """Each value at a path of keys, whether right or not, with its location; None stands for
        every item.
        """
        values: list[tuple[Location, Any]] = [((), self.tables)]
        for part in path:
            inner_values: list[tuple[Location, Any]] = []
            for location, value in values:
                for key, member in _members(value, part):
                    inner_values.append(((*location, key), member))
            values = inner_values
        return values


def stem(path: str) -> str:
    """The file's name without its ending: what its id must be."""
    return path.rsplit("/", 1)[-1].rpartition(".")[0]


def digest_of(raw: bytes) -> str:
    """sha-256 in hex."""
    return hashlib.sha256(raw).hexdigest()


def read_text(path: str, raw: bytes) -> str | Mistake:
    """The file's text, or the mistake that keeps it from being read."""
    if len(raw) > MAX_BYTES:
        advice = f"a definition may have at most {MAX_BYTES:,}"
        return Mistake(paths.quote(path), 1, "", f"{len(raw):,} bytes", advice)
    try:
        return raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        message = f"not UTF-8 (byte {raw[error.start]:#04x})"
        line = raw.count(b"\n", 0, error.start) + 1
        return Mistake(paths.quote(path), line, "", message, "save the file as UTF-8")


def read_toml(path: str, raw: bytes) -> Source | Mistake:
    """The file's tables, or the mistake that keeps it from being read."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        return text
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            advice = 'break it up (long text fits in """ quotes)'
            return Mistake(paths.quote(path), number, "", f"over {MAX_LINE:,} characters", advice)
    try:
        tables = _plain(tomllib.loads(text), 0)
    except tomllib.TOMLDecodeError as error:
        return _syntax_mistake(path, text, str(error))
    except (RecursionError, ValueError):  # int() refuses thousands of digits
        message = "arrays or tables are nested too deeply, or a number has too many digits"
        return Mistake(paths.quote(path), 1, "", message)
    return Source(path, text, tables, digest_of(raw))


def _plain(value: Any, depth: int) -> Any:  # noqa: ANN401 - whatever TOML has
    """The value with dates as ISO text. ValueError: nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, (date, time)):
        return str(value)
    return value


def _syntax_mistake(path: str, text: str, error: str) -> Mistake:
    """What tomllib says of a text that it cannot read, at the line that it names."""
    reason = paths.quote(_TOML_PLACE.sub("", error))
    lowered = reason[:1].lower() + reason[1:]
    message = f"not TOML: {_PLAINER.get(reason, lowered)}"
    line = text.rstrip().count("\n") + 1
    place = _TOML_PLACE.search(error)
    if place is None:
        return Mistake(paths.quote(path), line, "", message)
    if place[1]:
        line = int(place[1])
    message += f" (column {place[2]})" if place[2] else " (at the end of the file)"
    return Mistake(paths.quote(path), line, "", message)


def _members(value: object, key: str | None) -> Iterable[tuple[int | str, Any]]:
    """The items of an array, for None; else the value of a table's key, if it is there."""
    if key is None:
        return enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict) and key in value:
        return [(key, value[key])]
    return ()


# What they say


def read_model(
    kind: type[T], tables: dict[str, Any], prefix: Location, source: Source, mistakes: list[Mistake]
) -> T | None:
    """The tables as a value of that class, or None; their mistakes go to `mistakes`."""
    wrong_keys: list[WrongKey] = []
    value = read_table(kind, tables, wrong_keys)
    # What is wrong with a whole file (ids that appear twice) has a mistake of its own.
    wrong_keys = [wrong_key for wrong_key in wrong_keys if wrong_key.location or prefix]
    for wrong_key in wrong_keys[: MISTAKES_SHOWN + 1]:
        mistakes.append(source.mistake(prefix + wrong_key.location, wrong_key.what))
    return value


def is_identifier(name: object) -> TypeGuard[str]:
    """Whether it can be an id."""
    return isinstance(name, str) and re.fullmatch(IDENTIFIER, name) is not None


def check_id(source: Source, mistakes: list[Mistake], key: str = "id") -> None:
    """Add the mistake of an id that is not the file's name."""
    name = source.tables.get(key)
    file_name = stem(source.path)
    if is_identifier(name) and name != file_name:
        names = f"is {quoted(name)}, but the file's name is {quoted(file_name)}"
        mistakes.append(source.mistake((key,), f"{names}\nmake them the same"))


def check_unique(source: Source, array: str, mistakes: list[Mistake]) -> None:
    """Add the mistakes of ids that two tables of an array have."""
    first_locations: dict[str, Location] = {}
    for location, name in source.values(array, None, "id"):
        if not is_identifier(name) or len(mistakes) > MISTAKES_SHOWN:
            continue
        first = first_locations.setdefault(name, location)
        if first != location:
            mistakes.append(source.mistake(location, f"is the id of {dotted(first[:-1])}, too"))


def no_definition(kind: str, name: str, names: Sequence[str]) -> str:
    """That no file defines the agent or rubric that is named; `names`: those that there are."""
    path = paths.quote(f".vibe-gate/{kind}s/{name}.toml")
    message = f"no {kind} {quoted(name)}: there is no file {path} (symbolic links are not followed)"
    advice = advise_nearest(name, names) or "write it, or take the name out"
    return f"{message}\n{advice}"
