"""Mistakes in definitions, in plain sentences.

Two kinds: what pydantic found, said in the words of the file (`parsed`), and what no single key shows: names that
lead nowhere, globs and commands that cannot work. A mistake reads `path: key: what is wrong; suggestion`. Keys and
values may come from a hostile tree, so each is quoted before it becomes part of a sentence.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression

FOLDER = ".vibe-gate"
GATE_PATH = f"{FOLDER}/gate.toml"
RUBRICS = f"{FOLDER}/rubrics/"
SUPPRESSIONS = f"{FOLDER}/suppressions.toml"


@dataclass(frozen=True, slots=True)
class Source:
    """One definition file: its tables, and the sha-256 of its bytes in hex."""

    path: str
    tables: dict[str, Any]
    digest: str

    @property
    def stem(self) -> str:
        """The file's name without `.toml`: what a rubric's id must be."""
        return self.path.rsplit("/", 1)[-1].removesuffix(".toml")


Location = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)

SHOWN_CHARACTERS = 60
"""Values and keys are cut here: a mistake is a sentence, not a copy of the file."""

ROUNDS = 4
"""A mistake can hide others behind it (a misspelt table name hides what is in the table)."""

ENOUGH = 200
"""Mistakes looked into at a time; a hostile file can hold hundreds of thousands."""

_HARMLESS_TO_MEND = ("extra_forbidden", "missing", "value_error", "too_short")
"""Mending these takes no known key out of a table, so what is told of the table next is true."""

_BARE_KEY = expression(r"[A-Za-z0-9_-]{1,64}\Z")
_KINDS = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "tuple_type": "an array",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def quoted(text: str) -> str:
    """Text from a file in double quotes: cut, and with nothing invisible left in it."""
    cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    shown = paths.quote(cut)
    return shown if shown.startswith('"') else f'"{shown}"'


def inline(text: str) -> str:
    """A message that may carry text from a file, safe to print."""
    return paths.quote(text)


def dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    out = ""
    for part in location:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _BARE_KEY.match(part) else quoted(part))
    return out


def shown_value(value: object) -> str:
    """A value in a sentence."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)[:SHOWN_CHARACTERS]
    if isinstance(value, list):
        return "an array"
    return "a table" if isinstance(value, dict) else "a date or time"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    found = difflib.get_close_matches(word[:64].lower(), known, n=1)
    return found[0] if found else None


