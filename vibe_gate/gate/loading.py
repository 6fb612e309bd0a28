"""From a tree to the gate in force, or to every mistake at once, in the words of its file.

A mistake reads `path:line: key: what is wrong; suggestion`. Keys and values may come from a hostile tree, so each is
quoted before it becomes part of a sentence.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
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
from vibe_gate.gate.toml_lines import Location, line_of

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
    "tuple_type": "must be an array, not {value}\nwrite {array}",
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
class Mistake:
    """What is wrong, or only odd, at a line of a definition file; `str()` is the sentence.

    `file` is quoted; `key` is "" for the file as a whole; `criterion`: the id of the criterion that has the key.
    """

    file: str
    line: int
    key: str
    message: str
    suggestion: str = ""
    criterion: str = ""

    def __str__(self) -> str:
        key = self.key + (f" (id {self.criterion})" if self.criterion else "")
        what = "; ".join(filter(None, (self.message, self.suggestion)))
        return ": ".join(filter(None, (f"{self.file}:{self.line}", key, what)))


@dataclass(frozen=True, slots=True)
class Source:
    """One definition file: its text, its tables, and the sha-256 of its bytes in hex."""

    path: str
    text: str
    tables: dict[str, Any]
    digest: str

    def mistake(self, location: Location, what: str) -> Mistake:
        """The mistake about a key; in `what` a line break, which no quoted text holds, begins the suggestion."""
        name = None
        with suppress(LookupError, TypeError):
            name = self.tables["criterion"][location[1]]["id"] if location[0] == "criterion" else None
        message, _, advice = what.partition("\n")
        criterion = quoted(name) if isinstance(name, str) else ""
        line = line_of(self.text, location)
        return Mistake(paths.quote(self.path), line, _dotted(location), message, advice, criterion)

    def values(self, *path: str | None) -> list[tuple[Location, Any]]:
        """Each value at a path of keys, whether right or not, with its location; None stands for every item."""
        found: list[tuple[Location, Any]] = [((), self.tables)]
        for part in path:
            found = [((*place, key), value) for place, inner in found for key, value in _members(inner, part)]
        return found


def load_gate(tree: DefinitionTree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None if it defines none.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    gate, found = _read(tree, revision, origin)
    if found:
        raise DefinitionError(found)
    return gate


def mistakes(tree: DefinitionTree) -> list[Mistake]:
    """Every mistake in the tree's definitions, file by file; [] when all is right."""
    return _read(tree, "", "trusted")[1]


def definition_files(tree: DefinitionTree) -> list[Source]:
    """The definition files that can be read as TOML, right or not."""
    listed = [path for path in sorted(tree.list(FOLDER)) if _is_definition(path)]
    return [source for path in listed if isinstance(source := _parsed(path, tree.read(path) or b""), Source)]


def built_in_gate() -> Gate:
    """The gate for a repository without definitions: offline checks and a small general rubric."""
    files = {
        f"{FOLDER}/{file.relative_to(BUILT_IN).as_posix()}": file.read_bytes() for file in BUILT_IN.rglob("*.toml")
    }
    gate = load_gate(DefinitionFiles(files), revision="", origin="built-in")
    assert gate is not None  # the files are part of the package
    digests = tuple((path.replace(".vibe-gate/", "built-in/"), digest) for path, digest in gate.digests)
    return dataclasses.replace(gate, digests=digests)


def _read(tree: DefinitionTree, revision: str, origin: Origin) -> tuple[Gate | None, list[Mistake]]:
    found = list(islice(chain(_linked(tree), _misplaced(tree)), MISTAKES_SHOWN))
    listed = [path for path in sorted(tree.list(FOLDER)) if _is_definition(path)]
    names = [_stem(path) for path in listed if path.startswith(RUBRICS)]
    file: GateFile | None = None
    rubrics: list[Rubric | None] = []
    suppressions: tuple[Suppression, ...] = ()
    digests = []
    for path in listed:
        source = _parsed(path, tree.read(path) or b"")
        if isinstance(source, Mistake):
            found.append(source)
            continue
        digests.append((path, source.digest))
        own: list[Mistake] = []
        if path == GATE_PATH:
            file = _gate_file(source, names, own)
        elif path == SUPPRESSIONS:
            read = _validated(SuppressionsFile, source.tables, (), source, own)
            suppressions = read.suppression if read else ()
        else:
            rubrics.append(_rubric(source, own))
        found += sorted(own[:MISTAKES_SHOWN], key=lambda mistake: mistake.line)
        if len(own) > MISTAKES_SHOWN:
            found.append(Mistake(paths.quote(path), found[-1].line, "", "and more mistakes like these"))
    if found or not {*listed} - {SUPPRESSIONS}:
        return None, found
    assert None not in rubrics  # what is not right has left a mistake
    file = file or GateFile(schema=1, rubrics=tuple(names))
    return Gate(file, tuple(filter(None, rubrics)), origin, revision, tuple(digests), suppressions), []


