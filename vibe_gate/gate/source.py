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
from itertools import islice
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
    did_you_mean,
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
    """What is wrong, or only odd, at a line of a definition file; `str()` is the sentence.

    `file` is quoted; `key` is "" for the file as a whole; `owner`: the id of the criterion or stage
    that has the key.
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


class Source(Struct, frozen=True):
    """One definition file: its text, its tables, and the sha-256 of its bytes in hex.

    `written`: how a file that is not TOML writes a key of the tables, and at which line.
    """

    path: str
    text: str
    tables: dict[str, Any]
    digest: str
    written: Mapping[str, tuple[str, int]] = MappingProxyType({})

    def mistake(self, location: Location, what: str) -> Mistake:
        """The mistake about a key; in `what` a line break, which no quoted text holds, begins the
        suggestion.
        """
        name = None
        with suppress(LookupError, TypeError):
            name = (
                self.tables[str(location[0])][location[1]]["id"]
                if location[0] in ("criterion", "stage")
                else None
            )
        message, _, advice = what.partition("\n")
        owner = quoted(name) if isinstance(name, str) else ""
        if self.written:
            key, line = self.written.get(str(location[0]), (location[0], 1))
            location = (key, *location[1:])
        else:
            line = line_of(self.text, location)
        return Mistake(paths.quote(self.path), line, dotted(location), message, advice, owner)

    def values(self, *path: str | None) -> list[tuple[Location, Any]]:
        """Each value at a path of keys, whether right or not, with its location; None stands for
        every item.
        """
        found: list[tuple[Location, Any]] = [((), self.tables)]
        for part in path:
            found = [
                ((*place, key), value)
                for place, inner in found
                for key, value in _members(inner, part)
            ]
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
        return Mistake(
            paths.quote(path),
            1,
            "",
            f"{len(raw):,} bytes",
            f"a definition may have at most {MAX_BYTES:,}",
        )
    try:
        return raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        what = f"not UTF-8 (byte {raw[error.start]:#04x})"
        return Mistake(
            paths.quote(path),
            raw.count(b"\n", 0, error.start) + 1,
            "",
            what,
            "save the file as UTF-8",
        )


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
        return _syntax(path, text, str(error))
    except (RecursionError, ValueError):  # int() refuses thousands of digits
        what = "arrays or tables are nested too deeply, or a number has too many digits"
        return Mistake(paths.quote(path), 1, "", what)
    return Source(path, text, tables, digest_of(raw))


def _plain(value: Any, depth: int) -> Any:  # noqa: ANN401 - whatever TOML has
    """The value with dates as ISO text. ValueError: nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return str(value) if isinstance(value, (date, time)) else value


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
    kind: type[T], tables: dict[str, Any], prefix: Location, source: Source, found: list[Mistake]
) -> T | None:
    """The tables as a value of that class, or None, and their mistakes go to `found`."""
    problems: list[WrongKey] = []
    value = read_table(kind, tables, problems)
    # What is wrong with a whole file (ids that appear twice) has a mistake of its own.
    told = (one for one in problems if one.location or prefix)
    found += [
        source.mistake(prefix + one.location, one.what) for one in islice(told, MISTAKES_SHOWN + 1)
    ]
    return value


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
        if (
            is_identifier(name)
            and first.setdefault(name, location) != location
            and len(found) <= MISTAKES_SHOWN
        ):
            found.append(source.mistake(location, f"is the id of {dotted(first[name][:-1])}, too"))


def missing(kind: str, name: str, known: Sequence[str]) -> str:
    """That no file defines the agent or rubric that is named."""
    why = f"no {kind} {quoted(name)}: there is no file {paths.quote(f'.vibe-gate/{kind}s/{name}.toml')}"
    advice = did_you_mean(name, known) or "write it, or take the name out"
    return f"{why} (symbolic links are not followed)\n{advice}"