def suggestion(word: str, known: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    near = nearest(word, known)
    return f'did you mean "{near}"?' if near else f"{kind}: {', '.join(sorted(known))}"


def parsed(
    model: type[M], tables: dict[str, Any], prefix: Location = ()
) -> tuple[M | None, list[tuple[Location, str]]]:
    """The tables as `model`, or None with every mistake as (location, what is wrong).

    After each round what was found is mended in a copy and the rest validated again,
    so that one mistake does not hide another. TOML has types of its own, so nothing
    is converted: `must = "yes"` is a mistake.
    """
    work = copy.deepcopy(tables)
    found: dict[Location, str] = {}
    removed: list[Location] = []
    for _ in range(ROUNDS):
        value, details = _validated(model, work)
        removed += [_location(detail) for detail in details if detail["type"] not in _HARMLESS_TO_MEND]
        fresh = _fresh(details, found, removed, model)
        for detail in fresh:
            found[_location(detail)] = _sentence(detail, model, at(work, _location(detail)))
        for detail in fresh:
            _mend(work, detail, model)
        if not fresh:
            break
    return None if found else value, [(prefix + location, what) for location, what in found.items()]


def _validated(model: type[M], tables: dict[str, Any]) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate_json(json.dumps(tables, default=_foreign), strict=True), []
    except ValidationError as error:
        return None, error.errors(include_url=False)[:ENOUGH]


def _fresh(
    details: list[ErrorDetails], found: dict[Location, str], removed: list[Location], model: type[BaseModel]
) -> list[ErrorDetails]:
    """The errors that are mistakes of their own: neither told already nor only what another one leaves behind."""
    here = [_location(detail) for detail in details]
    told = {*found, *(_meant(detail, model) for detail in details)}
    return [
        detail
        for detail, location in zip(details, here, strict=True)
        if location not in told
        # A table from which a wrong key was taken is no longer as its author meant it.
        and not (detail["type"] == "value_error" and _any_below(location, removed))
        # Items with mistakes are not counted.
        and not (detail["type"] == "too_short" and _any_below(location, here))
    ]


def at(tables: object, location: Location) -> object:
    """The value that stands at a location; None where there is nothing."""
    for part in location:
        inside = part in tables if isinstance(tables, dict) else _is_index(part, tables)
        if not inside:
            return None
        tables = tables[part]  # type: ignore[index]
    return tables


def _is_index(part: int | str, value: object) -> bool:
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _foreign(_: object) -> dict[str, object]:
    return {}  # a table, so that it fits where text is wanted no more than a date does


def _location(detail: ErrorDetails) -> Location:
    """Where the mistake is. pydantic appends "[key]" if a key is wrong; an unknown key may have that very name."""
    location = detail["loc"]
    return location[:-1] if location[-1:] == ("[key]",) and detail["type"] != "extra_forbidden" else location


def _any_below(location: Location, others: list[Location]) -> bool:
    return any(len(other) > len(location) and other[: len(location)] == location for other in others)


def _mend(work: dict[str, Any], detail: ErrorDetails, model: type[BaseModel]) -> None:
    location = _location(detail)
    parent = at(work, location[:-1])
    if not location or not isinstance(parent, dict):
        return
    name = str(location[-1])
    value = parent.pop(name, None)
    if name == "schema":
        parent[name] = 1
    elif name == "id":
        parent[name] = "-".join(str(part) for part in location)
    elif (meant := _meant(detail, model)) and meant[-1] not in parent:
        parent[str(meant[-1])] = value


def _meant(detail: ErrorDetails, model: type[BaseModel]) -> Location | None:
    """The key that an unknown one was probably meant to be; None for other mistakes."""
    location = _location(detail)
    near = nearest(str(location[-1]), known_keys(model, location)) if detail["type"] == "extra_forbidden" else None
    return (*location[:-1], near) if near else None


def known_keys(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that may stand where the last part of the location does."""
    return list(_fields(_table_of(model, location)))


def _holds_tables(model: type[BaseModel], location: Location) -> bool:
    field = _fields(_table_of(model, location)).get(str(location[-1]))
    return field is not None and _model_within(field.annotation) is not None


def _table_of(model: type[BaseModel], location: Location) -> type[BaseModel]:
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


def _sentence(detail: ErrorDetails, model: type[BaseModel], value: object) -> str:
    kind, location = detail["type"], _location(detail)
    context = detail.get("ctx", {})
    name = str(location[-1]) if location else ""
    if location == ("schema",):
        return _schema_sentence(value)
    if kind == "extra_forbidden":
        return f"unknown key; {suggestion(name, known_keys(model, location), 'known keys here')}"
    if kind == "missing":
        return "is missing"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context["expected"]))
        if detail["loc"][-1] == "[key]":
            return f"unknown name; {suggestion(name, words, 'known names here')}"
        return f"must be {_either(words)}, not {shown_value(value)}{_did_you_mean(value, words)}"
    if kind in _KINDS:
        return _wrong_kind(kind, location, model, value)
    if kind in _BOUNDS:
        bound, key = _BOUNDS[kind]
        return f"must be {bound} {context[key]:g}, not {shown_value(value)}"
    return _rarer(detail, value)


def _rarer(detail: ErrorDetails, value: object) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return f'must be lower-case letters, digits, ".", "_" and "-", at most 64, not {shown_value(value)}'
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind == "value_error":
        return inline(str(context["error"]))
    said = detail["msg"].replace("Input should be", "must be")
    return inline(said[:1].lower() + said[1:])


def _schema_sentence(value: object) -> str:
    if value is None:
        return "is missing; write schema = 1 at the top of the file"
    if isinstance(value, int) and not isinstance(value, bool) and value > 1:
        return f"schema {shown_value(value)} was written for a newer vibe-gate; this one reads schema = 1: upgrade it"
    return f"must be 1, not {shown_value(value)}; write schema = 1"


def _wrong_kind(kind: str, location: Location, model: type[BaseModel], value: object) -> str:
    said = f"must be {_KINDS[kind]}, not {shown_value(value)}"
    if kind not in ("tuple_type", "list_type"):
        return said
    if _holds_tables(model, location):
        return f"{said}; write [[{dotted(location)}]] with two brackets"
    return f"{said}; write [{quoted(value)}]" if isinstance(value, str) else said


def _either(words: list[str]) -> str:
    shown = [f'"{word}"' for word in words]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _did_you_mean(value: object, words: list[str]) -> str:
    near = nearest(value, words) if isinstance(value, str) else None
    return f'; did you mean "{near}"?' if near else ""


_RANGE = expression(r"\[[^\]]*?([^\[\]!^])-([^\]])")
"""The first range of a set in a glob, as its two ends."""

GLOB_OPTIONS = ("paths", "exclude", "tests", "changed", "companion")
"""Options of checks that hold globs; one word for one thing, whatever the check."""

Found = Iterator[tuple[Location, str]]


def gate_mistakes(gate: Source, rubrics: list[str]) -> Found:
    """What is wrong with gate.toml, given the names of the rubric files."""
    yield from _schema(gate)
    yield from _references(gate.tables.get("rubrics"), ("rubrics",), rubrics)
    for index, scope in enumerate(_tables(gate.tables.get("scope"))):
        yield from _references(scope.get("rubrics"), ("scope", index, "rubrics"), rubrics)
        yield from _globs(scope.get("paths"), ("scope", index, "paths"))
    policy = gate.tables.get("policy")
    if isinstance(policy, dict):
        for key in ("block", "warn"):
            yield from _globs(policy.get(key), ("policy", key))
    model = gate.tables.get("model")
    if isinstance(model, dict):
        yield from _model_name(model.get("default"), ("model", "default"))


def rubric_mistakes(rubric: Source) -> Found:
    """What is wrong with one rubric's file."""
    yield from _schema(rubric)
    name = rubric.tables.get("id")
    if isinstance(name, str) and name != rubric.stem:
        yield ("id",), f"is {quoted(name)}, but the file's name is {quoted(rubric.stem)}; make them the same"
    yield from _model_name(rubric.tables.get("model"), ("model",))
    first: dict[str, int] = {}
    for index, criterion in enumerate(_tables(rubric.tables.get("criterion"))):
        where: Location = ("criterion", index)
        name = criterion.get("id")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield (
                (*where, "id"),
                f"{quoted(name)} is taken by criterion[{first[name]}]; each id stands for one criterion",
            )
        yield from _globs(criterion.get("paths"), (*where, "paths"))
        yield from _command(criterion.get("command"), (*where, "command"))
        if criterion.get("kind") != "judge":
            yield from _check(criterion, where)
        question = criterion.get("question")
        if isinstance(question, str) and question and not question.strip():
            yield (*where, "question"), "must not be blank"


def suppression_mistakes(file: Source) -> Found:
    """What is wrong with suppressions.toml."""
    yield from _schema(file)
    for index, rule in enumerate(_tables(file.tables.get("suppression"))):
        yield from _globs(rule.get("paths"), ("suppression", index, "paths"))


def _schema(source: Source) -> Found:
    value = source.tables.get("schema")
    if value == 1 and type(value) is not int:  # true and 1.0 equal 1 in Python, but not in TOML
        yield ("schema",), f"must be 1, not {shown_value(value)}"


def _tables(value: object) -> list[dict[str, Any]]:
    """The tables of an array of tables; what is none is told of elsewhere, and stands here as {} to keep the count."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def _texts(value: object) -> list[tuple[int, str]]:
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def _references(value: object, where: Location, known: list[str]) -> Found:
    seen: set[str] = set()
    for index, name in _texts(value):
        if name in seen:
            yield (*where, index), f"{quoted(name)} is named twice"
        elif name not in known:
            yield (*where, index), _missing_rubric(name, known)
        seen.add(name)


def _globs(value: object, where: Location) -> Found:
    for index, pattern in _texts(value):
        wrong = _glob_mistake(pattern)
        if wrong:
            yield (*where, index), wrong


def _glob_mistake(pattern: str) -> str | None:
    """Why a glob would never match as meant; None where it can."""
    if not pattern.strip("/ "):
        return "a glob must not be empty; leave the key out to mean every file"
    if pattern != pattern.strip():
        return f"{quoted(pattern)} begins or ends with a space, and no file's name would match"
    if pattern.startswith("!"):
        return f'{quoted(pattern)}: "!" does not negate here; name the paths that are meant'
    if pattern.startswith("./"):
        return f"{quoted(pattern)} starts with ./; globs start at the repository's root: write {quoted(pattern[2:])}"
    if ".." in pattern.split("/"):
        return f"{quoted(pattern)} leaves the repository; globs start at its root"
    if any(low > high for low, high in _RANGE.findall(pattern)):
        return f"{quoted(pattern)} has a set [...] whose range runs backwards; nothing would match it"
    return None


def _command(value: object, where: Location) -> Found:
    for index, word in _texts(value):
        if "\0" in word:
            yield (*where, index), "no argument can hold a NUL character"
        elif index == 0 and not word.strip():
            yield (*where, index), "must be the program's name, not blank"


def _check(criterion: dict[str, Any], where: Location) -> Found:
    """An unknown check, or options that the check does not have."""
    name, options = criterion.get("check"), criterion.get("options", {})
    if name == "command":
        yield (*where, "check"), 'write command = ["program", "argument"] instead'
        return
    if name is None and isinstance(criterion.get("command"), list):
        name = "command"
    if not isinstance(name, str):
        return
    if name not in CHECKS:
        yield (*where, "check"), f"no check {quoted(name)}; {suggestion(name, list(CHECKS), 'the checks')}"
    elif isinstance(options, dict):
        yield from parsed(CHECKS[name].options, options, (*where, "options"))[1]
        for key in GLOB_OPTIONS:
            yield from _globs(options.get(key), (*where, "options", key))


def _model_name(value: object, where: Location) -> Found:
    if isinstance(value, str) and (not value.strip() or not paths.is_plain(value)):
        yield where, f"must be the name of a language model, not {quoted(value)}"


def _missing_rubric(name: str, known: list[str]) -> str:
    """Why a rubric that gate.toml names is not there, and which one may be meant."""
    why = f"no rubric {quoted(name)}: there is no file {paths.quote(f'{RUBRICS}{name}.toml')}"
    near = difflib.get_close_matches(name[:64], known, n=1)
    advice = f"did you mean {quoted(near[0])}?" if near else "write it, or take the name out"
    return f"{why} (symbolic links are not followed); {advice}"