# Which files are definitions


def _is_definition(path: str) -> bool:
    name = path.removeprefix(RUBRICS)
    return path in (GATE_PATH, SUPPRESSIONS) or (name != path and "/" not in name and name.endswith(".toml"))


def _stem(path: str) -> str:
    """The file's name without `.toml`: what a rubric's id must be."""
    return path.rsplit("/", 1)[-1].removesuffix(".toml")


def _linked(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every link where a definition could stand: it must not silently count as none."""
    what = "symbolic links (and submodules) are not followed"
    for path in tree.links(FOLDER):
        if path in (FOLDER, GATE_PATH) or path.startswith(RUBRICS.removesuffix("/")) or path.endswith(".toml"):
            yield Mistake(paths.quote(path), 1, "", what, "put the file itself here")


def _misplaced(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every TOML file that nothing would ever read."""
    advice = f"the gate is {GATE_PATH}, a rubric is {RUBRICS}ID.toml"
    for path in sorted(tree.list(FOLDER)):
        if path.lower().endswith(".toml") and not _is_definition(path) and path.split("/")[1] not in OTHER_FOLDERS:
            yield Mistake(paths.quote(path), 1, "", "no definition is read from here", advice)


def _parsed(path: str, raw: bytes) -> Source | Mistake:
    """The file's tables, or the mistake that keeps it from being read."""
    if len(raw) > MAX_BYTES:
        return Mistake(paths.quote(path), 1, "", f"{len(raw):,} bytes", f"a definition may have at most {MAX_BYTES:,}")
    try:
        text = raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        what = f"not UTF-8 (byte {raw[error.start]:#04x})"
        return Mistake(paths.quote(path), raw.count(b"\n", 0, error.start) + 1, "", what, "save the file as UTF-8")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            advice = 'break it up (long text fits in """ quotes)'
            return Mistake(paths.quote(path), number, "", f"over {MAX_LINE:,} characters", advice)
    try:
        tables = tomllib.loads(text)
        from_json(_as_json(tables))
    except tomllib.TOMLDecodeError as error:
        return _syntax(path, text, str(error))
    except (RecursionError, ValueError):  # int() refuses thousands of digits
        what = "arrays or tables are nested too deeply, or a number has too many digits"
        return Mistake(paths.quote(path), 1, "", what)
    return Source(path, text, tables, hashlib.sha256(raw).hexdigest())


def _as_json(tables: dict[str, Any]) -> str:
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


def _validated(
    model: type[M], tables: dict[str, Any], prefix: Location, source: Source, found: list[Mistake]
) -> M | None:
    """The tables as `model`, or None, and their mistakes go to `found`.

    TOML has types of its own, so nothing is converted: `must = "yes"` is a mistake. Its dates are read as ISO text.
    """
    try:
        return model.model_validate_json(_as_json(tables), strict=True)
    except ValidationError as error:
        every = error.errors(include_url=False)
        # A list whose items are all wrong counts as empty, too. Ids that appear twice are found by _rubric.
        details = [one for one in every if one["loc"] and not (one["type"] == "too_short" and one["input"])]
        found += [
            source.mistake(prefix + _location(one), _sentence(one, model)) for one in details[: MISTAKES_SHOWN + 1]
        ]
        return None


def _gate_file(source: Source, rubrics: Sequence[str], found: list[Mistake]) -> GateFile | None:
    """gate.toml; what does not fit the rubric files of these names is a mistake, too."""
    file = _validated(GateFile, source.tables, (), source, found)
    seen = set()
    for location, name in source.values("rubrics", None) + source.values("scope", None, "rubrics", None):
        if not _is_identifier(name) or len(found) > MISTAKES_SHOWN:
            continue
        if (location[:-1], name) in seen:
            found.append(source.mistake(location, f"{quoted(name)} is named twice"))
        elif name not in rubrics:
            found.append(source.mistake(location, _missing_rubric(name, rubrics)))
        seen.add((location[:-1], name))
    return file


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(IDENTIFIER, name) is not None


def _missing_rubric(name: str, known: Sequence[str]) -> str:
    why = f"no rubric {quoted(name)}: there is no file {paths.quote(f'{RUBRICS}{name}.toml')}"
    advice = _did_you_mean(name, known) or "write it, or take the name out"
    return f"{why} (symbolic links are not followed)\n{advice}"


def _rubric(source: Source, found: list[Mistake]) -> Rubric | None:
    """The rubric; what does not fit its file's name, or the checks that there are, is a mistake, too."""
    rubric = _validated(Rubric, source.tables, (), source, found)
    name, stem = source.tables.get("id"), _stem(source.path)
    if _is_identifier(name) and name != stem:
        what = f"is {quoted(str(name))}, but the file's name is {quoted(stem)}\nmake them the same"
        found.append(source.mistake(("id",), what))
    first: dict[object, Location] = {}
    for location, criterion in source.values("criterion", None):
        if not isinstance(criterion, dict) or len(found) > MISTAKES_SHOWN:
            continue
        key = criterion.get("id")
        if _is_identifier(key) and first.setdefault(key, location) != location:
            found.append(source.mistake((*location, "id"), f"is the id of {_dotted(first[key])}, too"))
        if rubric is None:
            _contradiction(criterion, location, source, found)
        if criterion.get("kind") == "check":
            _check_mistakes(criterion, location, source, found)
    return rubric


def _contradiction(criterion: dict[str, Any], location: Location, source: Source, found: list[Mistake]) -> None:
    """Add what is wrong with a criterion as a whole: pydantic does not say it while one of its keys is wrong."""
    if criterion.get("kind") not in ("judge", "check") or not criterion.keys() <= Criterion.model_fields.keys():
        return  # what was meant is not known
    try:
        Criterion.model_construct(**criterion).require_agreement()  # type: ignore[operator]
    except ValueError as error:
        mistake = source.mistake(location, str(error))
        found += [mistake] if mistake not in found else []
    except (TypeError, AttributeError):
        return  # a key whose type is wrong


def _check_mistakes(criterion: dict[str, Any], location: Location, source: Source, found: list[Mistake]) -> None:
    name = criterion.get("check", "command" if "command" in criterion else None)
    options = criterion.get("options", {})
    if criterion.get("check") == "command":
        found.append(source.mistake((*location, "check"), 'write command = ["program", "argument"] instead'))
    elif isinstance(name, str) and name not in CHECKS:
        what = f"no check {quoted(name)}\n{suggestion(name, list(CHECKS), 'the checks')}"
        found.append(source.mistake((*location, "check"), what))
    elif isinstance(name, str) and isinstance(options, dict):
        _validated(CHECKS[name].options, options, (*location, "options"), source, found)


# How a mistake gets its sentence


def _sentence(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, location, value = detail["type"], _location(detail), detail["input"]
    context = detail.get("ctx", {})
    if location == ("schema",):
        return "write schema = 1 at the top of the file\na higher number asks for a newer vibe-gate"
    if kind == "extra_forbidden":
        known = list(_fields(_table_of(model, location)))
        return f"unknown key\n{suggestion(str(location[-1]), known, 'known keys here')}"
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", '"')
        words = re.findall(r'"([^"]*)"', expected)
        if detail["loc"][-1] == "[key]":
            return f"unknown name\n{suggestion(str(value), words, 'known names here')}"
        return "\n".join(filter(None, (f"must be {expected}, not {_shown(value)}", _did_you_mean(value, words))))
    if kind in _KINDS:
        return _KINDS[kind].format(value=_shown(value), array=_as_array(value, location), **context)
    if kind == "string_pattern_mismatch" and context["pattern"] == IDENTIFIER:
        return f'must be lower-case letters, digits, ".", "_" and "-", at most 64, not {_shown(value)}'
    if kind == "value_error":
        told = paths.quote(str(context["error"]))
        return f"{quoted(value)} {told}" if isinstance(value, str) else told
    said = detail["msg"].replace("Input should be", "must be")
    return paths.quote(said[:1].lower() + said[1:])


def _location(detail: ErrorDetails) -> Location:
    """Where the mistake is. pydantic appends "[key]" if a key is wrong; an unknown key may have that very name."""
    location = detail["loc"]
    return location[:-1] if location[-1:] == ("[key]",) and detail["type"] != "extra_forbidden" else location


def suggestion(word: str, known: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    return _did_you_mean(word, known) or f"{kind}: {', '.join(sorted(known))}"


def _did_you_mean(value: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(value[:64].lower(), known, n=1) if isinstance(value, str) else []
    return f"did you mean {quoted(near[0])}?" if near else ""


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
        return f"[[{_dotted(location)}]] with two brackets"
    words = value.split() if location[-1] == "command" else [value]
    return f"[{', '.join(map(quoted, words))}]"


def _dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{part}" if _BARE_KEY.match(part) else f".{quoted(part)}"
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
