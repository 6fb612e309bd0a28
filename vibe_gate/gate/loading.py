"""From a tree to the gate in force, or to every mistake at once, in the words of its file.

A mistake reads `path: key: what is wrong; suggestion`. Keys and values may come from a hostile tree, so each is quoted
before it becomes part of a sentence.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, from_json

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.gate import Gate, GateFile, Origin, Suppression, SuppressionsFile
from vibe_gate.domain.rubric import IDENTIFIER, Criterion, Rubric
from vibe_gate.errors import DefinitionError

FOLDER = ".vibe-gate"
GATE_PATH = f"{FOLDER}/gate.toml"
RUBRICS = f"{FOLDER}/rubrics/"
SUPPRESSIONS = f"{FOLDER}/suppressions.toml"
BUILT_IN = Path(__file__).with_name("built_in")

OTHER_FOLDERS = ("agents", "workflows", "calibration", "baseline", "cases")
"""Folders of other features; what they hold is not read here."""

MAX_BYTES = 1_000_000
"""A definition is written by people; one larger than this is a mistake or an attack."""

MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts: 60 ms for one of this length, hours for MAX_BYTES."""

MISTAKES_SHOWN = 50
"""Of one file; more help nobody."""

SHOWN_CHARACTERS = 60
"""Values and keys are cut here: a mistake is a sentence, not a copy of the file."""

_TOML_PLACE = expression(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")
_PLAINER = {"Cannot overwrite a value": "a key is set twice in one table"}
_BARE_KEY = expression(r"[A-Za-z0-9_-]{1,64}\Z")
_KINDS = {
    "bool_type": "must be true or false, not {value}",
    "int_type": "must be a whole number, not {value}",
    "float_type": "must be a number, not {value}",
    "string_type": "must be text, not {value}",
    "tuple_type": "must be an array, not {value}; write {array}",
    "dict_type": "must be a table, not {value}",
    "model_type": "must be a table, not {value}",
    "model_attributes_type": "must be a table, not {value}",
    "finite_number": "must be a finite number, not {value}",
    "greater_than": "must be more than {gt:g}, not {value}",
    "greater_than_equal": "must be at least {ge:g}, not {value}",
    "less_than": "must be less than {lt:g}, not {value}",
    "less_than_equal": "must be at most {le:g}, not {value}",
    "missing": "is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}

Location = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)


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


class DefinitionFiles(dict[str, bytes]):
    """Files by their paths, as a DefinitionTree."""

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        return self.get(path)

    def links(self, prefix: str) -> list[str]:
        """None."""
        return []

    def list(self, prefix: str) -> list[str]:
        """The paths below the folder."""
        return [path for path in self if path.startswith(f"{prefix}/")]


@dataclass(frozen=True, slots=True)
class Source:
    """One definition file: its tables, and the sha-256 of its bytes in hex."""

    path: str
    tables: dict[str, Any]
    digest: str

    def mistake(self, location: Location, what: str) -> str:
        """The sentence about a key; one of a criterion is told with the criterion's id."""
        key = _dotted(location)
        with suppress(LookupError, TypeError):
            name = self.tables["criterion"][location[1]]["id"] if location[0] == "criterion" else None
            key += f" (id {_quoted(name)})" if isinstance(name, str) else ""
        return ": ".join(part for part in (paths.quote(self.path), key, what) if part)


def load_gate(tree: DefinitionTree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None if it defines none.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    gate, found = _read(tree, revision, origin)
    if found:
        raise DefinitionError(found)
    return gate


def mistakes(tree: DefinitionTree) -> list[str]:
    """Every mistake in the tree's definitions, one sentence each; [] when all is right."""
    return _read(tree, "", "trusted")[1]


def without_effect(gate: Gate) -> list[str]:
    """What the gate asks for and this version does not do yet, as sentences: nothing may only look alive."""
    said = [
        f"{criterion.check_name!r} of criterion {criterion.id!r} {CHECKS[criterion.check_name].not_yet}"
        for rubric in gate.rubrics
        for criterion in rubric.checked
        if CHECKS[criterion.check_name].not_yet
    ]
    if "trust" in gate.file.model_fields_set:
        said.append("[trust] uncalibrated decides nothing in this version: judges cannot be calibrated yet")
    return said


def built_in_gate() -> Gate:
    """The gate for a repository without definitions: offline checks and a small general rubric."""
    files = {
        f"{FOLDER}/{file.relative_to(BUILT_IN).as_posix()}": file.read_bytes() for file in BUILT_IN.rglob("*.toml")
    }
    gate = load_gate(DefinitionFiles(files), revision="", origin="built-in")
    assert gate is not None  # the files are part of the package
    digests = tuple((path.replace(".vibe-gate/", "built-in/"), digest) for path, digest in gate.digests)
    return dataclasses.replace(gate, digests=digests)


def _read(tree: DefinitionTree, revision: str, origin: Origin) -> tuple[Gate | None, list[str]]:
    found = list(islice(chain(_linked(tree), _misplaced(tree)), MISTAKES_SHOWN))
    listed = [path for path in sorted(tree.list(FOLDER)) if _is_definition(path)]
    sources = [source for path in listed if (source := _parsed(path, tree.read(path) or b"", found)) is not None]
    names = [_stem(path) for path in listed if path.startswith(RUBRICS)]
    file: GateFile | None = None
    rubrics: list[Rubric | None] = []
    suppressions: tuple[Suppression, ...] = ()
    for source in sources:
        if source.path == GATE_PATH:
            file = _gate_file(source, names, found)
        elif source.path == SUPPRESSIONS:
            read = _validated(SuppressionsFile, source.tables, (), source, found)
            suppressions = read.suppression if read else ()
        else:
            rubrics.append(_rubric(source, found))
    if found or not {*listed} - {SUPPRESSIONS}:
        return None, found
    file = file or GateFile(schema=1, rubrics=tuple(names))
    digests = tuple((source.path, source.digest) for source in sources)
    return Gate(file, tuple(filter(None, rubrics)), origin, revision, digests, suppressions), []


# Which files are definitions


def _is_definition(path: str) -> bool:
    name = path.removeprefix(RUBRICS)
    return path in (GATE_PATH, SUPPRESSIONS) or (name != path and "/" not in name and name.endswith(".toml"))


def _stem(path: str) -> str:
    """The file's name without `.toml`: what a rubric's id must be."""
    return path.rsplit("/", 1)[-1].removesuffix(".toml")


def _linked(tree: DefinitionTree) -> Iterator[str]:
    """A mistake for every link where a definition could stand: it must not silently count as none."""
    for path in tree.links(FOLDER):
        if path in (FOLDER, GATE_PATH) or path.startswith(RUBRICS.removesuffix("/")) or path.endswith(".toml"):
            yield f"{paths.quote(path)}: symbolic links (and submodules) are not followed; put the file itself here"


def _misplaced(tree: DefinitionTree) -> Iterator[str]:
    """A mistake for every TOML file that nothing would ever read."""
    for path in sorted(tree.list(FOLDER)):
        if path.lower().endswith(".toml") and not _is_definition(path) and path.split("/")[1] not in OTHER_FOLDERS:
            yield (
                f"{paths.quote(path)}: no definition is read from here; the gate is {GATE_PATH}, "
                f"a rubric is {RUBRICS}ID.toml"
            )


def _parsed(path: str, raw: bytes, found: list[str]) -> Source | None:
    """The file's tables, or None, and the mistake that keeps it from being read goes to `found`."""
    try:
        tables = _tables(raw)
    except _Unreadable as error:
        found.append(f"{paths.quote(path)}: {error}")
        return None
    return Source(path, tables, hashlib.sha256(raw).hexdigest())


class _Unreadable(Exception):
    """Why a file cannot be read, as people say it."""


def _tables(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise _Unreadable(f"{len(raw):,} bytes; a definition may have at most {MAX_BYTES:,}")
    try:
        text = raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"line {line}: not UTF-8 (byte {raw[error.start]:#04x}); save the file as UTF-8"
        raise _Unreadable(what) from error
    for number, line_text in enumerate(text.split("\n"), 1):
        if len(line_text) > MAX_LINE:
            what = f'line {number}: over {MAX_LINE:,} characters; break it up (long text fits in """ quotes)'
            raise _Unreadable(what)
    try:
        tables = tomllib.loads(text)
        from_json(_as_json(tables))
    except tomllib.TOMLDecodeError as error:
        raise _Unreadable(_syntax(str(error))) from error
    except (RecursionError, ValueError) as error:  # int() refuses thousands of digits
        raise _Unreadable("arrays or tables are nested too deeply, or a number has too many digits") from error
    return tables


def _as_json(tables: dict[str, Any]) -> str:
    return json.dumps(tables, default=str)


def _syntax(message: str) -> str:
    found = _TOML_PLACE.search(message)
    what = paths.quote(_TOML_PLACE.sub("", message))
    what = f"not TOML: {_PLAINER.get(what, what[:1].lower() + what[1:])}"
    if not found:
        return what
    return f"line {found[1]}, column {found[2]}: {what}" if found[1] else f"at the end of the file: {what}"


# What they say


def _validated(model: type[M], tables: dict[str, Any], prefix: Location, source: Source, found: list[str]) -> M | None:
    """The tables as `model`, or None, and their mistakes go to `found`.

    TOML has types of its own, so nothing is converted: `must = "yes"` is a mistake. Its dates are read as ISO text.
    """
    try:
        return model.model_validate_json(_as_json(tables), strict=True)
    except ValidationError as error:
        every = error.errors(include_url=False)
        # A list whose items are all wrong counts as empty, too.
        details = [detail for detail in every if not (detail["type"] == "too_short" and detail["input"])]
        found += [
            source.mistake(prefix + _location(detail), _sentence(detail, model)) for detail in details[:MISTAKES_SHOWN]
        ]
        if len(details) > MISTAKES_SHOWN:
            found.append(f"{paths.quote(source.path)}: and more mistakes like these")
        return None


def _gate_file(source: Source, rubrics: Sequence[str], found: list[str]) -> GateFile | None:
    """gate.toml; what does not fit the rubric files of these names is a mistake, too."""
    file = _validated(GateFile, source.tables, (), source, found)
    if file is None:
        return None
    named: dict[Location, Sequence[str]] = {("rubrics",): file.rubrics}
    named |= {("scope", index, "rubrics"): scope.rubrics for index, scope in enumerate(file.scope)}
    for location, names in named.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                found.append(source.mistake((*location, index), f"{_quoted(name)} is named twice"))
            elif name not in rubrics:
                found.append(source.mistake((*location, index), _missing_rubric(name, rubrics)))
    return file


def _missing_rubric(name: str, known: Sequence[str]) -> str:
    why = f"no rubric {_quoted(name)}: there is no file {paths.quote(f'{RUBRICS}{name}.toml')}"
    advice = _did_you_mean(name, known) or "write it, or take the name out"
    return f"{why} (symbolic links are not followed); {advice}"


def _rubric(source: Source, found: list[str]) -> Rubric | None:
    """The rubric; what does not fit its file's name, or the checks that there are, is a mistake, too."""
    rubric = _validated(Rubric, source.tables, (), source, found)
    if rubric is None:
        return None
    if rubric.id != _stem(source.path):
        what = f"is {_quoted(rubric.id)}, but the file's name is {_quoted(_stem(source.path))}; make them the same"
        found.append(source.mistake(("id",), what))
    for index, criterion in enumerate(rubric.criterion):
        if criterion.kind == "check":
            _check_mistakes(criterion, ("criterion", index), source, found)
    return rubric


def _check_mistakes(criterion: Criterion, location: Location, source: Source, found: list[str]) -> None:
    name = criterion.check_name
    if criterion.check == "command":
        found.append(source.mistake((*location, "check"), 'write command = ["program", "argument"] instead'))
    elif name not in CHECKS:
        what = f"no check {_quoted(name)}; {_suggestion(name, list(CHECKS), 'the checks')}"
        found.append(source.mistake((*location, "check"), what))
    else:
        _validated(CHECKS[name].options, criterion.options, (*location, "options"), source, found)


# How a mistake gets its sentence


def _sentence(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, location, value = detail["type"], _location(detail), detail["input"]
    context = detail.get("ctx", {})
    if location == ("schema",):
        return "write schema = 1 at the top of the file; a higher number asks for a newer vibe-gate"
    if kind == "extra_forbidden":
        known = list(_fields(_table_of(model, location)))
        return f"unknown key; {_suggestion(str(location[-1]), known, 'known keys here')}"
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", '"')
        words = re.findall(r'"([^"]*)"', expected)
        if detail["loc"][-1] == "[key]":
            return f"unknown name; {_suggestion(str(value), words, 'known names here')}"
        return "; ".join(filter(None, (f"must be {expected}, not {_shown(value)}", _did_you_mean(value, words))))
    if kind in _KINDS:
        return _KINDS[kind].format(value=_shown(value), array=_as_array(value, location), **context)
    if kind == "string_pattern_mismatch" and context["pattern"] == IDENTIFIER:
        return f'must be lower-case letters, digits, ".", "_" and "-", at most 64, not {_shown(value)}'
    if kind == "value_error":
        told = paths.quote(str(context["error"]))
        return f"{_quoted(value)} {told}" if isinstance(value, str) else told
    said = detail["msg"].replace("Input should be", "must be")
    return paths.quote(said[:1].lower() + said[1:])


def _location(detail: ErrorDetails) -> Location:
    """Where the mistake is. pydantic appends "[key]" if a key is wrong; an unknown key may have that very name."""
    location = detail["loc"]
    return location[:-1] if location[-1:] == ("[key]",) and detail["type"] != "extra_forbidden" else location


def _suggestion(word: str, known: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    return _did_you_mean(word, known) or f"{kind}: {', '.join(sorted(known))}"


def _did_you_mean(value: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(value[:64].lower(), known, n=1) if isinstance(value, str) else []
    return f"did you mean {_quoted(near[0])}?" if near else ""


def _quoted(text: str) -> str:
    """Text from a file in double quotes: cut, and with nothing invisible left in it."""
    cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    shown = paths.quote(cut)
    return shown if shown.startswith('"') else f'"{shown}"'


def _shown(value: object) -> str:
    """A value from a file as TOML would have it; an array or a table by its kind."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "a table"
    return str(value).lower()[:SHOWN_CHARACTERS]


def _as_array(value: object, location: Location) -> str:
    """How to write what is not an array as one."""
    if not isinstance(value, str):
        return f"[[{_dotted(location)}]] with two brackets"
    words = value.split() if location[-1] == "command" else [value]
    return f"[{', '.join(map(_quoted, words))}]"


def _dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" if _BARE_KEY.match(part) else f".{_quoted(part)}"
        for part in location
    )
    return "".join(parts).removeprefix(".")


def _table_of(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the table in which the last part of the location stands."""
    for part in location[:-1]:
        field = _fields(model).get(str(part))
        model = (_model_within(field.annotation) if field else None) or model
    return model


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _model_within(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_within(part))), None)
